"""The library as a whole: what it needs, what it refuses, and that threads, forks and wide instructions do no harm."""

from __future__ import annotations

import ctypes
import multiprocessing
import platform
import re
import subprocess
import threading
from pathlib import Path
from typing import Any, Callable, Dict, List

import numpy as np
import pytest

from farm import recipe
from tests.kernels_cpu.abi import (
    INVALID_ARGUMENT,
    Context,
    Conv,
    ConvBackward,
    ConvUpdate,
    KernelError,
    Kernels,
    Scan,
    ScanBackward,
    address,
    unlike,
    view,
)
from tests.kernels_cpu.conftest import load_as
from tests.kernels_cpu.scans import Case, make_arguments, run_scan

X86 = platform.machine() == "x86_64"


def _tool(*command: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def test_needs_only_an_old_glibc(library: Path) -> None:
    versions = {
        tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([\d.]+)", _tool("readelf", "-V", str(library)))
    }
    assert max(versions) <= (2, 17)
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", _tool("readelf", "-d", str(library)))
    assert {name.split(".")[0] for name in needed} <= {
        "libc",
        "libdl",
        "libpthread",
        "libm",
        "ld-linux-x86-64",
        "ld-linux-aarch64",
    }


def test_exports_two_functions(library: Path) -> None:
    symbols = _tool("nm", "-D", "--defined-only", str(library))
    assert {line.split()[-1] for line in symbols.splitlines()} == {"mamba_kernels_abi_version", "mamba_kernels_table"}


@pytest.mark.skipif(not X86, reason="one instruction set elsewhere")
def test_no_wide_instruction_outside_its_object(objects: Dict[str, Path]) -> None:
    """Neither as code of the baseline, nor as a symbol that the linker could take from a wide object for all."""
    for name in ("dispatch", "baseline"):
        code = _tool("objdump", "-d", "--no-show-raw-insn", str(objects[name]))
        assert not re.search(r"%[yz]mm|\sv[a-z]+ps\s", code), name
    assert not re.search(r"%zmm|%k[1-7]", _tool("objdump", "-d", "--no-show-raw-insn", str(objects["avx2"])))
    for isa in recipe.CPU_ISAS["x86_64"]:
        defined = [line.split()[1:] for line in _tool("nm", "-C", "--defined-only", str(objects[isa])).splitlines()]
        shared = [(kind, name) for kind, name in ((d[0], " ".join(d[1:])) for d in defined) if kind.isupper()]
        assert shared == [("D", f"mamba::{isa}::variant")]


def test_describes_itself(kernels: Kernels) -> None:
    assert kernels.library.mamba_kernels_abi_version() == kernels.table.abi_version == 1
    assert kernels.table.device_type == 0
    assert kernels.table.device_count() == 1
    assert kernels.describe() in ("baseline", "avx2", "avx512")


def test_an_unknown_instruction_set_is_ignored_aloud(library: Path, tmp_path: Path) -> None:
    description = load_as(library, "sse9", tmp_path).describe()
    assert "MAMBA_CPU_ISA ignored: `sse9` is not one of baseline" in description


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_threads_change_nothing(every_isa: Dict[str, Kernels], dtype: str) -> None:
    case = Case(dim=150, length=600, state=16, groups=3, dtype=dtype, batch=3)
    arguments = make_arguments(case)
    for kernels in every_isa.values():
        once = run_scan(kernels, case, arguments, threads=1)
        for threads in (2, 3, 64):
            for name, array in run_scan(kernels, case, arguments, threads).items():
                assert array.tobytes() == once[name].tobytes(), (name, threads)


def test_calls_from_several_threads(kernels: Kernels) -> None:
    case = Case(dim=64, length=400, state=16)
    arguments = make_arguments(case)
    expected = run_scan(kernels, case, arguments)["dB"].tobytes()
    got: List[bytes] = []
    callers = [
        threading.Thread(target=lambda: got.append(run_scan(kernels, case, arguments, 2)["dB"].tobytes()))
        for _ in range(4)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert got == [expected] * 4


def _in_child(kernels: Kernels, case: Case, arguments: Any, pipe: Any) -> None:
    pipe.send(run_scan(kernels, case, arguments, threads=2)["dB"].tobytes())
    pipe.close()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Python's own, about forking with threads: the point here
def test_works_after_a_fork(kernels: Kernels) -> None:
    case = Case(dim=64, length=400, state=16)
    arguments = make_arguments(case)
    expected = run_scan(kernels, case, arguments, threads=2)["dB"].tobytes()
    fork = multiprocessing.get_context("fork")
    ours, theirs = fork.Pipe()
    child = fork.Process(target=_in_child, args=(kernels, case, arguments, theirs))
    child.start()
    assert ours.poll(60), "the child did not answer"
    assert ours.recv() == expected
    child.join()
    assert child.exitcode == 0


def _scan(**changes: Any) -> Scan:
    data, weights = np.ones((1, 4, 8), np.float32), np.ones((4, 2), np.float32)
    params = Scan(1, 4, 8, 2, 1, 0, 0, 0, 0)
    params.u, params.delta, params.out = view(data), view(data), view(np.ones_like(data))
    params.A, params.B, params.C = view(weights), view(weights), view(weights)
    for name, value in changes.items():
        setattr(params, name, value)
    return params


def _conv(kind: Callable[..., Any] = Conv, **changes: Any) -> Any:
    data, weight = np.ones((1, 4, 8), np.float32), np.ones((4, 4), np.float32)
    params = kind()
    params.batch, params.dim, params.length, params.width = 1, 4, 8, 4
    params.x, params.out, params.weight = view(data), view(data), view(weight)
    for name, value in changes.items():
        setattr(params, name, value)
    return params


@pytest.mark.parametrize(
    "function,params,sentence",
    [
        ("selective_scan_fwd", _scan(state=257), "`state` must be from 1 to 256, got: `257`"),
        ("selective_scan_fwd", _scan(state=0), "`state` must be from 1 to 256, got: `0`"),
        ("selective_scan_fwd", _scan(groups=3), "`dim` must be a multiple of `groups` (3), got: `4`"),
        ("selective_scan_fwd", _scan(length=0), "`length` must be at least 1, got: `0`"),
        ("selective_scan_fwd", _scan(batch=-1), "`batch` must be at least 0, got: `-1`"),
        ("selective_scan_fwd", _scan(dtype=7), "`dtype` must be 0 (float32), 1 (float16) or 2 (bfloat16), got: `7`"),
        ("selective_scan_fwd", _scan(variable_B=2), "`variable_B` must be from 0 to 1, got: `2`"),
        ("selective_scan_fwd", _scan(u=view(None)), "`u` is required, got: `null`"),
        ("selective_scan_fwd", _scan(batch=1 << 60), "batch x dim x length x state must be fewer than 2^57 elements"),
        ("selective_scan_bwd", ScanBackward(forward=_scan()), "`dA` is required, got: `null`"),
        ("causal_conv1d_fwd", _conv(width=5), "`width` must be from 2 to 4, got: `5`"),
        ("causal_conv1d_fwd", _conv(weight_dtype=-1), "`weight_dtype` must be 0 (float32)"),
        ("causal_conv1d_bwd", ConvBackward(forward=_conv()), "`dweight` is required, got: `null`"),
        ("causal_conv1d_update", _conv(ConvUpdate, state_length=2), "`state_length` must be at least 3, got: `2`"),
    ],
)  # fmt: skip
def test_refuses_with_a_sentence(kernels: Kernels, function: str, params: Any, sentence: str) -> None:
    with pytest.raises(KernelError, match=re.escape(sentence)) as raised:
        kernels.call(function, params)
    assert raised.value.status == INVALID_ARGUMENT
    assert str(raised.value).startswith(f"{function}: ")


def test_a_gradient_stands_or_falls_with_its_argument(kernels: Kernels) -> None:
    some = unlike((64,), "float32")
    back = ScanBackward(forward=_scan(checkpoints=address(some)))
    back.dA = back.dB = back.dC = back.dD = address(some)
    with pytest.raises(KernelError, match="`dD` must be null, because `D` is, got: `a pointer`"):
        kernels.call("selective_scan_bwd", back)


def test_refuses_no_threads(kernels: Kernels) -> None:
    with pytest.raises(KernelError, match="`num_threads` must be at least 1, got: `0`"):
        kernels.call("selective_scan_fwd", _scan(), threads=0)


def test_errors_belong_to_the_thread(kernels: Kernels) -> None:
    with pytest.raises(KernelError):
        kernels.call("selective_scan_fwd", _scan(state=0))
    seen: List[bytes] = []
    other = threading.Thread(target=lambda: seen.append(kernels.table.last_error()))
    other.start()
    other.join()
    assert seen == [b""]


def test_a_wrong_shape_has_no_checkpoints(kernels: Kernels) -> None:
    assert kernels.checkpoints(_scan(state=0)) == -1


@pytest.mark.parametrize("state", [1, 16, 32, 64, 256])
def test_checkpoints_stay_small(kernels: Kernels, state: int) -> None:
    """At most a sixteenth of all states, and about twice u in float32."""
    count = kernels.checkpoints(_scan(batch=3, dim=40, length=4096, state=state))
    assert 0 < count <= 3 * 40 * 4096 * min(state / 16, 2)


def test_an_empty_batch_has_zero_gradients(kernels: Kernels) -> None:
    shape = {"dA": (4, 2), "dB": (4, 2), "dC": (4, 2)}
    gradients = {name: unlike(size, "float32") for name, size in shape.items()}
    back = ScanBackward(forward=_scan(batch=0, u=view(None), delta=view(None), out=view(None)))
    for name, array in gradients.items():
        setattr(back, name, address(array))
    kernels.call("selective_scan_fwd", back.forward)
    kernels.call("selective_scan_bwd", back)
    assert not any(array.any() for array in gradients.values())
    dweight = unlike((4, 4), "float32")
    conv = _conv(batch=0, x=view(None), out=view(None))
    kernels.call("causal_conv1d_fwd", conv)
    kernels.call("causal_conv1d_bwd", ConvBackward(forward=conv, dweight=address(dweight)))
    assert not dweight.any()


def test_the_context_is_required(kernels: Kernels) -> None:
    assert kernels.table.selective_scan_fwd(ctypes.byref(_scan()), ctypes.POINTER(Context)()) == INVALID_ARGUMENT
    assert kernels.table.last_error() == b"selective_scan_fwd: `context` is required, got: `null`"

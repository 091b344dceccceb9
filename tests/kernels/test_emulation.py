"""Planted bugs: what the emulated GPU must say about kernels that would be wrong on a real one."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tests.kernels import abi, build
from tests.kernels.arrays import Memory, decode, encode
from tests.kernels.conftest import DRIVER_VARIABLE
from tests.kernels.test_selective_scan import Case, check

CASE = Case(length=300, initial_state=True, dlast_state=True)


@dataclass(frozen=True)
class Bug:
    """A change of one kernel's text and the diagnosis it must lead to."""

    name: str
    file: str
    old: str
    new: str
    diagnosis: str
    case: Case = CASE

    def plant(self, text: str) -> str:
        assert self.old in text, f"{self.file} no longer has {self.old!r}"
        return text.replace(self.old, self.new, 1)


FORWARD, BACKWARD = "selective_scan/forward.cuh", "selective_scan/backward.cuh"
BUGS = (
    Bug("no block barrier", FORWARD, "__syncthreads();", "", "race: "),
    Bug("no warp barrier", BACKWARD, "__syncwarp();", "", "(race: |uninitialised ).*dynamic shared memory"),
    Bug("warp totals in one buffer", FORWARD, "step & 1", "0", "race: "),
    Bug("carry not initialised", FORWARD, "carry[n] = ", "(void)", "read of uninitialised dynamic shared memory"),
    Bug(
        "sum across blocks without atomics",
        BACKWARD,
        "atomicAdd(g.dA + channel * state + n, dA_sum[n]);",
        "g.dA[channel * state + n] += dA_sum[n];",
        "race between blocks: dA",
    ),
    Bug("half a warp in a shuffle", "common/warp.cuh", "0xffffffffu", "0xffffu", "is not in mask 0x0000ffff"),
    Bug("a barrier for some", FORWARD, "__syncthreads();", "if (lane < 16) __syncthreads();", "deadlock|race"),
    Bug("idle threads leave", FORWARD, "unsigned step = 0;", "if (thread * kItems > 300) return; unsigned step = 0;", "exited"),
    Bug("loads not masked", "common/numeric.cuh", "i < valid ? to_float(from[i * row.step]) : 0.f",
        "to_float(from[i * row.step])", "runs past|wild read"),
    Bug("stores not masked", "common/numeric.cuh", "if (i < valid) from_float(to", "from_float(to",
        "runs past out|wild write|race between blocks: out"),
    Bug("vectors without alignment", "common/numeric.cuh", "row.vector && valid", "valid", "misaligned 16-byte",
        case=Case(layout="padded")),
    Bug("padding of the transpose forgotten", BACKWARD, "lane * kTransposeRow + i", "lane * (kTransposeRow + 1) + i",
        "race|uninitialised|wild|runs past"),
)  # fmt: skip


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name.replace(" ", "-"))
def test_a_planted_bug_is_found(
    bug: Bug,
    tmp_path: Path,
    machine_objects: list[Path],
    library_path: Path,
    memory: Memory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = tmp_path / "csrc"
    for folder in ("common", "selective_scan"):
        shutil.copytree(build.CSRC / folder, source / folder)
    broken = source / bug.file
    broken.write_text(bug.plant(broken.read_text()))
    unit = build.compile_kernels(source / "selective_scan/selective_scan.cu", tmp_path / "unit.o", [f"-I{source}"])
    driver_path = build.link_driver([unit, *machine_objects], tmp_path / "libcuda_broken.so")
    monkeypatch.setenv(DRIVER_VARIABLE, str(driver_path))
    kernels = abi.Kernels(Path(shutil.copy(library_path, tmp_path)))
    own = Memory(type(memory.driver)(str(driver_path)))
    with pytest.raises(abi.KernelError, match=bug.diagnosis) as found:
        check(kernels, own, bug.case)
    assert "the CUDA driver failed in mamba_scan_" in str(found.value)


def test_half_precision_rounds_as_numpy_does() -> None:
    """The emulation's own conversions are compared by the kernels' tests; this one holds the tests' bfloat16 to account."""
    values = np.array([1.0, 1.00390625, 1.01171875, -3.14159, 1e-40, 65504.0])
    back = decode(encode(values, "bfloat16"), "bfloat16")
    assert np.all(np.abs(back - values) <= np.abs(values) * 2**-8 + 1e-40)
    assert back[1] == 1.0
    assert back[2] == 1.015625

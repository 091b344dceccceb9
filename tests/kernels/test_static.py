"""The gate on the compiled kernels: no spill and no local memory, on any architecture that wheels are built for."""

from __future__ import annotations

import ctypes
import json
from pathlib import Path
from typing import Tuple

import pytest

from farm.toolchains import find_system_toolchain
from scripts.kernel_coverage import coverage_rows, read_gcov
from scripts.kernel_report import ARCHS, Kernel, ReportError, compile_units, kernel_table, read_ptxas
from tests.kernels.test_every_kernel import kernel_names

SAID = """\
ptxas info    : Compiling entry function 'mamba_two' for 'sm_90'
ptxas info    : Function properties for mamba_two
    24 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 168 registers, used 1 barriers, 128 bytes smem, 1120 bytes cmem[0]
ptxas info    : Compiling entry function 'mamba_one' for 'sm_120'
ptxas info    : Function properties for mamba_one
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 48 registers, used 0 barriers
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Tuple[Kernel, ...]:
    toolchain = find_system_toolchain()
    if toolchain is None:
        pytest.skip("no nvcc: not in CUDA_HOME, on PATH or in /usr/local/cuda")
    missing = [arch for arch in ARCHS if arch not in toolchain.archs]
    if missing:
        pytest.skip(f"nvcc {toolchain.release} does not know the architectures {', '.join(missing)}")
    return compile_units(toolchain, ARCHS, tmp_path_factory.mktemp("static"))


def test_no_kernel_spills_or_uses_local_memory(compiled: Tuple[Kernel, ...]) -> None:
    bad = [kernel for kernel in compiled if not kernel.clean]
    assert not bad, kernel_table(bad)


def test_every_kernel_is_compiled_for_every_architecture(compiled: Tuple[Kernel, ...], driver: ctypes.CDLL) -> None:
    """And the emulated GPU, which runs them all, has the same kernels."""
    expected = {(name, arch) for name in kernel_names(driver) for arch in ARCHS}
    assert {(kernel.name, kernel.arch) for kernel in compiled} == expected
    assert len(compiled) == len(expected)


def test_what_ptxas_says_is_read() -> None:
    one, two = read_ptxas(SAID)
    assert one == Kernel("mamba_one", "12.0", 48, 0, 0, 0, 0, 0)
    assert two == Kernel("mamba_two", "9.0", 168, 128, 24, 4, 8, 0)
    assert one.clean
    assert not two.clean
    with pytest.raises(ReportError, match="nothing of the registers"):
        read_ptxas(SAID.replace("Used 48 registers", "Used them"))


def test_coverage_is_read_and_added_up() -> None:
    source = str(Path(__file__).resolve().parents[2] / "csrc" / "common" / "warp.cuh")
    counted = [{"line_number": 3, "count": 0}, {"line_number": 4, "count": 2}]
    once = json.dumps({"files": [{"file": source, "lines": counted}, {"file": "/usr/include/math.h", "lines": []}]})
    again = json.dumps({"files": [{"file": source, "lines": [{"line_number": 5, "count": 0}]}]})
    assert coverage_rows(read_gcov(f"{once}\n{again}\n")) == [("common/warp.cuh", 3, 1, "3 5")]

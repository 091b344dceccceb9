"""No kernel goes untested, and none moves more bytes than scripts/kernel_traffic.py says."""

from __future__ import annotations

import ctypes
from typing import Any, Dict, List

import pytest

from scripts.kernel_traffic import expected_traffic
from tests.kernels import abi
from tests.kernels.arrays import Memory
from tests.kernels.test_causal_conv1d import check as check_conv
from tests.kernels.test_causal_conv1d import check_update
from tests.kernels.test_selective_scan import Case
from tests.kernels.test_selective_scan import check as check_scan

ARRAYS = (
    "u", "delta", "z", "B", "C", "out", "dout", "du", "ddelta", "dz", "dB", "dC", "x", "dx", "conv_state",
)  # fmt: skip


def kernel_names(driver: ctypes.CDLL) -> List[str]:
    """The kernels that are in the built library."""
    text = ctypes.create_string_buffer(1 << 16)
    length = driver.emulation_kernel_names(text, len(text))
    assert 0 < length < len(text)
    return text.value.decode().split()


def test_every_kernel_of_the_library_runs(kernels: abi.Kernels, memory: Memory) -> None:
    """A new kernel fails here until a call that reaches it is added below: each is compared with float64."""
    names = kernel_names(memory.driver)
    before = {name: memory.driver.emulation_launches(name.encode()) for name in names}
    for dtype in abi.DTYPES:
        check_scan(kernels, memory, Case(dtype=dtype, length=19))
        check_conv(kernels, memory, dtype, "float32", 19, 4, "contiguous", silu=True, with_bias=True)
        check_update(kernels, memory, dtype, 4, 3, 1, "contiguous")
    unused = [name for name in names if memory.driver.emulation_launches(name.encode()) == before[name]]
    assert unused == [], "these kernels ran in no test"


class Counting:
    """The kernels, with the bytes that each call moved of each named array."""

    def __init__(self, kernels: abi.Kernels, driver: ctypes.CDLL) -> None:
        self.kernels, self.driver = kernels, driver
        self.moved: Dict[str, Dict[str, int]] = {}

    def checkpoints(self, params: Any) -> int:
        return self.kernels.checkpoints(params)

    def call(self, name: str, params: Any) -> None:
        before = {array: self._bytes(array) for array in ARRAYS}
        self.kernels.call(name, params)
        moved = {array: self._bytes(array) - before[array] for array in ARRAYS}
        self.moved[name] = {array: count for array, count in moved.items() if count}

    def _bytes(self, array: str) -> int:
        read, written = ctypes.c_ulonglong(), ctypes.c_ulonglong()
        self.driver.emulation_traffic(array.encode(), ctypes.byref(read), ctypes.byref(written))
        return read.value + written.value


@pytest.mark.parametrize("layout", ["contiguous", "strided"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_kernels_move_the_bytes_that_the_report_says(
    kernels: abi.Kernels, memory: Memory, dtype: str, layout: str
) -> None:
    """Long rows, so that the missing halo of a row's first tile is lost in the tolerance."""
    counting: Any = Counting(kernels, memory.driver)
    length, dim, state, width = 4096, 2, 3, 4
    check_scan(counting, memory, Case(dtype=dtype, batch=1, dim=dim, length=length, state=state, layout=layout))
    memory.driver.emulation_forget()
    check_conv(counting, memory, dtype, dtype, length, width, layout, silu=True, with_bias=True, batch=1, dim=dim)
    memory.driver.emulation_forget()
    check_update(counting, memory, dtype, width, width - 1, 1, layout)
    size = 4 if dtype == "float32" else 2
    expected = {each.op: each for each in expected_traffic(size, state, dim, width)}
    assert set(counting.moved) == set(expected)
    for name, moved in counting.moved.items():
        elements = 2 * 70 if name == "causal_conv1d_update" else dim * length
        for array, count in expected[name].moved.items():
            assert moved[array] / elements == pytest.approx(count, rel=2e-3), f"{name}: {array}"


def test_the_forward_calls_read_and_write_once() -> None:
    for each in expected_traffic(2, 16, 1536, 4):
        if each.op == "selective_scan_fwd":
            assert [each.moved[name] for name in ("u", "delta", "z", "out")] == [2, 2, 2, 2]
        assert each.from_memory >= each.minimum > 0

"""Arrays in the memory of the emulated GPU: in the kernels' dtypes, in any layout, known to its checks by name."""

from __future__ import annotations

import ctypes
from typing import Any, Optional, Tuple

import numpy as np
from numpy.typing import NDArray

from tests.kernels.abi import View

Array = NDArray[Any]
Floats = NDArray[np.float64]
STORED = {"float32": np.float32, "float16": np.float16, "bfloat16": np.uint16}

# How an array lies in memory. `contiguous` is what allows 16-byte accesses where the last size is a multiple too.
LAYOUTS = ("contiguous", "transposed", "strided", "padded")


def encode(values: Floats, dtype: str) -> Array:
    """Round to the dtype; bfloat16 has no numpy type and is kept as its bits."""
    if dtype != "bfloat16":
        return values.astype(STORED[dtype])
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def decode(stored: Array, dtype: str) -> Floats:
    """The values of stored elements."""
    if dtype != "bfloat16":
        return stored.astype(np.float64)
    return (stored.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


class Tensor:
    """One argument; keeps its memory alive."""

    def __init__(self, base: Array, array: Array, dtype: str) -> None:
        self.base, self.array, self.dtype = base, array, dtype

    def view(self) -> View:
        strides = [each // self.array.itemsize for each in self.array.strides]
        return View(self.pointer(), (ctypes.c_int64 * 4)(*strides))

    def pointer(self) -> int:
        return int(self.array.ctypes.data)

    def values(self) -> Floats:
        return decode(self.array, self.dtype)


def _empty(shape: Tuple[int, ...], dtype: str, layout: str) -> Tuple[Array, Array]:
    """Memory full of NaN and a view of `shape` on it."""
    stored = STORED[dtype]
    if layout == "transposed" and len(shape) > 1:
        swapped = (*shape[:-2], shape[-1], shape[-2])
        base = np.empty(swapped, stored)
        array = base.swapaxes(-1, -2)
    elif layout == "strided":
        base = np.empty((*shape[:-1], shape[-1] * 2 + 1), stored)
        array = base[..., 1::2]
    elif layout == "padded":  # rows are contiguous but none starts on a 16-byte boundary
        base = np.empty((*shape[:-1], shape[-1] + 16 // np.dtype(stored).itemsize), stored)
        array = base[..., 1 : shape[-1] + 1]
    else:
        base = np.empty(shape, stored)
        array = base
    base.view(np.uint8).fill(0xFF) if base.size else None
    return base, array


class Memory:
    """What kernels may touch during one test."""

    def __init__(self, driver: ctypes.CDLL) -> None:
        self.driver = driver
        self.tensors: list[Tensor] = []

    def _add(self, name: str, tensor: Tensor, read_only: bool, initialised: bool) -> Tensor:
        base = tensor.base
        self.tensors.append(tensor)
        if base.size:
            self.driver.emulation_memory(
                name.encode(), ctypes.c_void_p(base.ctypes.data), ctypes.c_size_t(base.nbytes),
                ctypes.c_size_t(base.itemsize), int(read_only), int(initialised),
            )  # fmt: skip
        return tensor

    def input(
        self, name: str, values: Floats, dtype: str = "float32", layout: str = "contiguous", read_only: bool = True
    ) -> Tensor:
        """An argument that kernels read."""
        base, array = _empty(values.shape, dtype, layout)
        array[...] = encode(values, dtype)
        return self._add(name, Tensor(base, array, dtype), read_only, True)

    def output(self, name: str, shape: Tuple[int, ...], dtype: str = "float32", layout: str = "contiguous") -> Tensor:
        """An argument that kernels write, uninitialised."""
        base, array = _empty(shape, dtype, layout)
        return self._add(name, Tensor(base, array, dtype), False, False)


def view_of(tensor: Optional[Tensor]) -> View:
    return View() if tensor is None else tensor.view()


def pointer_of(tensor: Optional[Tensor]) -> Optional[int]:
    return None if tensor is None else tensor.pointer()


def assert_close(name: str, actual: Floats, expected: Floats, tolerance: float) -> None:
    """Compare in units of the largest expected value: sums of opposite signs have no smaller scale."""
    assert actual.shape == expected.shape, f"{name}: shape {actual.shape}, expected {expected.shape}"
    if not expected.size:
        return
    scale = max(float(np.abs(expected).max()), 1e-3)
    worst = float(np.abs(actual - expected).max()) / scale if np.isfinite(actual).all() else float("inf")
    assert worst <= tolerance, f"{name}: off by {worst:.3g} of its largest value, allowed {tolerance:.1g}"

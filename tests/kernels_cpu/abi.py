"""The C ABI of the kernel libraries (csrc/include/mamba_kernels.h) in ctypes, over numpy arrays.

bfloat16 travels as uint16."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any, Optional, Tuple

import numpy as np

Array = Any  # numpy.ndarray; its generic form differs between the numpy releases that we type-check with

OK, INVALID_ARGUMENT, UNSUPPORTED, OUT_OF_MEMORY = range(4)
DTYPES = {"float32": 0, "float16": 1, "bfloat16": 2}
_I64, _I32, _P = ctypes.c_int64, ctypes.c_int32, ctypes.c_void_p


class View(ctypes.Structure):
    _fields_ = [("data", _P), ("stride", _I64 * 4)]


class Context(ctypes.Structure):
    _fields_ = [("device", _I32), ("num_threads", _I32), ("stream", _P)]


class Scan(ctypes.Structure):
    _fields_ = (
        [(name, _I64) for name in ("batch", "dim", "length", "state", "groups")]
        + [(name, _I32) for name in ("dtype", "delta_softplus", "variable_B", "variable_C")]
        + [
            (name, View)
            for name in ["u", "delta", "z", "A", "B", "C", "D", "delta_bias", "initial_state", "out", "last_state"]
        ]
        + [("checkpoints", _P)]
    )


class ScanBackward(ctypes.Structure):
    _fields_ = (
        [("forward", Scan)]
        + [(name, View) for name in ["dout", "dlast_state", "du", "ddelta", "dz"]]
        + [(name, _P) for name in ["dA", "dB", "dC", "dD", "ddelta_bias", "dinitial_state"]]
    )


class Conv(ctypes.Structure):
    _fields_ = (
        [(name, _I64) for name in ("batch", "dim", "length", "width")]
        + [(name, _I32) for name in ("dtype", "weight_dtype", "silu")]
        + [(name, View) for name in ["x", "out", "weight", "bias"]]
    )


class ConvBackward(ctypes.Structure):
    _fields_ = [("forward", Conv), ("dout", View), ("dx", View), ("dweight", _P), ("dbias", _P)]


class ConvUpdate(ctypes.Structure):
    _fields_ = (
        [(name, _I64) for name in ("batch", "dim", "length", "width", "state_length")]
        + [(name, _I32) for name in ("dtype", "weight_dtype", "silu")]
        + [(name, View) for name in ["x", "out", "conv_state", "weight", "bias"]]
    )


class Table(ctypes.Structure):
    _fields_ = [
        ("abi_version", _I32),
        ("device_type", _I32),
        ("device_count", ctypes.CFUNCTYPE(_I32)),
        ("describe", ctypes.CFUNCTYPE(ctypes.c_char_p)),
        ("last_error", ctypes.CFUNCTYPE(ctypes.c_char_p)),
        ("selective_scan_checkpoints", ctypes.CFUNCTYPE(_I64, ctypes.POINTER(Scan))),
        ("selective_scan_fwd", ctypes.CFUNCTYPE(_I32, ctypes.POINTER(Scan), ctypes.POINTER(Context))),
        ("selective_scan_bwd", ctypes.CFUNCTYPE(_I32, ctypes.POINTER(ScanBackward), ctypes.POINTER(Context))),
        ("causal_conv1d_fwd", ctypes.CFUNCTYPE(_I32, ctypes.POINTER(Conv), ctypes.POINTER(Context))),
        ("causal_conv1d_bwd", ctypes.CFUNCTYPE(_I32, ctypes.POINTER(ConvBackward), ctypes.POINTER(Context))),
        ("causal_conv1d_update", ctypes.CFUNCTYPE(_I32, ctypes.POINTER(ConvUpdate), ctypes.POINTER(Context))),
    ]


class KernelError(Exception):
    """A call that did not return MAMBA_OK: the status and the library's sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Kernels:
    """A loaded kernel library."""

    def __init__(self, path: Path) -> None:
        self.library = ctypes.CDLL(str(path))
        self.library.mamba_kernels_table.restype = ctypes.POINTER(Table)
        self.table = self.library.mamba_kernels_table().contents

    def describe(self) -> str:
        text: bytes = self.table.describe()
        return text.decode()

    def call(self, function: str, params: ctypes.Structure, threads: int = 1) -> None:
        context = Context(0, threads, None)
        status = getattr(self.table, function)(ctypes.byref(params), ctypes.byref(context))
        if status != OK:
            raise KernelError(status, self.table.last_error().decode())

    def checkpoints(self, params: Scan) -> int:
        return int(self.table.selective_scan_checkpoints(ctypes.byref(params)))


def view(array: Optional[Array]) -> View:
    if array is None:
        return View()
    strides = [step // array.itemsize for step in array.strides]
    return View(array.ctypes.data, (_I64 * 4)(*strides))


def address(array: Optional[Array]) -> Optional[int]:
    return None if array is None else int(array.ctypes.data)


def to_bfloat16(values: Array) -> Array:
    """Rounded to nearest, ties to even, as uint16."""
    raw = np.ascontiguousarray(values, np.float32).view(np.uint32).astype(np.uint64)
    rounded = ((raw + 0x7FFF + ((raw >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded)


def encode(values: Array, dtype: str) -> Array:
    return to_bfloat16(values) if dtype == "bfloat16" else np.asarray(values).astype(dtype)


def decode(array: Array, dtype: str) -> Array:
    if dtype != "bfloat16":
        return array.astype(np.float64)
    return (array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def storage(dtype: str) -> Array:
    return np.dtype("uint16" if dtype == "bfloat16" else dtype)


def unlike(shape: Tuple[int, ...], dtype: str) -> Array:
    """Memory that looks used: a kernel must write every element of its outputs."""
    return np.full(shape, 0x7E5A if dtype == "bfloat16" else 12345, storage(dtype))

"""csrc/include/mamba_kernels.h in ctypes, and a kernel library whose failures are exceptions."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

OK, INVALID_ARGUMENT, UNSUPPORTED, OUT_OF_MEMORY, NO_DEVICE, NO_KERNEL_IMAGE, DRIVER_ERROR = range(7)
DTYPES = ("float32", "float16", "bfloat16")

_I32, _I64, _POINTER = ctypes.c_int32, ctypes.c_int64, ctypes.c_void_p


class View(ctypes.Structure):
    """MambaView."""

    _fields_ = [("data", _POINTER), ("stride", _I64 * 4)]


def _struct(name: str, **fields: Any) -> Any:
    return type(name, (ctypes.Structure,), {"_fields_": list(fields.items())})


Context = _struct("Context", device=_I32, num_threads=_I32, stream=_POINTER)
SelectiveScan = _struct(
    "SelectiveScan",
    **dict.fromkeys(("batch", "dim", "length", "state", "groups"), _I64),
    **dict.fromkeys(("dtype", "delta_softplus", "variable_B", "variable_C"), _I32),
    **dict.fromkeys(("u", "delta", "z", "A", "B", "C", "D", "delta_bias", "initial_state", "out", "last_state"), View),
    checkpoints=_POINTER,
)
SelectiveScanBackward = _struct(
    "SelectiveScanBackward",
    forward=SelectiveScan,
    **dict.fromkeys(("dout", "dlast_state", "du", "ddelta", "dz"), View),
    **dict.fromkeys(("dA", "dB", "dC", "dD", "ddelta_bias", "dinitial_state"), _POINTER),
)
CausalConv1d = _struct(
    "CausalConv1d",
    **dict.fromkeys(("batch", "dim", "length", "width"), _I64),
    **dict.fromkeys(("dtype", "weight_dtype", "silu"), _I32),
    **dict.fromkeys(("x", "out", "weight", "bias"), View),
)
CausalConv1dBackward = _struct(
    "CausalConv1dBackward", forward=CausalConv1d, dout=View, dx=View, dweight=_POINTER, dbias=_POINTER
)
CausalConv1dUpdate = _struct(
    "CausalConv1dUpdate",
    **dict.fromkeys(("batch", "dim", "length", "width", "state_length"), _I64),
    **dict.fromkeys(("dtype", "weight_dtype", "silu"), _I32),
    **dict.fromkeys(("x", "out", "conv_state", "weight", "bias"), View),
)

_CALLS = (
    "selective_scan_fwd",
    "selective_scan_bwd",
    "causal_conv1d_fwd",
    "causal_conv1d_bwd",
    "causal_conv1d_update",
)
Table = _struct(
    "Table",
    abi_version=_I32,
    device_type=_I32,
    device_count=ctypes.CFUNCTYPE(_I32),
    describe=ctypes.CFUNCTYPE(ctypes.c_char_p),
    last_error=ctypes.CFUNCTYPE(ctypes.c_char_p),
    selective_scan_checkpoints=ctypes.CFUNCTYPE(_I64, _POINTER),
    **dict.fromkeys(_CALLS, ctypes.CFUNCTYPE(_I32, _POINTER, _POINTER)),
)


class KernelError(Exception):
    """A call returned something else than MAMBA_OK."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Kernels:
    """A kernel library by way of its table."""

    def __init__(self, path: Path) -> None:
        library = ctypes.CDLL(str(path))
        library.mamba_kernels_table.restype = ctypes.POINTER(Table)
        self.abi_version: int = library.mamba_kernels_abi_version()
        self.table = library.mamba_kernels_table().contents

    def last_error(self) -> str:
        return str(self.table.last_error().decode())

    def device_count(self) -> int:
        return int(self.table.device_count())

    def checkpoints(self, params: Any) -> int:
        return int(self.table.selective_scan_checkpoints(ctypes.byref(params)))

    def call(self, name: str, params: Any, device: int = 0) -> None:
        """Call the table's function `name`; raise KernelError when it does not return MAMBA_OK."""
        context = Context(device=device, num_threads=1)
        status = getattr(self.table, name)(ctypes.byref(params), ctypes.byref(context))
        if status != OK:
            raise KernelError(status, self.last_error())

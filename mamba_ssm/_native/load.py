"""Loads the kernel libraries and the binding that fits this torch, once, and keeps the reason for whatever is missing.

Nothing here raises because something is absent: a machine without native code runs the references.
"""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

import torch

from mamba_ssm._native.choice import TorchBuild, choose_binding

# The version of csrc/include/mamba_kernels.h that this Python speaks.
KERNELS_ABI_VERSION = 1
TABLE_FORMAT = 1
DIRECTORY_VARIABLE = "MAMBA_SSM_NATIVE_DIR"
_DEVICE_TYPES = {"cpu": 0, "cuda": 1}


class _Table(ctypes.Structure):
    """The first fields of MambaKernels in csrc/include/mamba_kernels.h."""

    _fields_ = [
        ("abi_version", ctypes.c_int32),
        ("device_type", ctypes.c_int32),
        ("device_count", ctypes.CFUNCTYPE(ctypes.c_int32)),
        ("describe", ctypes.CFUNCTYPE(ctypes.c_char_p)),
        ("last_error", ctypes.CFUNCTYPE(ctypes.c_char_p)),
    ]


@dataclass(frozen=True)
class Kernels:
    """One kernel library: its table's address, or None and the reason."""

    device: str  # cpu or cuda
    address: int | None
    reason: str
    file: str | None = None
    description: str | None = None

    def device_count(self) -> int:
        """Devices that the kernels can be launched on. The first call on CUDA initialises the driver."""
        if self.address is None:
            return 0
        return int(_Table.from_address(self.address).device_count())

    def why_no_device(self) -> tuple[str, str]:
        """The library's own sentence after `device_count` gave 0, and its hint (or nothing)."""
        if self.address is None:
            return self.reason, ""
        text = _Table.from_address(self.address).last_error()
        words = text.decode(errors="replace") if text else "the library gave no reason"
        sentence, _, hint = words.partition("\nhint: ")
        return sentence, hint


@dataclass(frozen=True)
class Native:
    """What was loaded from one folder. Where `binding` is None, `reason` says why and no kernel can be called."""

    folder: str
    binding: str | None
    reason: str
    note: str | None
    kernels: Mapping[str, Kernels]
    checkpoints: Callable[..., int] | None = None

    def serves(self, device: str) -> bool:
        """Whether kernels for this kind of device are loaded and bound to torch."""
        return self.binding is not None and device in self.kernels and self.kernels[device].address is not None

    def why_not(self, device: str) -> str:
        """Why `serves` is false, in one sentence."""
        if self.binding is None:
            return self.reason
        if device not in self.kernels:
            return f"there are no kernels for devices of this kind: `{device}`"
        return self.kernels[device].reason


def native() -> Native:
    """What this process has loaded, from the first call on."""
    global _loaded
    if _loaded is None:
        _loaded = load(native_folder())
        if _loaded.binding is not None:
            from mamba_ssm.ops import _fake

            _fake.register()
    return _loaded


def native_folder() -> Path:
    """The folder of the libraries: MAMBA_SSM_NATIVE_DIR (for development and tests), or the one beside this file."""
    return Path(os.environ.get(DIRECTORY_VARIABLE) or Path(__file__).parent)


def load(folder: Path) -> Native:
    """Load what the folder's bindings.json chooses for this torch. Never raises for what is absent or does not fit."""
    nothing = {name: Kernels(name, None, "not loaded") for name in _DEVICE_TYPES}
    table, reason = _read_table(folder)
    if table is None:
        return Native(str(folder), None, reason, None, nothing)
    build = TorchBuild(torch.__version__, bool(torch._C._GLIBCXX_USE_CXX11_ABI))
    choice = choose_binding(table["bindings"], build)
    if choice.file is None:
        return Native(str(folder), None, choice.reason, None, nothing)
    # Two bindings in one process would define the same ops twice, which ends the process.
    if hasattr(torch.ops.mamba_ssm, "selective_scan_fwd"):
        reason = "another copy of the native library is loaded in this process already"
        return Native(str(folder), None, reason, None, nothing)
    kernels = {name: _load_kernels(folder, name, table.get(name)) for name in _DEVICE_TYPES}
    binding = _dlopen(folder / choice.file)
    if isinstance(binding, str):
        return Native(str(folder), None, binding, None, kernels)
    if binding.mamba_bind(_pointer(kernels["cpu"]), _pointer(kernels["cuda"])) != 0:
        reason = f"the binding `{choice.file}` is made for another version of the kernels; install the wheel again"
        return Native(str(folder), None, reason, None, kernels)
    checkpoints = binding.mamba_selective_scan_checkpoints
    checkpoints.restype = ctypes.c_int64
    checkpoints.argtypes = [ctypes.c_int32, *([ctypes.c_int64] * 5), ctypes.c_int32]
    return Native(str(folder), choice.file, choice.reason, choice.note, kernels, checkpoints)


def _read_table(folder: Path) -> tuple[dict[str, Any] | None, str]:
    path = folder / "bindings.json"
    if not path.is_file():
        return None, f"this installation has no native library (no bindings.json in `{folder}`)"
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
        if table["format"] != TABLE_FORMAT:
            return None, f"`{path}` has a format that this version does not read: {table['format']}"
        if table["kernels_abi"] != KERNELS_ABI_VERSION:
            return None, (
                f"the kernels in `{folder}` speak version {table['kernels_abi']} of the interface, "
                f"this version of mamba_ssm speaks {KERNELS_ABI_VERSION}"
            )
        for entry in table["bindings"]:
            _ = entry["file"], entry["torch"] if entry["kind"] == "classic" else entry["torch_floor"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        return None, f"`{path}` cannot be read: {type(error).__name__}: {error}"
    return table, ""


def _load_kernels(folder: Path, device: str, entry: Mapping[str, Any] | None) -> Kernels:
    if not entry:
        return Kernels(device, None, f"this installation has no {device} kernels")
    library = _dlopen(folder / entry["file"])
    if isinstance(library, str):
        return Kernels(device, None, library, entry["file"])
    version = int(library.mamba_kernels_abi_version())
    if version != KERNELS_ABI_VERSION:
        reason = f"`{entry['file']}` speaks version {version} of the interface, expected {KERNELS_ABI_VERSION}"
        return Kernels(device, None, reason, entry["file"])
    library.mamba_kernels_table.restype = ctypes.c_void_p
    address = library.mamba_kernels_table()
    description = _Table.from_address(address).describe()
    return Kernels(
        device, address, "loaded", entry["file"], description.decode(errors="replace") if description else None
    )


def _dlopen(path: Path) -> ctypes.CDLL | str:
    """The library, or the loader's own words. RTLD_LOCAL: no symbol of it is seen by others."""
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        return f"`{path.name}` cannot be loaded: {error}"


def _pointer(kernels: Kernels) -> ctypes.c_void_p:
    return ctypes.c_void_p(kernels.address)


_loaded: Native | None = None

"""Which code serves a call: CUDA kernels, CPU kernels, or the reference. Chosen from the tensors' device and what is
loaded, or forced by the environment variable MAMBA_SSM_BACKEND."""

from __future__ import annotations

import os
import platform
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch

from mamba_ssm._native import Native, native

BACKEND_VARIABLE = "MAMBA_SSM_BACKEND"
BACKENDS: tuple[str, ...] = ("reference", "cpu", "cuda")
_UNSET = f"unset {BACKEND_VARIABLE}"  # by its name, since a hint may speak of another variable before

_warned: set[str] = set()


class BackendError(RuntimeError):
    """The backend that was asked for cannot serve the call; the message says why and what to do."""


@dataclass(frozen=True)
class BackendInfo:
    """What serves calls in this process, and why. Printable; `as_dict()` gives plain values."""

    mamba_ssm: str
    torch: str
    machine: str
    forced: str | None  # the value of MAMBA_SSM_BACKEND
    backends: Mapping[str, str]  # device -> reference, cpu or cuda
    reasons: Mapping[str, str]  # device -> why
    kernels: Mapping[str, str | None]  # device -> what its library says it holds
    folder: str
    binding: str | None
    binding_reason: str
    note: str | None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        lines = [f"mamba_ssm {self.mamba_ssm}, torch {self.torch}, {self.machine}"]
        if self.forced:
            lines.append(f"forced: {BACKEND_VARIABLE}={self.forced}")
        for device, backend in self.backends.items():
            lines.append(f"tensors on {device}: {backend} ({self.reasons[device]})")
        lines.append(f"binding: {self.binding or 'none'} ({self.binding_reason})")
        if self.note:
            lines.append(f"note: {self.note}")
        return "\n".join(lines)


def forced_backend() -> str | None:
    """The value of MAMBA_SSM_BACKEND, or None where the choice is free.

    Raises BackendError for a value that is no backend.
    """
    value = os.environ.get(BACKEND_VARIABLE, "")
    if value in ("", "auto"):
        return None
    if value not in BACKENDS:
        raise BackendError(
            f"{BACKEND_VARIABLE} does not name a backend: `{value}`\nhint: use one of {', '.join(BACKENDS)}, or unset it"
        )
    return value


def choose_backend(op: str, device: torch.device, unsupported: str | None = None) -> str:
    """The backend of one call: reference, cpu or cuda.

    `unsupported` names an argument that the kernels do not serve: then the reference takes the call, and says so once,
    unless kernels were forced.
    """
    forced = forced_backend()
    if forced == "reference":
        return "reference"
    if forced is None:
        if not _kernels_serve(device.type):
            return "reference"
        if unsupported is None:
            return device.type
        _warn_slow(op, device.type, unsupported)
        return "reference"
    if not _kernels_serve(forced):
        reason, hint = why_no_kernels(native(), forced)
        raise _cannot(forced, op, reason, f"{hint}, or {_UNSET}" if hint else _UNSET)
    if device.type != forced:
        raise _cannot(forced, op, f"the tensors are on `{device}`", f"move them to {forced}, or {_UNSET}")
    if unsupported is not None:
        raise _cannot(forced, op, f"its kernels do not serve {unsupported}", f"{_UNSET} to use the reference")
    return forced


def why_no_kernels(loaded: Native, device: str) -> tuple[str, str]:
    """Why kernels cannot run on this kind of device, in one sentence, and what helps."""
    if not loaded.serves(device):
        return loaded.why_not(device), "install a wheel with these kernels"
    sentence, hint = loaded.kernels[device].why_no_device()
    # The library may begin so itself.
    sentence = sentence if sentence.startswith("no CUDA device") else f"no CUDA device: {sentence}"
    return sentence, hint


def backend_info() -> BackendInfo:
    """Which backend serves tensors on each kind of device here, and why. On a machine with CUDA kernels this asks the
    driver for devices.

    Raises BackendError where MAMBA_SSM_BACKEND holds a value that is no backend.
    """
    from mamba_ssm import __version__

    forced = forced_backend()
    loaded = native()
    backends: dict[str, str] = {}
    reasons: dict[str, str] = {}
    for device in ("cpu", "cuda"):
        backends[device], reasons[device] = _explain(loaded, device, forced)
    return BackendInfo(
        mamba_ssm=__version__,
        torch=str(torch.__version__),
        machine=platform.machine(),
        forced=forced,
        backends=backends,
        reasons=reasons,
        kernels={device: each.description for device, each in loaded.kernels.items()},
        folder=loaded.folder,
        binding=loaded.binding,
        binding_reason=loaded.reason,
        note=loaded.note,
    )


def _explain(loaded: Native, device: str, forced: str | None) -> tuple[str, str]:
    if forced == "reference":
        return "reference", f"forced by {BACKEND_VARIABLE}"
    if forced is not None and forced != device:
        return "none", f"{BACKEND_VARIABLE}={forced} forces the {forced} kernels, which do not take tensors on {device}"
    if not _kernels_serve(device):
        return ("none" if forced else "reference"), why_no_kernels(loaded, device)[0]
    kernels = loaded.kernels[device]
    return device, f"kernels loaded: {kernels.description or kernels.file}"


def _kernels_serve(device: str) -> bool:
    served = _serving.get(device)
    if served is None:
        loaded = native()
        # Counting devices initialises the CUDA driver, so it is asked once, and only for tensors that live there.
        served = _serving[device] = loaded.serves(device) and loaded.kernels[device].device_count() > 0
    return served


# What torch.compiler.assume_constant_result does, without the second that importing torch's compiler takes: a compiled
# function calls these while it is traced, and keeps the answers.
_kernels_serve._dynamo_marked_constant = True  # type: ignore[attr-defined]
forced_backend._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _cannot(forced: str, op: str, reason: str, hint: str) -> BackendError:
    return BackendError(f"{BACKEND_VARIABLE}={forced}, but it cannot serve {op}: {reason}\nhint: {hint}")


def _warn_slow(op: str, device: str, unsupported: str) -> None:
    key = f"{op}/{device}/{unsupported}"
    if key in _warned:
        return
    _warned.add(key)
    warnings.warn(
        f"{op} runs on the slow reference, since the {device} kernels do not serve {unsupported}",
        RuntimeWarning,
        stacklevel=4,
    )


_warn_slow._dynamo_marked_constant = True  # type: ignore[attr-defined]
_serving: dict[str, bool] = {}

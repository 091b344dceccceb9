"""What torch.compile and other tracers must know of the native ops: shapes, dtypes and layouts of their results."""

from __future__ import annotations

from typing import Any, Callable

import torch
from torch import Tensor

_KERNEL_DTYPE = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}
_libraries: list[Any] = []  # a torch.library.Library undoes its work when it is collected


def register() -> None:
    """Tell torch: by register_fake from 2.4 on, by a Meta kernel before, as 2.2 refuses abstract ones for ops of C++."""
    for name, function in (
        ("selective_scan_fwd", _selective_scan_fwd),
        ("selective_scan_bwd", _selective_scan_bwd),
        ("causal_conv1d_fwd", _causal_conv1d_fwd),
        ("causal_conv1d_bwd", _causal_conv1d_bwd),
        ("causal_conv1d_update", _causal_conv1d_update),
    ):
        _register(name, function)


def _register(name: str, function: Callable[..., Any]) -> None:
    new = getattr(torch.library, "register_fake", None)
    if new is not None:
        new(f"mamba_ssm::{name}")(function)
        return
    # torch 1.13 has no rule for the autograd key of tensors without values, so the function stands there too.
    keys = ("Meta", "AutogradMeta") if torch.__version__.startswith("1.") else ("Meta",)
    for key in keys:
        library = torch.library.Library("mamba_ssm", "IMPL", key)  # type: ignore[no-untyped-call]
        library.impl(name, function)  # type: ignore[no-untyped-call]
        _libraries.append(library)


def _selective_scan_fwd(
    u: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    z: Tensor | None,
    delta_bias: Tensor | None,
    delta_softplus: bool,
    initial_state: Tensor | None,
    save_checkpoints: bool,
    stream: int,
) -> tuple[Tensor, Tensor, Tensor]:
    batch, dim, length = u.shape
    count = _checkpoints(u, A, B, C) if save_checkpoints else 0
    return u.new_empty((batch, dim, length)), _float(u, batch, dim, A.shape[1]), _float(u, count)


def _selective_scan_bwd(
    dout: Tensor,
    u: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    z: Tensor | None,
    delta_bias: Tensor | None,
    delta_softplus: bool,
    initial_state: Tensor | None,
    checkpoints: Tensor,
    dlast_state: Tensor | None,
    stream: int,
) -> tuple[Tensor, ...]:
    shape = tuple(u.shape)
    return (
        u.new_empty(shape),
        u.new_empty(shape),
        _float(u, *A.shape),
        _float(u, *B.shape),
        _float(u, *C.shape),
        _float(u, *(D.shape if D is not None else (0,))),
        u.new_empty(shape) if z is not None else u.new_empty((0,)),
        _float(u, *(delta_bias.shape if delta_bias is not None else (0,))),
        _float(u, *(initial_state.shape if initial_state is not None else (0,))),
    )


def _causal_conv1d_fwd(x: Tensor, weight: Tensor, bias: Tensor | None, silu: bool, stream: int) -> Tensor:
    return _laid_out_like(x)


def _causal_conv1d_bwd(
    dout: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None, silu: bool, stream: int
) -> tuple[Tensor, Tensor, Tensor]:
    return _laid_out_like(x), _float(x, *weight.shape), _float(x, *(bias.shape if bias is not None else (0,)))


def _causal_conv1d_update(
    x: Tensor, conv_state: Tensor, weight: Tensor, bias: Tensor | None, silu: bool, stream: int
) -> Tensor:
    return _laid_out_like(x)


def _float(like: Tensor, *shape: int) -> Tensor:
    return like.new_empty(shape, dtype=torch.float32)


def _laid_out_like(x: Tensor) -> Tensor:
    """As laid_out_like in csrc/bindings/ops.h: channel-last where x is."""
    batch, dim, length = x.shape
    if x.stride(1) == 1 and x.stride(2) > 1:
        return x.new_empty((batch, length, dim)).transpose(1, 2)
    return x.new_empty((batch, dim, length))


def _checkpoints(u: Tensor, A: Tensor, B: Tensor, C: Tensor) -> int:
    from mamba_ssm._native import native

    function = native().checkpoints
    if function is None:
        return 0
    groups = B.shape[1] if B.dim() == 4 else C.shape[1] if C.dim() == 4 else 1
    sizes = [int(size) for size in (*u.shape, A.shape[1], groups)]
    return int(function(1 if u.is_cuda else 0, *sizes, _KERNEL_DTYPE[u.dtype]))

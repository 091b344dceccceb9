"""The native ops as differentiable functions. A second derivative is refused: the kernels have none."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

_TORCH = tuple(int(part) for part in torch.__version__.split(".")[:2])
# From 2.4 on the binding asks torch for the current stream itself.
_BINDING_KNOWS_STREAM = _TORCH >= (2, 4)


def scan(
    u: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    z: Tensor | None,
    delta_bias: Tensor | None,
    delta_softplus: bool,
) -> tuple[Tensor, Tensor]:
    """The scan by kernels: out and last_state (float32, without gradient). Shapes as in _reference.scan."""
    out, last_state = _Scan.apply(  # type: ignore[no-untyped-call]
        u, delta, A, B, C, D, z, delta_bias, delta_softplus
    )
    return out, last_state


def conv1d(x: Tensor, weight: Tensor, bias: Tensor | None, silu: bool) -> Tensor:
    """The convolution by kernels. Shapes as in _reference.conv1d."""
    out: Tensor = _Conv1d.apply(x, weight, bias, silu)  # type: ignore[no-untyped-call]
    return out


def conv1d_update(x: Tensor, conv_state: Tensor, weight: Tensor, bias: Tensor | None, silu: bool) -> Tensor:
    """Further steps of the convolution by kernels; conv_state changes in place. No gradient."""
    with torch.no_grad():
        out: Tensor = torch.ops.mamba_ssm.causal_conv1d_update(x, conv_state, weight, bias, silu, _stream(x))
    return out


class _Scan(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        u: Tensor,
        delta: Tensor,
        A: Tensor,
        B: Tensor,
        C: Tensor,
        D: Tensor | None,
        z: Tensor | None,
        delta_bias: Tensor | None,
        delta_softplus: bool,
    ) -> tuple[Tensor, Tensor]:
        u, delta, B, C = _rows(u), _rows(delta), _variable(B), _variable(C)
        z = None if z is None else _rows(z)
        # Compiled code keeps no checkpoints, whose size is the library's own; its backward runs the forward pass again.
        save = any(ctx.needs_input_grad) and not _compiling()
        out, last_state, checkpoints = torch.ops.mamba_ssm.selective_scan_fwd(
            u, delta, A, B, C, D, z, delta_bias, delta_softplus, None, save, _stream(u)
        )
        ctx.save_for_backward(u, delta, A, B, C, D, z, delta_bias, checkpoints)
        ctx.delta_softplus = delta_softplus
        ctx.mark_non_differentiable(last_state)
        return out, last_state

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator, unused-ignore]
    def backward(ctx: Any, dout: Tensor, dlast_state: Tensor) -> tuple[Tensor | None, ...]:
        u, delta, A, B, C, D, z, delta_bias, checkpoints = ctx.saved_tensors
        du, ddelta, dA, dB, dC, dD, dz, ddelta_bias, _ = torch.ops.mamba_ssm.selective_scan_bwd(
            _rows(dout), u, delta, A, B, C, D, z, delta_bias, ctx.delta_softplus, None, checkpoints, None, _stream(u)
        )
        return (
            du,
            ddelta,
            dA,
            dB.to(B.dtype),
            dC.to(C.dtype),
            None if D is None else dD,
            None if z is None else dz,
            None if delta_bias is None else ddelta_bias,
            None,
        )


class _Conv1d(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, silu: bool) -> Tensor:
        ctx.save_for_backward(x, weight, bias)
        ctx.silu = silu
        out: Tensor = torch.ops.mamba_ssm.causal_conv1d_fwd(x, weight, bias, silu, _stream(x))
        return out

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator, unused-ignore]
    def backward(ctx: Any, dout: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias = ctx.saved_tensors
        dx, dweight, dbias = torch.ops.mamba_ssm.causal_conv1d_bwd(dout, x, weight, bias, ctx.silu, _stream(x))
        return dx, dweight.to(weight.dtype), None if bias is None else dbias.to(bias.dtype), None


def _rows(value: Tensor) -> Tensor:
    """The tensor with neighbouring steps side by side in memory, as the kernels read fastest."""
    return value if value.stride(-1) == 1 else value.contiguous()


def _variable(value: Tensor) -> Tensor:
    return value if value.dim() == 2 else _rows(value)


def _compiling() -> bool:
    compiler = getattr(torch, "compiler", None)
    is_compiling = getattr(compiler, "is_compiling", None)
    return bool(is_compiling()) if is_compiling is not None else False


def _stream(value: Tensor) -> int:
    if _BINDING_KNOWS_STREAM or not value.is_cuda:
        return -1
    return int(torch.cuda.current_stream(value.device).cuda_stream)

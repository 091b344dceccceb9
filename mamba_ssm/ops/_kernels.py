"""The native ops as differentiable functions. A second derivative is refused: the kernels have none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

_TORCH = tuple(int(part) for part in torch.__version__.split(".")[:2])
# From 2.4 on the binding asks torch for the current stream itself.
_BINDING_KNOWS_STREAM = _TORCH >= (2, 4)

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _outside_of_old_graphs(function: _Function) -> _Function:
    """Keep the function out of compiled graphs before torch 2.6, whose compilers mistake the order of its gradients. The
    compiler is imported at the first call, as torch's own checkpoint does."""
    disable = getattr(torch, "_disable_dynamo", None)
    if _TORCH >= (2, 6) or disable is None:
        return function
    disabled: _Function = disable(function)
    return disabled


@_outside_of_old_graphs
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


@_outside_of_old_graphs
def conv1d(x: Tensor, weight: Tensor, bias: Tensor | None, silu: bool) -> Tensor:
    """The convolution by kernels. Shapes as in _reference.conv1d."""
    out: Tensor = _Conv1d.apply(x, weight, bias, silu)  # type: ignore[no-untyped-call]
    return out


@_outside_of_old_graphs
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
    def backward(ctx: Any, dout: Tensor, dlast_state: Tensor) -> tuple[Tensor | None, ...]:
        u, delta, A, B, C, D, z, delta_bias, checkpoints = ctx.saved_tensors
        inputs = (u, delta, A, B, C, D, z, delta_bias)
        with torch.no_grad():
            du, ddelta, dA, dB, dC, dD, dz, ddelta_bias, _ = torch.ops.mamba_ssm.selective_scan_bwd(
                dout.contiguous(), *inputs, ctx.delta_softplus, None, checkpoints, None, _stream(u)
            )
            gradients = (du, ddelta, dA, dB.to(B.dtype), dC.to(C.dtype), dD, dz, ddelta_bias)
        return (*_once("selective_scan_fn", gradients, inputs, dout), None)


class _Conv1d(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, silu: bool) -> Tensor:
        ctx.save_for_backward(x, weight, bias)
        ctx.silu = silu
        out: Tensor = torch.ops.mamba_ssm.causal_conv1d_fwd(x, weight, bias, silu, _stream(x))
        return out

    @staticmethod
    def backward(ctx: Any, dout: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias = ctx.saved_tensors
        inputs = (x, weight, bias)
        with torch.no_grad():
            dx, dweight, dbias = torch.ops.mamba_ssm.causal_conv1d_bwd(dout, *inputs, ctx.silu, _stream(x))
            gradients = (dx, dweight.to(weight.dtype), dbias if bias is None else dbias.to(bias.dtype))
        return (*_once("causal_conv1d_fn", gradients, inputs, dout), None)


class _Refuse(torch.autograd.Function):
    """Passes gradients on; their own gradient is an error, where torch would take them for constants."""

    @staticmethod
    def forward(ctx: Any, op: str, count: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.op = op
        return tuple(tensor.view_as(tensor) for tensor in tensors[:count])

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> None:
        raise RuntimeError(
            f"{ctx.op}: the kernels have no second derivative\nhint: set MAMBA_SSM_BACKEND=reference, which has"
        )


def _once(
    op: str, gradients: tuple[Tensor, ...], inputs: tuple[Tensor | None, ...], dout: Tensor
) -> tuple[Tensor | None, ...]:
    """The gradients of those inputs that are there, differentiable no further. Grad mode is on in a backward pass only
    where somebody asked for a graph of it."""
    if torch.is_grad_enabled() and not _compiling():
        present = [each for each in inputs if each is not None]
        gradients = _Refuse.apply(op, len(gradients), *gradients, *present, dout)  # type: ignore[no-untyped-call]
    return tuple(None if each is None else gradient for each, gradient in zip(inputs, gradients))


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

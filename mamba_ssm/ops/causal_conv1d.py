"""Causal depthwise convolution, with the interface of the causal_conv1d package.

out[b, d, t] = silu?(bias[d] + sum_k weight[d, k] x[b, d, t - (width - 1) + k]), where x before the start is 0.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mamba_ssm.backend import choose_backend
from mamba_ssm.ops import _kernels, _reference
from mamba_ssm.ops._arguments import (
    KERNEL_DTYPES,
    check_device,
    check_dims,
    check_dtype,
    check_shape,
    check_tensors,
    wants_silu,
)

_KERNEL_WIDTHS = (2, 3, 4)


def causal_conv1d_fn(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    seq_idx: Tensor | None = None,
    initial_states: Tensor | None = None,
    return_final_states: bool = False,
    final_states_out: Tensor | None = None,
    activation: str | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """Convolve each channel with its own causal filter.

    Args:
        x: (batch, dim, length), float32, float16 or bfloat16; any strides, channel-last included.
        weight: (dim, width), of any of these dtypes. Kernels serve the widths 2, 3 and 4.
        bias: (dim), of weight's dtype.
        seq_idx: (batch, length), int32: packed sequences; inputs of another sequence do not count, and where it is
            negative the output is 0. Served by the reference only.
        initial_states: (batch, dim, width - 1), the inputs before the start.
        return_final_states: also return the last width - 1 inputs, (batch, dim, width - 1).
        final_states_out: a tensor of that shape to write them to.
        activation: None, "silu" or "swish".

    Returns:
        out (batch, dim, length) in x's dtype, or (out, final_states).

    Raises:
        ValueError, TypeError: a wrong shape, device, dtype or combination of arguments.
        BackendError: a forced backend that cannot serve the call.
    """
    op = "causal_conv1d_fn"
    silu = wants_silu(op, activation)
    _check(op, x, weight, bias)
    _check_states(op, x, weight, seq_idx, initial_states, return_final_states, final_states_out)
    out = _convolve(op, x, weight, bias, silu, seq_idx, initial_states)
    if not return_final_states:
        return out
    return out, _final_states(x, weight.shape[1], initial_states, final_states_out)


def convolve(op: str, x: Tensor, weight: Tensor, bias: Tensor | None, silu: bool) -> Tensor:
    """The plain case of causal_conv1d_fn, under the name `op` in messages."""
    _check(op, x, weight, bias)
    return _convolve(op, x, weight, bias, silu, None, None)


def _convolve(
    op: str,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    silu: bool,
    seq_idx: Tensor | None,
    initial_states: Tensor | None,
) -> Tensor:
    check_dtype(op, "x", x, KERNEL_DTYPES)
    check_dtype(op, "weight", weight, KERNEL_DTYPES)
    width, length = weight.shape[1], x.shape[2]
    if choose_backend(op, x.device, _unsupported(width, seq_idx)) == "reference" or x.numel() == 0:
        out = _reference.conv1d(x, weight, bias, silu, initial_states, seq_idx)
    elif initial_states is None:
        out = _kernels.conv1d(x, weight, bias, silu)
    else:
        longer = _reference.with_history(x, width - 1, initial_states)
        out = _kernels.conv1d(longer, weight, bias, silu).narrow(2, width - 1, length)
    return out


def causal_conv1d_ref(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    initial_states: Tensor | None = None,
    return_final_states: bool = False,
    final_states_out: Tensor | None = None,
    activation: str | None = None,
    seq_idx: Tensor | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """causal_conv1d_fn in plain PyTorch: float32 inside, any width, differentiable any number of times."""
    op = "causal_conv1d_ref"
    silu = wants_silu(op, activation)
    _check(op, x, weight, bias)
    _check_states(op, x, weight, seq_idx, initial_states, return_final_states, final_states_out)
    out = _reference.conv1d(x, weight, bias, silu, initial_states, seq_idx)
    if not return_final_states:
        return out
    return out, _final_states(x, weight.shape[1], initial_states, final_states_out)


def causal_conv1d_update(
    x: Tensor,
    conv_state: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    activation: str | None = None,
    cache_seqlens: Tensor | None = None,
    conv_state_indices: Tensor | None = None,
) -> Tensor:
    """One or more further steps of the convolution, for generation. No gradient flows through it.

    Args:
        x: (batch, dim) or (batch, dim, length).
        conv_state: (batch, dim, state_length) with state_length >= width - 1: the last inputs, newest last; changed in
            place. With `conv_state_indices`, (entries, dim, state_length).
        weight: (dim, width). bias: (dim).
        activation: None, "silu" or "swish".
        cache_seqlens: (batch), int32: inputs seen so far; conv_state is then a ring. Served by the reference only.
        conv_state_indices: (batch), int32: the entry of conv_state that serves each row; a negative one leaves the state
            alone and gives 0. Served by the reference only.

    Returns:
        out in x's shape and dtype.

    Raises:
        ValueError, TypeError: a wrong shape, device or dtype.
        BackendError: a forced backend that cannot serve the call.
    """
    op = "causal_conv1d_update"
    silu = wants_silu(op, activation)
    steps = _check_update(op, x, conv_state, weight, bias, cache_seqlens, conv_state_indices)
    check_dtype(op, "x", x, KERNEL_DTYPES)
    check_dtype(op, "weight", weight, KERNEL_DTYPES)
    check_dtype(op, "conv_state", conv_state, (x.dtype,), of="x")
    unsupported = _unsupported(weight.shape[1], None, cache_seqlens, conv_state_indices)
    if choose_backend(op, x.device, unsupported) == "reference" or x.numel() == 0:
        out = _update_reference(steps, conv_state, weight, bias, silu, cache_seqlens, conv_state_indices)
    else:
        out = _kernels.conv1d_update(steps, conv_state, weight, bias, silu)
    return out.squeeze(-1) if x.dim() == 2 else out


def causal_conv1d_update_ref(
    x: Tensor,
    conv_state: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    activation: str | None = None,
    cache_seqlens: Tensor | None = None,
) -> Tensor:
    """causal_conv1d_update in plain PyTorch, without conv_state_indices."""
    op = "causal_conv1d_update_ref"
    silu = wants_silu(op, activation)
    steps = _check_update(op, x, conv_state, weight, bias, cache_seqlens, None)
    out = _update_reference(steps, conv_state, weight, bias, silu, cache_seqlens, None)
    return out.squeeze(-1) if x.dim() == 2 else out


@torch.no_grad()
def _update_reference(
    x: Tensor,
    conv_state: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    silu: bool,
    cache_seqlens: Tensor | None,
    conv_state_indices: Tensor | None,
) -> Tensor:
    if conv_state_indices is None:
        return _reference.conv1d_update(x, conv_state, weight, bias, silu, cache_seqlens)
    out = torch.zeros_like(x)
    rows = (conv_state_indices >= 0).nonzero().squeeze(-1)
    entries = conv_state_indices[rows].long()
    state = conv_state[entries]
    seen = None if cache_seqlens is None else cache_seqlens[rows]
    out[rows] = _reference.conv1d_update(x[rows], state, weight, bias, silu, seen)
    conv_state[entries] = state
    return out


def _unsupported(
    width: int,
    seq_idx: Tensor | None,
    cache_seqlens: Tensor | None = None,
    conv_state_indices: Tensor | None = None,
) -> str | None:
    """What of a call the kernels do not serve."""
    if width not in _KERNEL_WIDTHS:
        return f"a width of {width} (only 2, 3 and 4)"
    for name, value in (
        ("seq_idx", seq_idx),
        ("cache_seqlens", cache_seqlens),
        ("conv_state_indices", conv_state_indices),
    ):
        if value is not None:
            return f"`{name}`"
    return None


def _check(op: str, x: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    check_tensors(op, x=x, weight=weight, bias=bias)
    check_dims(op, "x", x, "(batch, dim, length)", 3)
    _check_filter(op, x, weight, bias)


def _check_filter(op: str, x: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    check_dims(op, "weight", weight, "(dim, width)", 2)
    check_shape(op, "weight", weight, (x.shape[1], weight.shape[1]))
    check_device(op, "x", x, weight=weight, bias=bias)
    if weight.shape[1] < 1:
        raise ValueError(f"{op}: `weight` must have at least one column")
    if bias is not None:
        check_shape(op, "bias", bias, (x.shape[1],))
        check_dtype(op, "bias", bias, (weight.dtype,), of="weight")


def _check_states(
    op: str,
    x: Tensor,
    weight: Tensor,
    seq_idx: Tensor | None,
    initial_states: Tensor | None,
    return_final_states: bool,
    final_states_out: Tensor | None,
) -> None:
    check_device(op, "x", x, seq_idx=seq_idx, initial_states=initial_states, final_states_out=final_states_out)
    states = (x.shape[0], x.shape[1], weight.shape[1] - 1)
    for name, value in (("initial_states", initial_states), ("final_states_out", final_states_out)):
        if value is not None:
            check_shape(op, name, value, states)
            check_dtype(op, name, value, (x.dtype,), of="x")
    if final_states_out is not None and not return_final_states:
        raise ValueError(f"{op}: `final_states_out` needs `return_final_states=True`")
    if seq_idx is not None:
        check_shape(op, "seq_idx", seq_idx, (x.shape[0], x.shape[2]))
        check_dtype(op, "seq_idx", seq_idx, (torch.int32,))
        if return_final_states:
            raise ValueError(f"{op}: `seq_idx` and `return_final_states` cannot be used together")


def _check_update(
    op: str,
    x: Tensor,
    conv_state: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    cache_seqlens: Tensor | None,
    conv_state_indices: Tensor | None,
) -> Tensor:
    """Check the arguments of an update; returns x as (batch, dim, length)."""
    check_tensors(
        op,
        x=x,
        conv_state=conv_state,
        weight=weight,
        bias=bias,
        cache_seqlens=cache_seqlens,
        conv_state_indices=conv_state_indices,
    )
    check_dims(op, "x", x, "(batch, dim) or (batch, dim, length)", 2, 3)
    steps = x.unsqueeze(-1) if x.dim() == 2 else x
    _check_filter(op, steps, weight, bias)
    batch, dim = x.shape[0], x.shape[1]
    check_dims(op, "conv_state", conv_state, "(batch, dim, state_length)", 3)
    entries = batch if conv_state_indices is None else conv_state.shape[0]
    check_shape(op, "conv_state", conv_state, (entries, dim, conv_state.shape[2]))
    if any(size > 1 and step == 0 for size, step in zip(conv_state.shape, conv_state.stride())):
        # Several rows would be one place in memory, written by several threads.
        raise ValueError(f"{op}: `conv_state` must not be an expanded tensor\nhint: write into conv_state.clone()")
    if conv_state.shape[2] < weight.shape[1] - 1:
        raise ValueError(
            f"{op}: `conv_state` must hold at least width - 1 = {weight.shape[1] - 1} columns, got {conv_state.shape[2]}"
        )
    check_device(op, "x", x, conv_state=conv_state, cache_seqlens=cache_seqlens, conv_state_indices=conv_state_indices)
    for name, value in (("cache_seqlens", cache_seqlens), ("conv_state_indices", conv_state_indices)):
        if value is not None:
            check_shape(op, name, value, (batch,))
            check_dtype(op, name, value, (torch.int32, torch.int64))
    return steps


def _final_states(x: Tensor, width: int, initial_states: Tensor | None, out: Tensor | None) -> Tensor:
    """The last width - 1 inputs, those before the start included: (batch, dim, width - 1)."""
    count = width - 1
    states = _reference.with_history(x, count, initial_states).narrow(2, x.shape[2], count)
    return states.clone() if out is None else out.copy_(states)

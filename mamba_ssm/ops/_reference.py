"""The formulas in plain PyTorch, in float32, differentiable, for any device: slow, and the measure for the kernels."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

# Steps whose states are alive at once in backward; what is kept between them is one state per chunk.
CHUNK = 64


def scan(
    u: Tensor,  # (batch, dim, length)
    delta: Tensor,  # (batch, dim, length)
    A: Tensor,  # (dim, state), real or complex
    B: Tensor,  # (dim, state), (batch, state, length) or (batch, groups, state, length)
    C: Tensor,  # likewise
    D: Tensor | None,  # (dim)
    z: Tensor | None,  # (batch, dim, length)
    delta_bias: Tensor | None,  # (dim)
    delta_softplus: bool,
    initial_state: Tensor | None = None,  # (batch, dim, state)
) -> tuple[Tensor, Tensor]:
    """Selective scan (Gu & Dao 2023, equation 2; zero-order hold on A, Euler on B).

    h_t = exp(dt_t A) h_{t-1} + dt_t u_t B_t and out_t = (C_t . h_t + D u_t) silu(z_t), where
    dt = softplus(delta + delta_bias). With a complex A the output is 2 Re(C_t . h_t), for conjugate pairs.
    Returns out (batch, dim, length) in u's dtype and the last state in A's (float32 or complex64).
    """
    dtype = u.dtype
    weight_dtype = torch.complex64 if A.is_complex() else torch.float32
    A = A.to(weight_dtype)
    u, delta = u.float(), delta.float()
    if delta_bias is not None:
        delta = delta + delta_bias.float()[..., None]
    if delta_softplus:
        delta = functional.softplus(delta)
    B, C = _projection(B, A), _projection(C, A)
    batch, dim, length = u.shape
    if initial_state is None:
        state = torch.zeros(batch, dim, A.shape[1], dtype=weight_dtype, device=u.device)
    else:
        state = initial_state.to(weight_dtype)
    # split, not slices: the gradient of a slice is as long as the whole sequence, that of split is one concatenation.
    pieces = zip(*(_split(each, length) for each in (u, delta, B, C)))
    outputs: list[Tensor] = []
    for piece in pieces:
        if length > CHUNK and torch.is_grad_enabled():
            y, state = checkpoint(_chunk, state, A, *piece, use_reentrant=False, preserve_rng_state=False)
        else:
            y, state = _chunk(state, A, *piece)
        outputs.append(y)
    out = torch.cat(outputs, dim=-1) if outputs else u
    if D is not None:
        out = out + u * D.float()[..., None]
    if z is not None:
        out = out * functional.silu(z.float())
    return out.to(dtype), state


def _projection(value: Tensor, A: Tensor) -> Tensor:
    """B or C in A's dtype: (dim, state), or (batch, groups, state, length)."""
    if value.dim() == 2:
        return value.to(A.dtype)
    if value.dim() == 3:
        value = value.unsqueeze(1)
    value = value.float()
    if A.is_complex():
        # The real and the imaginary parts alternate along the sequence.
        return torch.view_as_complex(value.reshape(*value.shape[:-1], -1, 2).contiguous())
    return value


def _split(value: Tensor, length: int) -> tuple[Tensor, ...]:
    if value.dim() == 2:
        return (value,) * (-(-length // CHUNK))
    return torch.split(value, CHUNK, dim=-1)


def _chunk(state: Tensor, A: Tensor, u: Tensor, delta: Tensor, B: Tensor, C: Tensor) -> tuple[Tensor, Tensor]:
    """The recurrence over a few steps: y (batch, dim, steps) before D and z, and the state after them."""
    decays = torch.exp(delta.permute(2, 0, 1)[..., None] * A)  # (steps, batch, dim, state)
    inputs = _per_channel((delta * u).permute(2, 0, 1)[..., None], B)
    states: list[Tensor] = []
    for decay, step in zip(decays.unbind(0), inputs.unbind(0)):
        state = decay * state + step
        states.append(state)
    # A sequence without steps has no states to stack, but its (empty) output still depends on every input.
    y = _per_channel(torch.stack(states) if states else decays * inputs, C).sum(-1)
    y = 2 * y.real if y.is_complex() else y
    return y.permute(1, 2, 0), state


def _per_channel(value: Tensor, projection: Tensor) -> Tensor:
    """(steps, batch, dim, state or 1) times B or C, each group of which serves dim / groups neighbouring channels."""
    if projection.dim() == 2:
        return value * projection
    groups = projection.shape[1]
    steps, batch, dim, width = value.shape
    wide = value.reshape(steps, batch, groups, dim // groups, width)
    grouped = wide * projection.permute(3, 0, 1, 2).unsqueeze(3)
    return grouped.flatten(2, 3)


def conv1d(
    x: Tensor,  # (batch, dim, length)
    weight: Tensor,  # (dim, width)
    bias: Tensor | None,  # (dim)
    silu: bool,
    initial_states: Tensor | None = None,  # (batch, dim, width - 1)
    seq_idx: Tensor | None = None,  # (batch, length)
) -> Tensor:
    """Causal depthwise convolution: out_t = silu?(bias + sum_k weight_k x_{t - width + 1 + k}) in x's dtype.

    With `seq_idx` an input counts only for outputs of its own sequence; where it is negative the output is 0.
    """
    length, width = x.shape[-1], weight.shape[1]
    padded = with_history(x, width - 1, initial_states).float()
    out = torch.zeros_like(padded[..., :length])
    if bias is not None:
        out = out + bias.float()[:, None]
    sequences = None
    if seq_idx is not None:
        # What stands before the start belongs to the first sequence.
        sequences = torch.cat([seq_idx[:, :1].expand(-1, width - 1), seq_idx], dim=1)
    for k in range(width):
        term = padded.narrow(2, k, length) * weight[:, k].float()[:, None]
        if sequences is not None and seq_idx is not None:
            term = term * (sequences.narrow(1, k, length) == seq_idx).unsqueeze(1)
        out = out + term
    if silu:
        out = functional.silu(out)
    if seq_idx is not None:
        out = out * (seq_idx >= 0).unsqueeze(1)
    return out.to(x.dtype)


def with_history(x: Tensor, count: int, history: Tensor | None) -> Tensor:
    """x preceded by its last `count` earlier inputs, zeros where there were none: (batch, dim, count + length)."""
    if history is None:
        return functional.pad(x, (count, 0))
    return torch.cat([history.to(x.dtype), x], dim=-1)


def conv1d_update(
    x: Tensor,  # (batch, dim, length)
    conv_state: Tensor,  # (batch, dim, state_length), changed in place
    weight: Tensor,
    bias: Tensor | None,
    silu: bool,
    cache_seqlens: Tensor | None = None,  # (batch)
) -> Tensor:
    """Further steps of the convolution. `conv_state` holds the last inputs, newest last; with `cache_seqlens` it is a
    ring instead, where the input at position p stands in column p mod state_length."""
    length, width, columns = x.shape[-1], weight.shape[1], conv_state.shape[-1]
    if cache_seqlens is None:
        everything = torch.cat([conv_state.to(x.dtype), x], dim=-1)
        history = everything[..., columns - (width - 1) : columns]
        out = conv1d(x, weight, bias, silu, initial_states=history)
        conv_state.copy_(everything[..., -columns:])
        return out
    position = cache_seqlens.long()[:, None]
    before = torch.arange(-(width - 1), 0, device=x.device)[None]
    dim = x.shape[1]
    history = conv_state.gather(2, ((position + before) % columns).unsqueeze(1).expand(-1, dim, -1))
    out = conv1d(x, weight, bias, silu, initial_states=history)
    # Of more inputs than the ring holds, only the newest stay.
    kept = torch.arange(max(0, length - columns), length, device=x.device)[None]
    where = ((position + kept) % columns).unsqueeze(1).expand(-1, dim, -1)
    conv_state.scatter_(2, where, x[..., max(0, length - columns) :].to(conv_state.dtype))
    return out

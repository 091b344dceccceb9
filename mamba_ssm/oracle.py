"""The formulas once more, as plainly as they can be written and in the dtype of their inputs: what the self-check and the
tests compare with, in float64. It shares no code with the ops."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor


def scan(
    u: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None = None,
    z: Tensor | None = None,
    delta_bias: Tensor | None = None,
    delta_softplus: bool = False,
    initial_state: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """out and the last state, step by step. Shapes as in selective_scan_fn, A real or complex."""
    batch, dim, length = u.shape
    dt = delta
    if delta_bias is not None:
        dt = dt + delta_bias.reshape(1, dim, 1)
    if delta_softplus:
        dt = torch.where(dt > 20, dt, torch.log1p(torch.exp(dt.clamp(max=20))))
    state = torch.zeros(batch, dim, A.shape[1], dtype=A.dtype) if initial_state is None else initial_state
    outputs = []
    for t in range(length):
        step = dt[:, :, t].unsqueeze(-1)
        state = torch.exp(step * A) * state + step * u[:, :, t].unsqueeze(-1) * _at(B, t, dim, A)
        y = (_at(C, t, dim, A) * state).sum(dim=-1)
        if A.is_complex():
            y = 2 * y.real
        if D is not None:
            y = y + D * u[:, :, t]
        if z is not None:
            y = y * z[:, :, t] / (1 + torch.exp(-z[:, :, t]))
        outputs.append(y)
    return torch.stack(outputs, dim=-1), state


def _at(value: Tensor, t: int, dim: int, A: Tensor) -> Tensor:
    """B_t or C_t for every channel: (batch, dim, state), or (dim, state) where constant."""
    if value.dim() == 2:
        return value
    if value.dim() == 3:
        value = value[:, None]
    now = torch.complex(value[..., 2 * t], value[..., 2 * t + 1]) if A.is_complex() else value[..., t]
    groups = now.shape[1]
    return torch.stack([now[:, d // (dim // groups)] for d in range(dim)], dim=1)


def conv1d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    silu: bool,
    initial_states: Tensor | None = None,
    seq_idx: Tensor | None = None,
) -> Tensor:
    """Output by output, tap by tap."""
    batch, dim, length = x.shape
    width = weight.shape[1]
    outputs = []
    for t in range(length):
        out = torch.zeros(batch, dim, dtype=x.dtype) if bias is None else bias.expand(batch, dim)
        for k in range(width):
            source = t - (width - 1) + k
            if source >= 0:
                term = weight[:, k] * x[:, :, source]
            elif initial_states is not None:
                term = weight[:, k] * initial_states[:, :, width - 1 + source]
            else:
                continue
            if seq_idx is not None:
                term = term * (seq_idx[:, max(source, 0)] == seq_idx[:, t]).to(x.dtype).unsqueeze(-1)
            out = out + term
        if silu:
            out = out / (1 + torch.exp(-out))
        if seq_idx is not None:
            out = out * (seq_idx[:, t] >= 0).to(x.dtype).unsqueeze(-1)
        outputs.append(out)
    return torch.stack(outputs, dim=-1)


def block(hidden_states: Tensor, parameters: Mapping[str, Tensor]) -> Tensor:
    """A Mamba block from its state_dict: (batch, length, d_model)."""
    state = parameters["A_log"].shape[1]
    rank = parameters["dt_proj.weight"].shape[1]
    xz = hidden_states @ parameters["in_proj.weight"].t()
    if "in_proj.bias" in parameters:
        xz = xz + parameters["in_proj.bias"]
    x, z = xz.transpose(1, 2).chunk(2, dim=1)
    x = conv1d(x, parameters["conv1d.weight"][:, 0], parameters.get("conv1d.bias"), True)
    projected = x.transpose(1, 2) @ parameters["x_proj.weight"].t()
    delta = (projected[..., :rank] @ parameters["dt_proj.weight"].t()).transpose(1, 2)
    B = projected[..., rank : rank + state].transpose(1, 2)
    C = projected[..., rank + state :].transpose(1, 2)
    A = -torch.exp(parameters["A_log"])
    y, _ = scan(x, delta, A, B, C, parameters["D"], z, parameters["dt_proj.bias"], True)
    out = y.transpose(1, 2) @ parameters["out_proj.weight"].t()
    return out + parameters["out_proj.bias"] if "out_proj.bias" in parameters else out

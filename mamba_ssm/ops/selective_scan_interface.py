"""Selective scan and the whole inner part of a Mamba block, with the interface of the mamba_ssm package.

The formula is equation 2 of Gu & Dao 2023, "Mamba: Linear-Time Sequence Modeling with Selective State Spaces", with
zero-order hold on A and Euler on B: h_t = exp(dt_t A) h_{t-1} + dt_t u_t B_t and out_t = (C_t . h_t + D u_t) silu(z_t).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from mamba_ssm.backend import choose_backend
from mamba_ssm.ops import _kernels, _reference
from mamba_ssm.ops._arguments import KERNEL_DTYPES, check_device, check_dims, check_dtype, check_shape, check_tensors
from mamba_ssm.ops.causal_conv1d import convolve

MAX_STATE = 256


def selective_scan_fn(
    u: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None = None,
    z: Tensor | None = None,
    delta_bias: Tensor | None = None,
    delta_softplus: bool = False,
    return_last_state: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Run the selective scan on the backend that serves u's device.

    Args:
        u, delta, z: (batch, dim, length), float32, float16 or bfloat16, all the same.
        A: (dim, state), float32 or complex64; state <= 256. Complex ones are served by the reference only.
        B, C: (dim, state) in A's dtype, or (batch, state, length) or (batch, groups, state, length) in u's dtype. With
            a complex A the last axis of these is 2 length, real and imaginary parts in turn. groups divides dim.
        D, delta_bias: (dim), float32; lower precision is widened.
        delta_softplus: apply softplus to delta + delta_bias (linear above 20).
        return_last_state: also return the last state, (batch, dim, state), float32 or complex64, without gradient.

    Returns:
        out (batch, dim, length) in u's dtype, or (out, last_state). Arithmetic is float32.

    Raises:
        ValueError, TypeError: a wrong shape, device or dtype.
        BackendError: a forced backend that cannot serve the call.
    """
    out, last_state = scan("selective_scan_fn", u, delta, A, B, C, D, z, delta_bias, delta_softplus)
    return (out, last_state) if return_last_state else out


def scan(
    op: str,
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
    """selective_scan_fn with the last state, under the name `op` in messages."""
    _check(op, u, delta, A, B, C, D, z, delta_bias)
    check_dtype(op, "u", u, KERNEL_DTYPES)
    for name, value in (("delta", delta), ("z", z)):
        if value is not None:
            check_dtype(op, name, value, (u.dtype,), of="u")
    A, D, delta_bias = _weight(op, "A", A), _widened(D), _widened(delta_bias)
    B, C = _projection(op, "B", B, u, A), _projection(op, "C", C, u, A)
    unsupported = "a complex `A`" if A.is_complex() else None
    if choose_backend(op, u.device, unsupported) == "reference" or u.numel() == 0:
        out, last_state = _reference.scan(u, delta, A, B, C, D, z, delta_bias, delta_softplus)
        last_state = last_state.detach()
    else:
        out, last_state = _kernels.scan(u, delta, A, B, C, D, z, delta_bias, delta_softplus)
    return out, last_state


def selective_scan_ref(
    u: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None = None,
    z: Tensor | None = None,
    delta_bias: Tensor | None = None,
    delta_softplus: bool = False,
    return_last_state: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """selective_scan_fn in plain PyTorch: float32 inside, dtypes may be mixed, differentiable any number of times, the
    last state included. Time and memory of backward grow linearly with the length."""
    _check("selective_scan_ref", u, delta, A, B, C, D, z, delta_bias)
    out, last_state = _reference.scan(u, delta, A, B, C, D, z, delta_bias, delta_softplus)
    return (out, last_state) if return_last_state else out


def mamba_inner_fn(
    xz: Tensor,
    conv1d_weight: Tensor,
    conv1d_bias: Tensor | None,
    x_proj_weight: Tensor,
    delta_proj_weight: Tensor,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    A: Tensor,
    B: Tensor | None = None,
    C: Tensor | None = None,
    D: Tensor | None = None,
    delta_bias: Tensor | None = None,
    B_proj_bias: Tensor | None = None,
    C_proj_bias: Tensor | None = None,
    delta_softplus: bool = True,
    checkpoint_lvl: int = 1,
    b_rms_weight: Tensor | None = None,
    c_rms_weight: Tensor | None = None,
    dt_rms_weight: Tensor | None = None,
    b_c_dt_rms_eps: float = 1e-6,
) -> Tensor:
    """Everything of a Mamba block between its input projection and its output: convolution, projections, scan, output
    projection. Gradients flow to every tensor. Under autocast the projections run in autocast's dtype.

    Args:
        xz: (batch, 2 dim, length): the input of the convolution, then the gate.
        conv1d_weight: (dim, 1, width). conv1d_bias: (dim).
        x_proj_weight: (dt_rank + 2 state, dim); 4 state with a complex A. Without the rows of a B or C that is given.
        delta_proj_weight: (dim, dt_rank). out_proj_weight: (d_model, dim). out_proj_bias: (d_model).
        A: (dim, state). D, delta_bias: (dim). B, C: as in selective_scan_fn; None: projected from the input.
        B_proj_bias, C_proj_bias: (state), added to projected B and C.
        checkpoint_lvl: 0 or 1, accepted for compatibility: results do not depend on it.
        b_rms_weight, c_rms_weight: (state), dt_rms_weight: (dim): RMS-normalise projected B, C, delta over that axis.

    Returns:
        (batch, length, d_model).
    """
    if checkpoint_lvl not in (0, 1):
        raise ValueError(f"mamba_inner_fn: `checkpoint_lvl` must be 0 or 1, got {checkpoint_lvl}")
    x, z = _inner_input("mamba_inner_fn", xz, conv1d_weight, x_proj_weight, delta_proj_weight)
    x = convolve("mamba_inner_fn", x, conv1d_weight.squeeze(1), conv1d_bias, silu=True)
    delta, B, C = _inner_projections(
        x, x_proj_weight, delta_proj_weight, A, B, C, B_proj_bias, C_proj_bias, b_rms_weight, c_rms_weight,
        dt_rms_weight, b_c_dt_rms_eps,
    )  # fmt: skip
    y, _ = scan("mamba_inner_fn", x, delta, A, B, C, D, z, delta_bias, delta_softplus)
    return functional.linear(y.transpose(1, 2), out_proj_weight, out_proj_bias)


def mamba_inner_ref(
    xz: Tensor,
    conv1d_weight: Tensor,
    conv1d_bias: Tensor | None,
    x_proj_weight: Tensor,
    delta_proj_weight: Tensor,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    A: Tensor,
    B: Tensor | None = None,
    C: Tensor | None = None,
    D: Tensor | None = None,
    delta_bias: Tensor | None = None,
    B_proj_bias: Tensor | None = None,
    C_proj_bias: Tensor | None = None,
    delta_softplus: bool = True,
) -> Tensor:
    """mamba_inner_fn over the references, on any device."""
    x, z = _inner_input("mamba_inner_ref", xz, conv1d_weight, x_proj_weight, delta_proj_weight)
    x = _reference.conv1d(x, conv1d_weight.squeeze(1), conv1d_bias, silu=True)
    delta, B, C = _inner_projections(
        x, x_proj_weight, delta_proj_weight, A, B, C, B_proj_bias, C_proj_bias, None, None, None, 0.0
    )
    _check("mamba_inner_ref", x, delta, A, B, C, D, z, delta_bias)
    y, _ = _reference.scan(x, delta, A, B, C, D, z, delta_bias, delta_softplus)
    return functional.linear(y.transpose(1, 2), out_proj_weight, out_proj_bias)


def _check(
    op: str,
    u: Tensor,
    delta: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    D: Tensor | None,
    z: Tensor | None,
    delta_bias: Tensor | None,
) -> None:
    check_tensors(op, u=u, delta=delta, A=A, B=B, C=C, D=D, z=z, delta_bias=delta_bias)
    check_dims(op, "u", u, "(batch, dim, length)", 3)
    check_dims(op, "A", A, "(dim, state)", 2)
    batch, dim, length = u.shape
    state = A.shape[1]
    check_shape(op, "A", A, (dim, state))
    if not 1 <= state <= MAX_STATE:
        raise ValueError(f"{op}: `A` must have between 1 and {MAX_STATE} columns (the state), got {state}")
    for name, value in (("delta", delta), ("z", z)):
        if value is not None:
            check_shape(op, name, value, (batch, dim, length))
    for name, value in (("D", D), ("delta_bias", delta_bias)):
        if value is not None:
            check_shape(op, name, value, (dim,))
    steps = 2 * length if A.is_complex() else length
    groups = []
    for name, value in (("B", B), ("C", C)):
        if value.dim() == 4:
            groups.append(value.shape[1])
            if value.shape[1] < 1 or dim % value.shape[1] != 0:
                raise ValueError(
                    f"{op}: `{name}` must have a number of groups that divides dim = {dim}, got {value.shape[1]}"
                )
        elif value.dim() == 3:
            groups.append(1)
        shapes = [(dim, state), (batch, state, steps), (batch, groups[-1] if groups else 1, state, steps)]
        check_shape(op, name, value, *shapes)
    if len(groups) == 2 and groups[0] != groups[1]:
        raise ValueError(f"{op}: `B` and `C` must have the same number of groups, got {groups[0]} and {groups[1]}")
    check_device(op, "u", u, delta=delta, A=A, B=B, C=C, D=D, z=z, delta_bias=delta_bias)


def _weight(op: str, name: str, value: Tensor) -> Tensor:
    """A in float32 or complex64; narrower ones are widened, since the arithmetic is float32 anyway."""
    if value.dtype == torch.complex64:
        return value
    check_dtype(op, name, value, KERNEL_DTYPES)
    return value.float()


def _widened(value: Tensor | None) -> Tensor | None:
    return None if value is None else value.float()


def _projection(op: str, name: str, value: Tensor, u: Tensor, A: Tensor) -> Tensor:
    """B or C as the ops take them: (dim, state) in A's dtype, or (batch, groups, state, length) in u's."""
    if value.dim() == 2:
        check_dtype(op, name, value, KERNEL_DTYPES + ((torch.complex64,) if A.is_complex() else ()))
        return value.to(A.dtype)
    check_dtype(op, name, value, (u.dtype,), of="u")
    return value.unsqueeze(1) if value.dim() == 3 else value


def _inner_input(
    op: str, xz: Tensor, conv1d_weight: Tensor, x_proj_weight: Tensor, delta_proj_weight: Tensor
) -> tuple[Tensor, Tensor]:
    """Check what the ops would not name; returns x and z, each (batch, dim, length)."""
    check_dims(op, "xz", xz, "(batch, 2 dim, length)", 3)
    if xz.shape[1] % 2 != 0:
        raise ValueError(f"{op}: `xz` must have an even number of channels, got the shape {tuple(xz.shape)}")
    dim = xz.shape[1] // 2
    check_dims(op, "conv1d_weight", conv1d_weight, "(dim, 1, width)", 3)
    check_shape(op, "conv1d_weight", conv1d_weight, (dim, 1, conv1d_weight.shape[2]))
    check_dims(op, "x_proj_weight", x_proj_weight, "(dt_rank + 2 state, dim)", 2)
    check_shape(op, "x_proj_weight", x_proj_weight, (x_proj_weight.shape[0], dim))
    check_dims(op, "delta_proj_weight", delta_proj_weight, "(dim, dt_rank)", 2)
    check_shape(op, "delta_proj_weight", delta_proj_weight, (dim, delta_proj_weight.shape[1]))
    return xz[:, :dim], xz[:, dim:]


def _inner_projections(
    x: Tensor,  # (batch, dim, length)
    x_proj_weight: Tensor,
    delta_proj_weight: Tensor,
    A: Tensor,
    B: Tensor | None,
    C: Tensor | None,
    B_proj_bias: Tensor | None,
    C_proj_bias: Tensor | None,
    b_rms_weight: Tensor | None,
    c_rms_weight: Tensor | None,
    dt_rms_weight: Tensor | None,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """delta (batch, dim, length), B and C as the scan takes them, in x's dtype."""
    rank = delta_proj_weight.shape[1]
    rows = A.shape[1] * (2 if A.is_complex() else 1)
    parts = [rank] + [rows for value in (B, C) if value is None]
    if x_proj_weight.shape[0] != sum(parts):
        raise ValueError(
            f"mamba_inner: `x_proj_weight` must have dt_rank and the rows of B and C, {' + '.join(map(str, parts))}, "
            f"got {x_proj_weight.shape[0]}"
        )
    projected = list(torch.split(functional.linear(x.transpose(1, 2), x_proj_weight), parts, dim=-1))
    delta = functional.linear(projected.pop(0), delta_proj_weight)
    if dt_rms_weight is not None:
        delta = _rms_norm("dt_rms_weight", delta, dt_rms_weight, eps)
    if B is None:
        B = _inner_projection("b_rms_weight", projected.pop(0), B_proj_bias, b_rms_weight, eps, A, x.dtype)
    if C is None:
        C = _inner_projection("c_rms_weight", projected.pop(0), C_proj_bias, c_rms_weight, eps, A, x.dtype)
    return delta.transpose(1, 2).to(x.dtype), B, C


def _inner_projection(
    name: str,
    value: Tensor,  # (batch, length, state), or 2 state: real and imaginary parts in turn
    bias: Tensor | None,
    rms_weight: Tensor | None,
    eps: float,
    A: Tensor,
    dtype: torch.dtype,
) -> Tensor:
    """B or C of the scan, (batch, 1, state, length), from its projection."""
    if bias is not None:
        value = value + bias.to(value.dtype)
    if rms_weight is not None:
        value = _rms_norm(name, value, rms_weight, eps)
    if A.is_complex():
        value = value.reshape(*value.shape[:-1], -1, 2).permute(0, 2, 1, 3).flatten(2, 3)
    else:
        value = value.transpose(1, 2)
    return value.to(dtype).unsqueeze(1)


def _rms_norm(name: str, value: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Divide by the root mean square over the last axis and scale, in float32."""
    check_shape("mamba_inner_fn", name, weight, (value.shape[-1],))
    wide = value.float()
    scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (wide * scale * weight.float()).to(value.dtype)

"""What the kernels should compute, step by step in float64, gradients by hand."""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

import numpy as np

Array = Any


def sigmoid(x: Array) -> Array:
    with np.errstate(over="ignore"):
        return 1.0 / (1.0 + np.exp(-x))


def softplus(x: Array) -> Array:
    return np.where(x > 20, x, np.log1p(np.exp(np.minimum(x, 20.0))))


def _per_step(weights: Array, variable: bool, dim: int, length: int) -> Array:
    """B or C as (batch or 1, dim, length or 1, state)."""
    if not variable:
        return weights[None, :, None, :]
    return np.repeat(weights, dim // weights.shape[1], axis=1).transpose(0, 1, 3, 2)


def _summed(gradient: Array, weights: Array, variable: bool) -> Array:
    """The gradient of B or C from that of its copies."""
    if not variable:
        return gradient.sum((0, 2))
    batch, groups, state, length = weights.shape
    return gradient.reshape(batch, groups, -1, length, state).sum(2).transpose(0, 1, 3, 2)


def _steps(a: Dict[str, Optional[Array]], softplussed: bool) -> Tuple[Array, Array]:
    raw = a["delta"] if a["delta_bias"] is None else a["delta"] + a["delta_bias"][:, None]
    return raw, (softplus(raw) if softplussed else raw)


def selective_scan(a: Dict[str, Any], softplussed: bool) -> Tuple[Array, Array, Array]:
    """out, last state, and the states before each step and after the last (length + 1 of them)."""
    batch, dim, length = a["u"].shape
    _, dt = _steps(a, softplussed)
    B, C = (_per_step(a[k], a[k].ndim == 4, dim, length) for k in "BC")
    h = np.zeros((batch, dim, a["A"].shape[1]), a["u"].dtype) if a["initial_state"] is None else a["initial_state"]
    states, y = [h], np.empty_like(a["u"])
    for i in range(length):
        step = (slice(None), slice(None), min(i, B.shape[2] - 1))
        h = np.exp(dt[:, :, i, None] * a["A"]) * h + (dt * a["u"])[:, :, i, None] * B[step]
        y[:, :, i] = (h * C[:, :, min(i, C.shape[2] - 1)]).sum(-1)
        states.append(h)
    if a["D"] is not None:
        y = y + a["D"][:, None] * a["u"]
    out = y if a["z"] is None else y * a["z"] * sigmoid(a["z"])
    return out, h, np.stack(states, 2)


def selective_scan_gradients(
    a: Dict[str, Any], softplussed: bool, dout: Array, dlast: Optional[Array]
) -> Dict[str, Array]:
    _, dim, length = a["u"].shape
    raw, dt = _steps(a, softplussed)
    _, _, h = selective_scan(a, softplussed)
    B, C = (_per_step(a[k], a[k].ndim == 4, dim, length) for k in "BC")
    y = (h[:, :, 1:] * C).sum(-1)
    if a["D"] is not None:
        y = y + a["D"][:, None] * a["u"]
    result: Dict[str, Array] = {}
    dy = dout
    if a["z"] is not None:
        gate = sigmoid(a["z"])
        dy = dout * a["z"] * gate
        result["dz"] = dout * y * gate * (1 + a["z"] * (1 - gate))
    decay = np.exp(dt[..., None] * a["A"][:, None])
    dh = np.empty_like(decay)  # gradient of the state after each step
    carried = np.zeros(h[:, :, 0].shape) if dlast is None else dlast
    Cs = np.broadcast_to(C, decay.shape)
    for i in reversed(range(length)):
        dh[:, :, i] = carried + dy[:, :, i, None] * Cs[:, :, i]
        carried = dh[:, :, i] * decay[:, :, i]
    ddecay = dh * h[:, :, :-1] * decay
    dstep = (ddecay * a["A"][:, None]).sum(-1) + (dh * B).sum(-1) * a["u"]
    ddelta = dstep * np.where(raw > 20, 1.0, sigmoid(raw)) if softplussed else dstep
    result["du"] = (dh * B).sum(-1) * dt
    if a["D"] is not None:
        result["du"] = result["du"] + a["D"][:, None] * dy
        result["dD"] = (dy * a["u"]).sum((0, 2))
    result["ddelta"] = ddelta
    if a["delta_bias"] is not None:
        result["ddelta_bias"] = ddelta.sum((0, 2))
    result["dA"] = (ddecay * dt[..., None]).sum((0, 2))
    result["dB"] = _summed(dh * (dt * a["u"])[..., None], a["B"], a["B"].ndim == 4)
    result["dC"] = _summed(h[:, :, 1:] * dy[..., None], a["C"], a["C"].ndim == 4)
    result["dinitial_state"] = carried
    return result


def causal_conv1d(x: Array, weight: Array, bias: Optional[Array], silu: bool) -> Tuple[Array, Array]:
    """The output, and the sums before the activation."""
    width, length = weight.shape[1], x.shape[2]
    padded = np.pad(x, ((0, 0), (0, 0), (width - 1, 0)))
    sums = sum(weight[:, k, None] * padded[:, :, k : k + length] for k in range(width))
    if bias is not None:
        sums = sums + bias[:, None]
    return (sums * sigmoid(sums) if silu else sums), sums


def causal_conv1d_gradients(
    x: Array, weight: Array, bias: Optional[Array], silu: bool, dout: Array
) -> Tuple[Array, Array, Array]:
    width, length = weight.shape[1], x.shape[2]
    _, sums = causal_conv1d(x, weight, bias, silu)
    gate = sigmoid(sums)
    dsums = dout * gate * (1 + sums * (1 - gate)) if silu else dout
    padded = np.pad(x, ((0, 0), (0, 0), (width - 1, 0)))
    dpadded, dweight = np.zeros_like(padded), np.empty_like(weight)
    for k in range(width):
        dpadded[:, :, k : k + length] += weight[:, k, None] * dsums
        dweight[:, k] = (padded[:, :, k : k + length] * dsums).sum((0, 2))
    return dpadded[:, :, width - 1 :], dweight, dsums.sum((0, 2))

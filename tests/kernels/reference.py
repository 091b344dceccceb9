"""The mathematics in float64, vectorised over everything but time."""

from __future__ import annotations

from typing import Dict, Optional, Tuple

import numpy as np

from tests.kernels.arrays import Floats


def sigmoid(x: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-x)))


def silu(x: Floats) -> Floats:
    return np.asarray(x * sigmoid(x))


def silu_derivative(x: Floats) -> Floats:
    s = sigmoid(x)
    return np.asarray(s * (1 + x * (1 - s)))


def softplus(x: Floats) -> Floats:
    return np.where(x > 20, x, np.log1p(np.exp(np.minimum(x, 20))))


def softplus_derivative(x: Floats) -> Floats:
    return np.where(x > 20, 1.0, sigmoid(x))


def _along_channels(projection: Floats, batch: int, dim: int, length: int) -> Floats:
    """B or C for every channel: (batch, dim, state, length)."""
    if projection.ndim == 2:
        return np.broadcast_to(projection[None, :, :, None], (batch, *projection.shape, length))
    return np.repeat(projection, dim // projection.shape[1], axis=1)


def _to_projection(gradient: Floats, projection: Floats) -> Floats:
    """The gradient of B or C from that of every channel."""
    if projection.ndim == 2:
        return np.asarray(gradient.sum(axis=(0, 3)))
    batch, groups, state, length = projection.shape
    return np.asarray(gradient.reshape(batch, groups, -1, state, length).sum(axis=2))


def selective_scan(inputs: Dict[str, Floats], delta_softplus: bool) -> Tuple[Dict[str, Floats], Dict[str, Floats]]:
    """Outputs, and gradients where `dout` is among the inputs. Absent optional arguments are missing keys."""
    u, delta, A = inputs["u"], inputs["delta"], inputs["A"]
    batch, dim, length = u.shape
    B = _along_channels(inputs["B"], batch, dim, length)
    C = _along_channels(inputs["C"], batch, dim, length)
    D = inputs.get("D", np.zeros(dim))[None, :, None]
    biased = delta + inputs.get("delta_bias", np.zeros(dim))[None, :, None]
    dt = softplus(biased) if delta_softplus else biased
    decay = np.exp(dt[:, :, None, :] * A[None, :, :, None])
    drive = (dt * u)[:, :, None, :] * B
    states = np.empty((length + 1, batch, dim, A.shape[1]))
    states[0] = inputs.get("initial_state", 0.0)
    for t in range(length):
        states[t + 1] = decay[..., t] * states[t] + drive[..., t]
    before, after = np.moveaxis(states[:-1], 0, -1), np.moveaxis(states[1:], 0, -1)
    y = (C * after).sum(axis=2) + D * u
    z: Optional[Floats] = inputs.get("z")
    outputs = {"out": y if z is None else y * silu(z), "last_state": states[-1]}
    if "dout" not in inputs:
        return outputs, {}

    dout = inputs["dout"]
    dy = dout if z is None else dout * silu(z)
    dh = np.empty_like(decay)
    q = np.zeros_like(states[0]) + inputs.get("dlast_state", 0.0)
    for t in reversed(range(length)):
        dh[..., t] = C[..., t] * dy[:, :, None, t] + q
        q = decay[..., t] * dh[..., t]
    ddt = (dh * (A[None, :, :, None] * decay * before + u[:, :, None, :] * B)).sum(axis=2)
    ddelta = ddt * softplus_derivative(biased) if delta_softplus else ddt
    gradients = {
        "du": D * dy + (dh * dt[:, :, None, :] * B).sum(axis=2),
        "ddelta": ddelta,
        "dA": (dh * dt[:, :, None, :] * decay * before).sum(axis=(0, 3)),
        "dB": _to_projection(dh * (dt * u)[:, :, None, :], inputs["B"]),
        "dC": _to_projection(dy[:, :, None, :] * after, inputs["C"]),
        "dD": (dy * u).sum(axis=(0, 2)),
        "ddelta_bias": ddelta.sum(axis=(0, 2)),
        "dinitial_state": q,
    }
    if z is not None:
        gradients["dz"] = dout * y * silu_derivative(z)
    return outputs, gradients


def _windows(x: Floats, width: int) -> Floats:
    """(batch, dim, length, width): the newest `width` inputs at each step, 0 before the start."""
    padded = np.pad(x, ((0, 0), (0, 0), (width - 1, 0)))
    return np.stack([padded[..., k : k + x.shape[2]] for k in range(width)], axis=-1)


def causal_conv1d(x: Floats, weight: Floats, bias: Optional[Floats], with_silu: bool) -> Floats:
    before = (_windows(x, weight.shape[1]) * weight[None, :, None, :]).sum(axis=-1)
    before = before + (0.0 if bias is None else bias[None, :, None])
    return silu(before) if with_silu else np.asarray(before)


def causal_conv1d_gradients(
    dout: Floats, x: Floats, weight: Floats, bias: Optional[Floats], with_silu: bool
) -> Dict[str, Floats]:
    width, length = weight.shape[1], x.shape[2]
    e = dout * silu_derivative(causal_conv1d(x, weight, bias, False)) if with_silu else dout
    dpadded = np.zeros((*x.shape[:2], length + width - 1))
    for k in range(width):
        dpadded[..., k : k + length] += e * weight[None, :, None, k]
    return {
        "dx": dpadded[..., width - 1 :],
        "dweight": (_windows(x, width) * e[..., None]).sum(axis=(0, 2)),
        "dbias": e.sum(axis=(0, 2)),
    }

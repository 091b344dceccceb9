"""mamba_inner_fn against its parts written out in float64, with the gradient of every argument."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from mamba_ssm import oracle
from mamba_ssm.ops import selective_scan_interface as ops
from tests.ops.comparing import compare

mamba_inner_fn: Any = ops.mamba_inner_fn
mamba_inner_ref: Any = ops.mamba_inner_ref

BATCH, DIM, LENGTH, STATE, RANK, MODEL, WIDTH = 2, 6, 70, 4, 3, 5, 3
TOLERANCE = (6e-4, 2e-3)


def draw(*optional: str, varying: bool = True, complex_a: bool = False) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    rows = STATE * (2 if complex_a else 1)
    A = -torch.rand(DIM, STATE, generator=generator)
    everything = {
        "xz": normal(BATCH, 2 * DIM, LENGTH),
        "conv1d_weight": normal(DIM, 1, WIDTH),
        "conv1d_bias": normal(DIM),
        "x_proj_weight": 0.5 * normal(RANK + (2 * rows if varying else 0), DIM),
        "delta_proj_weight": 0.5 * normal(DIM, RANK),
        "out_proj_weight": 0.5 * normal(MODEL, DIM),
        "out_proj_bias": normal(MODEL),
        "A": torch.complex(A, normal(DIM, STATE)) if complex_a else A,
        "B": torch.complex(normal(DIM, STATE), normal(DIM, STATE)) if complex_a else normal(DIM, STATE),
        "C": torch.complex(normal(DIM, STATE), normal(DIM, STATE)) if complex_a else normal(DIM, STATE),
        "D": normal(DIM),
        "delta_bias": normal(DIM) - 1,
        "B_proj_bias": normal(rows),
        "C_proj_bias": normal(rows),
        "b_rms_weight": normal(STATE),
        "c_rms_weight": normal(STATE),
        "dt_rms_weight": normal(DIM),
    }
    needed = ["xz", "conv1d_weight", "x_proj_weight", "delta_proj_weight", "out_proj_weight", "A"]
    needed += [] if varying else ["B", "C"]
    return {name: value for name, value in everything.items() if name in (*needed, *optional)}


ALWAYS = ("conv1d_bias", "out_proj_bias", "D", "delta_bias")


def plain(**p: Tensor) -> Tensor:
    """The same, from the oracle's parts."""
    x, z = p["xz"].chunk(2, dim=1)
    x = oracle.conv1d(x, p["conv1d_weight"][:, 0], p.get("conv1d_bias"), True)
    projected = x.transpose(1, 2) @ p["x_proj_weight"].t()
    delta = projected[..., :RANK] @ p["delta_proj_weight"].t()
    if "dt_rms_weight" in p:
        delta = rms(delta, p["dt_rms_weight"])
    rows = (projected.shape[-1] - RANK) // 2
    B = p["B"] if "B" in p else projection(projected[..., RANK : RANK + rows], p, "b")
    C = p["C"] if "C" in p else projection(projected[..., RANK + rows :], p, "c")
    y, _ = oracle.scan(x, delta.transpose(1, 2), p["A"], B, C, p.get("D"), z, p.get("delta_bias"), True)
    out = y.transpose(1, 2) @ p["out_proj_weight"].t()
    return out + p["out_proj_bias"] if "out_proj_bias" in p else out


def projection(value: Tensor, p: dict[str, Tensor], letter: str) -> Tensor:
    if f"{letter.upper()}_proj_bias" in p:
        value = value + p[f"{letter.upper()}_proj_bias"]
    if f"{letter}_rms_weight" in p:
        value = rms(value, p[f"{letter}_rms_weight"])
    if not p["A"].is_complex():
        return value.transpose(1, 2)
    # (batch, length, state, 2) -> (batch, state, 2 length)
    return value.reshape(BATCH, LENGTH, STATE, 2).permute(0, 2, 1, 3).reshape(BATCH, STATE, 2 * LENGTH)


def rms(value: Tensor, weight: Tensor) -> Tensor:
    return value / torch.sqrt((value**2).mean(dim=-1, keepdim=True) + 1e-6) * weight


def call(function: Any, **inputs: Tensor) -> Tensor:
    for name in ("conv1d_bias", "out_proj_bias"):
        inputs.setdefault(name, None)  # type: ignore[arg-type]
    result: Tensor = function(**inputs)
    return result


@pytest.mark.parametrize(
    "optional",
    [
        ALWAYS,
        (),
        (*ALWAYS, "B_proj_bias", "C_proj_bias"),
        (*ALWAYS, "b_rms_weight", "c_rms_weight", "dt_rms_weight"),
        (*ALWAYS, "B_proj_bias", "b_rms_weight"),
    ],
    ids=lambda optional: "+".join(optional) or "the least",
)
def test_every_gradient(optional: tuple[str, ...], device: str) -> None:
    gradients = {"A": (6e-4, 1e-2)}
    compare(lambda **each: call(mamba_inner_fn, **each), plain, draw(*optional), TOLERANCE, gradients, device)


def test_constant_projections(device: str) -> None:
    inputs = draw(*ALWAYS, varying=False)
    compare(lambda **each: call(mamba_inner_fn, **each), plain, inputs, TOLERANCE, {}, device)


@pytest.mark.parametrize("varying", [True, False])
def test_complex(varying: bool) -> None:
    inputs = draw(*ALWAYS, varying=varying, complex_a=True)
    compare(lambda **each: call(mamba_inner_ref, **each), plain, inputs, TOLERANCE, {}, "cpu")


def test_the_reference_agrees(device: str) -> None:
    inputs = {name: value.to(device) for name, value in draw(*ALWAYS, "B_proj_bias").items()}
    expected = call(mamba_inner_ref, **inputs)
    for level in (0, 1):
        assert torch.allclose(mamba_inner_fn(**inputs, checkpoint_lvl=level), expected, atol=1e-4)


def test_the_order_of_the_arguments(device: str) -> None:
    inputs = {name: value.to(device) for name, value in draw(*ALWAYS).items()}
    positional = [inputs.get(name) for name in (
        "xz", "conv1d_weight", "conv1d_bias", "x_proj_weight", "delta_proj_weight", "out_proj_weight",
        "out_proj_bias", "A", "B", "C", "D", "delta_bias",
    )]  # fmt: skip
    assert torch.equal(mamba_inner_fn(*positional), mamba_inner_fn(**inputs))


def test_autocast(device: str) -> None:
    inputs = {name: value.to(device).requires_grad_() for name, value in draw(*ALWAYS).items()}
    with torch.autocast(device, dtype=torch.bfloat16):
        out = mamba_inner_fn(**inputs)
    assert out.dtype == torch.bfloat16
    want = plain(**{name: value.detach().double().cpu() for name, value in inputs.items()})
    # The projections are rounded to 8 bits on the way, so single values may be far off where terms cancel.
    assert torch.linalg.norm(out.cpu().double() - want) < 0.03 * torch.linalg.norm(want)
    for name, gradient in zip(inputs, torch.autograd.grad(out.float().sum(), list(inputs.values()))):
        assert gradient.dtype == inputs[name].dtype


def test_wrong_arguments() -> None:
    inputs = draw(*ALWAYS)
    with pytest.raises(ValueError, match=r"must have dt_rank and the rows of B and C, 3 \+ 4 \+ 4, got 10"):
        mamba_inner_fn(**{**inputs, "x_proj_weight": torch.zeros(10, DIM)})
    with pytest.raises(ValueError, match="`xz` must have an even number of channels"):
        mamba_inner_fn(**{**inputs, "xz": torch.zeros(2, 7, 5)})
    with pytest.raises(ValueError, match="`checkpoint_lvl` must be 0 or 1, got 2"):
        mamba_inner_fn(**inputs, checkpoint_lvl=2)
    with pytest.raises(ValueError, match=r"`b_rms_weight` must have the shape \(4,\), got \(3,\)"):
        mamba_inner_fn(**inputs, b_rms_weight=torch.ones(3))

"""Compare a call with the oracle in float64: results and the gradient of every input."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

Tolerance = tuple[float, float]  # rtol, atol

# facts of the public tests: relative and absolute tolerance per dtype
SCAN = {torch.float32: (6e-4, 2e-3), torch.float16: (3e-3, 5e-3), torch.bfloat16: (3e-2, 5e-2)}
CONV = {torch.float32: (3e-4, 1e-3), torch.float16: (3e-3, 5e-3), torch.bfloat16: (1e-2, 5e-2)}
WEIGHT: Tolerance = (1e-3, 1e-3)


def compare(
    call: Callable[..., Tensor],
    expected: Callable[..., Tensor],
    inputs: Mapping[str, Tensor],
    tolerance: Tolerance,
    gradients: Mapping[str, Tolerance],
    device: str,
) -> None:
    """`gradients` holds the tolerances of those inputs whose gradients differ from the output's."""
    # What the layout of an input is counts, so that no copy is made where it is here already.
    here = {name: value.detach().to(device).requires_grad_() for name, value in inputs.items()}
    exact = {name: _wide(value.detach()).requires_grad_() for name, value in inputs.items()}
    got, want = call(**here), expected(**exact)
    first = next(iter(inputs.values()))
    assert got.dtype == first.dtype
    close("out", got, want, tolerance)
    weights = torch.randn(want.shape, generator=torch.Generator().manual_seed(7)).to(first.dtype)
    got_gradients = torch.autograd.grad(got, list(here.values()), weights.to(device))
    want_gradients = torch.autograd.grad(want, list(exact.values()), weights.double())
    for name, mine, exactly in zip(here, got_gradients, want_gradients):
        assert mine.dtype == here[name].dtype
        close(f"the gradient of {name}", mine, exactly, gradients.get(name, tolerance))


def close(what: str, got: Tensor, want: Tensor, tolerance: Tolerance) -> None:
    """Assert that got is within rtol and atol of want."""
    rtol, atol = tolerance
    got, want = _wide(got.detach()).cpu(), want.detach()
    assert got.shape == want.shape, f"{what}: {tuple(got.shape)} instead of {tuple(want.shape)}"
    excess = ((got - want).abs() - (atol + rtol * want.abs())).max().item()
    assert excess <= 0, f"{what} is off by {(got - want).abs().max().item():.2e}, {excess:.2e} more than allowed"


def _wide(value: Tensor) -> Tensor:
    return value.to(torch.complex128) if value.is_complex() else value.double()

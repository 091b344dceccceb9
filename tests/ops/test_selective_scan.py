"""selective_scan_fn and selective_scan_ref against the recurrence in float64."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from mamba_ssm import oracle
from mamba_ssm.backend import BackendError
from mamba_ssm.ops import selective_scan_interface as ops
from tests.ops.comparing import SCAN, WEIGHT, close, compare

# Their results are a tensor or a pair, as an argument says, which types cannot follow here.
selective_scan_fn: Any = ops.selective_scan_fn
selective_scan_ref: Any = ops.selective_scan_ref


@dataclass(frozen=True)
class Case:
    """One call; each row below varies one thing."""

    dtype: torch.dtype = torch.float32
    batch: int = 2
    dim: int = 4
    length: int = 128
    state: int = 8
    groups: int = 1
    varying_b: bool = True
    varying_c: bool = True
    three_dimensional: bool = False  # B and C without the axis of groups
    without: tuple[str, ...] = ()
    softplus: bool = True
    steep: bool = False  # step sizes on both sides of softplus's threshold of 20
    layout: str = "contiguous"
    complex_a: bool = False


BASE = Case()
CASES = [
    BASE,
    *(replace(BASE, dtype=dtype) for dtype in (torch.float16, torch.bfloat16)),
    *(replace(BASE, length=length) for length in (1, 2, 7, 63, 64, 65, 129, 372, 1134)),
    *(replace(BASE, state=state, length=40) for state in (1, 3, 16, 17, 256)),
    *(replace(BASE, dim=dim, length=33) for dim in (1, 5, 67)),
    replace(BASE, groups=2),
    replace(BASE, groups=4, dtype=torch.bfloat16),
    replace(BASE, three_dimensional=True),
    replace(BASE, varying_b=False),
    replace(BASE, varying_c=False),
    replace(BASE, varying_b=False, varying_c=False),
    replace(BASE, varying_b=False, dtype=torch.float16),
    *(replace(BASE, without=(name,)) for name in ("D", "z", "delta_bias")),
    replace(BASE, without=("D", "z", "delta_bias"), softplus=False),
    replace(BASE, softplus=False),
    replace(BASE, steep=True),
    replace(BASE, layout="channel-last"),
    replace(BASE, layout="channel-last", dtype=torch.bfloat16),
    replace(BASE, layout="part of a larger tensor"),
]
COMPLEX = [
    replace(BASE, complex_a=True),
    replace(BASE, complex_a=True, varying_b=False, varying_c=False),
    replace(BASE, complex_a=True, groups=2, length=70),
]


def name_of(case: Case) -> str:
    changed = [f"{key}={value}" for key, value in vars(case).items() if value != getattr(BASE, key)]
    return " ".join(changed).replace("torch.", "") or "base"


def draw(case: Case) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    def sequence() -> Tensor:
        return laid_out(normal(case.batch, case.dim, case.length).to(case.dtype), case.layout)

    def projection(variable: bool) -> Tensor:
        if variable:
            steps = case.length * (2 if case.complex_a else 1)
            shape = (case.batch, case.groups, case.state, steps)
            return normal(*(shape[:1] + shape[2:] if case.three_dimensional else shape)).to(case.dtype)
        constant = normal(case.dim, case.state)
        return torch.complex(constant, normal(case.dim, case.state)) if case.complex_a else constant

    A = -0.5 * torch.rand(case.dim, case.state, generator=generator)
    inputs = {
        "u": sequence(),
        # Without softplus the steps must be positive, or the states explode.
        "delta": laid_out(
            (0.5 * torch.rand(case.batch, case.dim, case.length, generator=generator)).to(case.dtype), case.layout
        ),
        "A": torch.complex(A, normal(case.dim, case.state)) if case.complex_a else A,
        "B": projection(case.varying_b),
        "C": projection(case.varying_c),
        "D": normal(case.dim),
        "z": sequence(),
        "delta_bias": 0.5 * torch.rand(case.dim, generator=generator),
    }
    if case.steep:
        inputs["delta_bias"] = torch.linspace(-30, 30, case.dim)
    return {name: value for name, value in inputs.items() if name not in case.without}


def laid_out(value: Tensor, layout: str) -> Tensor:
    if layout == "channel-last":
        return value.transpose(1, 2).contiguous().transpose(1, 2)
    if layout == "part of a larger tensor":
        larger = torch.zeros(value.shape[0], value.shape[1] + 3, value.shape[2] + 5, dtype=value.dtype)
        larger[:, 2:-1, 4:-1] = value
        return larger[:, 2:-1, 4:-1]
    return value


def check(case: Case, function: Any, device: str) -> None:
    rtol, atol = SCAN[case.dtype]
    weight = (max(rtol, WEIGHT[0]), max(atol, WEIGHT[1]))
    compare(
        lambda **inputs: function(**inputs, delta_softplus=case.softplus),
        lambda **inputs: oracle.scan(**inputs, delta_softplus=case.softplus)[0],
        draw(case),
        (rtol, atol),
        {
            "u": (2 * rtol, 2 * atol),
            "delta": (5 * rtol, 10 * atol),
            "A": (rtol, 5 * atol),
            "D": weight,
            "delta_bias": weight,
        },
        device,
    )


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_results_and_gradients(case: Case, device: str) -> None:
    check(case, selective_scan_fn, device)


@pytest.mark.parametrize("case", [*COMPLEX, replace(BASE, length=65), replace(BASE, dtype=torch.bfloat16)], ids=name_of)
def test_the_reference_itself(case: Case) -> None:
    check(case, selective_scan_ref, "cpu")


def test_last_state(device: str) -> None:
    inputs = {name: value.to(device) for name, value in draw(BASE).items()}
    out, last_state = selective_scan_fn(**inputs, delta_softplus=True, return_last_state=True)
    want_out, want_state = oracle.scan(
        **{name: value.double() for name, value in draw(BASE).items()}, delta_softplus=True
    )
    close("out", out, want_out, SCAN[torch.float32])
    close("last_state", last_state, want_state, SCAN[torch.float32])
    assert last_state.dtype == torch.float32


def test_no_gradient_flows_through_the_last_state(device: str) -> None:
    inputs = {name: value.to(device).requires_grad_() for name, value in draw(BASE).items()}
    out, last_state = selective_scan_fn(**inputs, return_last_state=True)
    assert out.requires_grad
    assert not last_state.requires_grad


def test_some_inputs_without_gradient(device: str) -> None:
    inputs = {name: value.to(device) for name, value in draw(BASE).items()}
    inputs["A"].requires_grad_()
    (gradient,) = torch.autograd.grad(selective_scan_fn(**inputs).sum(), [inputs["A"]])
    assert gradient.shape == inputs["A"].shape


def test_no_graph_where_none_is_wanted(device: str) -> None:
    inputs = {name: value.to(device).requires_grad_() for name, value in draw(BASE).items()}
    with torch.no_grad():
        assert not selective_scan_fn(**inputs).requires_grad


def test_narrow_weights_are_widened(device: str) -> None:
    inputs = {name: value.to(device) for name, value in draw(replace(BASE, dtype=torch.bfloat16)).items()}
    for name in ("A", "D", "delta_bias"):
        inputs[name] = inputs[name].bfloat16()
    wide = {name: value.float() if name in ("A", "D", "delta_bias") else value for name, value in inputs.items()}
    assert torch.equal(selective_scan_fn(**inputs), selective_scan_fn(**wide))


def test_an_empty_batch(device: str) -> None:
    inputs = {name: value.to(device).requires_grad_() for name, value in draw(replace(BASE, batch=1)).items()}
    empty = {name: value[:0] if value.dim() > 2 else value for name, value in inputs.items()}
    out = selective_scan_fn(**empty)
    assert out.shape == (0, BASE.dim, BASE.length)
    (gradient,) = torch.autograd.grad(out.sum(), [inputs["D"]])
    assert torch.equal(gradient, torch.zeros_like(gradient))


@pytest.mark.parametrize("name", ["u", "delta", "A", "B", "C"])
def test_an_empty_sequence(name: str, device: str) -> None:
    inputs = {name: value.to(device) for name, value in draw(replace(BASE, length=0)).items()}
    inputs[name].requires_grad_()
    out, last_state = selective_scan_fn(**inputs, return_last_state=True)
    assert out.shape == (BASE.batch, BASE.dim, 0)
    assert torch.equal(last_state, torch.zeros_like(last_state))
    (gradient,) = torch.autograd.grad(out.sum(), [inputs[name]])
    assert torch.equal(gradient, torch.zeros_like(gradient))


@pytest.mark.parametrize(
    "change, error, words",
    [
        ({"delta": memoryview(b"")}, TypeError, "`delta` must be a tensor, got memoryview"),
        ({"A": [[0.0]]}, TypeError, "`A` must be a tensor, got list"),
        ({"u": torch.zeros(2, 4, 128).to_sparse()}, TypeError, "`u` must be a strided tensor, got torch.sparse_coo"),
        ({"u": torch.zeros(2, 4)}, ValueError, "`u` must be (batch, dim, length), got the shape (2, 4)"),
        ({"delta": torch.zeros(2, 4, 127)}, ValueError, "`delta` must have the shape (2, 4, 128), got (2, 4, 127)"),
        ({"A": torch.zeros(5, 8)}, ValueError, "`A` must have the shape (4, 8), got (5, 8)"),
        ({"A": torch.zeros(4, 257)}, ValueError, "between 1 and 256 columns (the state), got 257"),
        ({"B": torch.zeros(2, 3, 8, 128)}, ValueError, "number of groups that divides dim = 4, got 3"),
        ({"B": torch.zeros(2, 2, 8, 128)}, ValueError, "the same number of groups, got 2 and 1"),
        ({"C": torch.zeros(2, 1, 8, 127)}, ValueError, "`C` must have the shape"),
        ({"D": torch.zeros(5)}, ValueError, "`D` must have the shape (4,), got (5,)"),
        ({"z": torch.zeros(2, 4, 128).half()}, TypeError, "`z` must be float32, the dtype of `u`, got float16"),
        ({"B": torch.zeros(2, 1, 8, 128).half()}, TypeError, "`B` must be float32, the dtype of `u`, got float16"),
        ({"u": torch.zeros(2, 4, 128).double()}, TypeError, "`u` must be float32 or float16 or bfloat16, got float64"),
        ({"A": torch.zeros(4, 8).double()}, TypeError, "`A` must be float32"),
        ({"D": torch.zeros(4, device="meta")}, ValueError, "`D` must be on the device of `u`, cpu, got meta"),
    ],
)
def test_wrong_arguments(change: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        selective_scan_fn(**{**draw(BASE), **change})
    assert words in str(caught.value)
    assert "selective_scan_fn" in str(caught.value)


def test_complex_is_served_by_the_reference_and_said_once() -> None:
    inputs = draw(COMPLEX[0])
    expected = selective_scan_ref(**inputs)
    if "cpu" not in _loaded():
        assert torch.equal(selective_scan_fn(**inputs), expected)
        return
    with pytest.warns(RuntimeWarning, match="slow reference.*complex `A`"):
        got = selective_scan_fn(**inputs)
    assert torch.equal(got, expected)
    selective_scan_fn(**inputs)  # a second warning would be an error


def test_complex_is_refused_by_forced_kernels(device: str) -> None:
    inputs = {name: value.to(device) for name, value in draw(COMPLEX[0]).items()}
    if _forced() == "reference":
        selective_scan_fn(**inputs)
        return
    with pytest.raises(BackendError, match="kernels do not serve a complex `A`\nhint"):
        selective_scan_fn(**inputs)


def test_a_second_derivative() -> None:
    inputs = {name: value.requires_grad_() for name, value in draw(replace(BASE, length=9)).items()}
    out = selective_scan_fn(**inputs)
    (first,) = torch.autograd.grad(out.sum(), [inputs["u"]], create_graph=True)
    if "cpu" not in _loaded():
        torch.autograd.grad(first.sum(), [inputs["C"]])
        return
    with pytest.raises(RuntimeError, match="no second derivative\nhint: set MAMBA_SSM_BACKEND"):
        torch.autograd.backward(first.sum())


def test_the_reference_is_linear_in_the_length() -> None:
    def seconds(length: int) -> float:
        inputs = {name: value.requires_grad_() for name, value in draw(replace(BASE, length=length, dim=8)).items()}
        out = selective_scan_ref(**inputs)
        start = time.process_time()
        torch.autograd.backward(out.sum())
        return time.process_time() - start

    seconds(64)
    # Eight times the length: linear is about 8, quadratic 64.
    assert min(seconds(4096) for _ in range(2)) / min(seconds(512) for _ in range(2)) < 24


def _loaded() -> list[str]:
    from mamba_ssm._native import native

    return [name for name in ("cpu", "cuda") if native().serves(name)]


def _forced() -> str | None:
    from mamba_ssm.backend import forced_backend

    return forced_backend()

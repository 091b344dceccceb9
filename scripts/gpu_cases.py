"""The grid of `nox -s gpu`: one call a row, run on a device and compared with the same formulas in float64.

Sizes and tolerances are those of the public tests of mamba_ssm and causal_conv1d.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Tuple

import torch
from torch import Tensor

SCAN_LENGTHS = (1, 8, 128, 256, 372, 512, 1024, 1134, 2048, 4096)
CONV_LENGTHS = (1, 2, 8, 16, 32, 64, 128, 129, 130, 151, 256, 372, 512, 784, 1024, 1134, 2048, 4096)
DTYPES = ("float32", "float16", "bfloat16")
# dtype -> (relative, absolute)
SCAN_TOLERANCES = {"float32": (6e-4, 2e-3), "float16": (3e-3, 5e-3), "bfloat16": (3e-2, 5e-2)}
CONV_TOLERANCES = {"float32": (3e-4, 1e-3), "float16": (3e-3, 5e-3), "bfloat16": (1e-2, 5e-2)}
WEIGHT_TOLERANCE = (1e-3, 1e-3)
WEIGHTS = ("A", "D", "delta_bias", "weight", "bias")
# name -> factors on (relative, absolute)
FACTORS = {"u": (2.0, 2.0), "delta": (5.0, 10.0), "A": (1.0, 5.0)}


@dataclass(frozen=True)
class GridCase:
    """One call, forward and backward; `options` differ by op."""

    op: str
    dtype: str
    length: int
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        options = " ".join(f"{key}={value}" for key, value in self.options.items())
        return f"{self.op} {self.dtype} length={self.length} {options}".rstrip()


@dataclass(frozen=True)
class Comparison:
    """The worst element of one result: `ratio` is its error over what is allowed there; above 1 it fails."""

    name: str
    error: float
    ratio: float


def scan_cases() -> List[GridCase]:
    return [
        GridCase("scan", dtype, length, {"groups": groups})
        for dtype in DTYPES
        for length in SCAN_LENGTHS
        for groups in (1, 2)
    ]


def conv_cases() -> List[GridCase]:
    """Every length and width; silu, bias and the layout change from row to row, so that each meets each."""
    return [
        GridCase("conv", dtype, length, {"width": width, "silu": bool(i & 1), "bias": bool(i & 2), "last": bool(i & 4)})
        for dtype in DTYPES
        for i, (length, width) in enumerate((n, w) for n in CONV_LENGTHS for w in (2, 3, 4))
    ]


def update_cases() -> List[GridCase]:
    return [
        GridCase("update", dtype, length, {"width": width})
        for dtype in DTYPES
        for length in (1, 4, 5)
        for width in (2, 3, 4)
    ]


def grid() -> List[GridCase]:
    return [*scan_cases(), *conv_cases(), *update_cases()]


def inputs_of(case: GridCase) -> Dict[str, Tensor]:
    """float64 values that the case's dtypes can hold, the same on every machine."""
    random = torch.Generator().manual_seed(case.length * 8 + case.options.get("groups", case.options.get("width", 0)))
    dtype = getattr(torch, case.dtype)

    def normal(*shape: int, of: torch.dtype = dtype) -> Tensor:
        return torch.randn(shape, generator=random, dtype=torch.float64).to(of).double()

    weights = torch.float32
    if case.op == "scan":
        batch, dim, state, groups = 2, 4, 8, case.options["groups"]
        rows, projection = (batch, dim, case.length), (batch, groups, state, case.length)
        return {
            "u": normal(*rows), "delta": (0.5 * normal(*rows)).to(dtype).double(),
            "A": -0.5 * torch.rand(dim, state, generator=random).double(), "B": normal(*projection),
            "C": normal(*projection), "D": normal(dim, of=weights), "z": normal(*rows),
            "delta_bias": normal(dim, of=weights) * 0.5,
        }  # fmt: skip
    batch, dim, width = 2, 64, case.options["width"]
    values = {"x": normal(batch, dim, case.length), "weight": normal(dim, width), "bias": normal(dim)}
    if case.op == "update":
        values["conv_state"] = normal(batch, dim, width - 1)
    elif not case.options["bias"]:
        del values["bias"]
    return values


def on_device(case: GridCase, inputs: Mapping[str, Tensor], device: str) -> Dict[str, Tensor]:
    """The inputs in the case's dtype and layout."""
    placed = {}
    for name, value in inputs.items():
        float32 = case.op == "scan" and name in WEIGHTS
        placed[name] = value.to(device, torch.float32 if float32 else getattr(torch, case.dtype))
    if case.options.get("last"):
        placed["x"] = placed["x"].transpose(1, 2).contiguous().transpose(1, 2)
    return placed


def call_op(case: GridCase, inputs: Mapping[str, Tensor]) -> Dict[str, Tensor]:
    """The results of the installed package, without gradients."""
    if case.op == "scan":
        scan = importlib.import_module("mamba_ssm.ops.selective_scan_interface").selective_scan_fn
        out, last_state = scan(**inputs, delta_softplus=True, return_last_state=True)
        return {"out": out, "last_state": last_state}
    conv = importlib.import_module("mamba_ssm.ops.causal_conv1d")
    if case.op == "conv":
        return {"out": conv.causal_conv1d_fn(**inputs, activation="silu" if case.options["silu"] else None)}
    state = inputs["conv_state"].clone()
    rest = {name: value for name, value in inputs.items() if name != "conv_state"}
    return {"out": conv.causal_conv1d_update(conv_state=state, **rest, activation="silu"), "conv_state": state}


def _scan_oracle(
    u: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor, z: Tensor, delta_bias: Tensor
) -> Dict[str, Tensor]:
    """Step by step. Unbound along time first: the gradient of 4096 slices would take 4096 full arrays."""
    dt = torch.nn.functional.softplus(delta + delta_bias[:, None])
    repeats = u.shape[1] // B.shape[1]
    state = u.new_zeros(u.shape[0], *A.shape)
    outputs = []
    projections = zip(*(each.repeat_interleave(repeats, dim=1).unbind(-1) for each in (B, C)))
    for u_t, dt_t, (B_t, C_t) in zip(u.unbind(-1), dt.unbind(-1), projections):
        state = torch.exp(dt_t[..., None] * A) * state + (dt_t * u_t)[..., None] * B_t
        outputs.append((C_t * state).sum(-1))
    y = torch.stack(outputs, dim=-1) + D[:, None] * u
    return {"out": y * z * torch.sigmoid(z), "last_state": state}


def call_oracle(case: GridCase, inputs: Mapping[str, Tensor]) -> Dict[str, Tensor]:
    """The same in float64."""
    if case.op == "scan":
        return _scan_oracle(**inputs)
    x, weight, bias = inputs["x"], inputs["weight"], inputs.get("bias")
    past = inputs.get("conv_state", x.new_zeros(*x.shape[:2], weight.shape[1] - 1))
    everything = torch.cat([past, x], dim=2)
    out = torch.zeros_like(x) if bias is None else bias[:, None].expand_as(x)
    for k in range(weight.shape[1]):
        out = out + weight[:, k, None] * everything[..., k : k + x.shape[2]]
    if case.options.get("silu", True):
        out = out * torch.sigmoid(out)
    results = {"out": out}
    if case.op == "update":
        results["conv_state"] = everything[..., -past.shape[2] :]
    return results


def with_gradients(case: GridCase, inputs: Dict[str, Tensor], call: Any, dout: Tensor) -> Dict[str, Tensor]:
    """A call's results, and the gradient of every input under its own name with a d before it."""
    if case.op == "update":
        return dict(call(case, inputs))
    leaves = {name: value.detach().requires_grad_() for name, value in inputs.items()}
    results = call(case, leaves)
    gradients = torch.autograd.grad(results["out"], list(leaves.values()), dout.to(results["out"]))
    found = {name: value.detach() for name, value in results.items()}
    return {**found, **{f"d{name}": value for name, value in zip(leaves, gradients)}}


def tolerance(case: GridCase, name: str) -> Tuple[float, float]:
    relative, absolute = (SCAN_TOLERANCES if case.op == "scan" else CONV_TOLERANCES)[case.dtype]
    if name == "conv_state":
        return 0.0, 0.0  # moved, not computed
    source: Optional[str] = name[1:] if name.startswith("d") else None
    if source in WEIGHTS:
        relative, absolute = max(relative, WEIGHT_TOLERANCE[0]), max(absolute, WEIGHT_TOLERANCE[1])
    factors = FACTORS.get(source or "", (1.0, 1.0)) if case.op == "scan" else (1.0, 1.0)
    return relative * factors[0], absolute * factors[1]


def compare(case: GridCase, name: str, actual: Tensor, expected: Tensor) -> Comparison:
    """The worst element, as torch.allclose weighs them."""
    relative, absolute = tolerance(case, name)
    found, wanted = actual.detach().double().cpu(), expected.detach().double().cpu()
    if found.shape != wanted.shape or not torch.isfinite(found).all():
        return Comparison(name, float("inf"), float("inf"))
    error = (found - wanted).abs()
    worst = float(error.max())
    if relative == absolute == 0:
        return Comparison(name, worst, 0.0 if worst == 0 else float("inf"))
    return Comparison(name, worst, float((error / (absolute + relative * wanted.abs())).max()))


def run_case(case: GridCase, device: str) -> List[Comparison]:
    """Every result and gradient of one row."""
    inputs = inputs_of(case)
    shape = inputs["u" if case.op == "scan" else "x"].shape
    random = torch.Generator().manual_seed(1)
    dout = torch.randn(shape, generator=random).to(getattr(torch, case.dtype)).double()
    actual = with_gradients(case, on_device(case, inputs, device), call_op, dout.to(device))
    expected = with_gradients(case, inputs, call_oracle, dout)
    return [compare(case, name, actual[name], expected[name]) for name in expected]

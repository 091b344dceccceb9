"""`python -m mamba_ssm.selfcheck [--json]`: runs the ops forward and backward on every backend that is here and compares
them with a plain recurrence in float64. Exit code 0, or 7 where a check fails."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Callable

import torch
from torch import Tensor

from mamba_ssm import oracle
from mamba_ssm.backend import BACKEND_VARIABLE, BackendInfo, backend_info, forced_backend
from mamba_ssm.modules.mamba_simple import Mamba
from mamba_ssm.ops.causal_conv1d import causal_conv1d_fn, causal_conv1d_update
from mamba_ssm.ops.selective_scan_interface import selective_scan_fn

FAILED = 7
# Largest |got - expected| / (1 + |expected|) that passes: some ten roundings of the dtype.
THRESHOLDS = {torch.float32: 1e-4, torch.float16: 5e-3, torch.bfloat16: 4e-2}


@dataclass(frozen=True)
class Check:
    """One comparison; `max_error` is None where the call failed with `message`."""

    name: str
    backend: str
    device: str
    dtype: str
    max_error: float | None
    threshold: float
    ok: bool
    message: str = ""


@dataclass(frozen=True)
class Report:
    """All checks of this process."""

    ok: bool
    torch: str
    backend_info: dict[str, Any]
    checks: tuple[Check, ...]
    peak_memory_mb: float
    peak_cuda_memory_mb: float | None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def run() -> Report:
    """Run every check on every backend that can serve here, or on the forced one only."""
    info = backend_info()
    checks: list[Check] = []
    for backend, device in _targets(info):
        with _forced(backend):
            for dtype in THRESHOLDS:
                checks += _check_scan(backend, device, dtype)
                checks += _check_conv1d(backend, device, dtype)
            checks += _check_block(backend, device)
    cuda_mb = torch.cuda.max_memory_allocated() / 2**20 if torch.cuda.is_available() else None
    ok = bool(checks) and all(check.ok for check in checks)
    return Report(ok, str(torch.__version__), info.as_dict(), tuple(checks), _peak_memory_mb(), cuda_mb)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m mamba_ssm.selfcheck", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    report = run()
    print(json.dumps(report.as_dict()) if options.json else _table(report))
    return 0 if report.ok else FAILED


def _targets(info: BackendInfo) -> list[tuple[str, str]]:
    """(backend, device) to check: what serves each device that torch has, and the reference."""
    devices = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
    forced = forced_backend()
    if forced is not None:
        return [(forced, "cpu" if forced == "reference" else forced)]
    targets = [(info.backends[device], device) for device in devices if info.backends[device] == device]
    return targets + [("reference", device) for device in devices]


@contextmanager
def _forced(backend: str) -> Iterator[None]:
    before = os.environ.get(BACKEND_VARIABLE)
    os.environ[BACKEND_VARIABLE] = backend
    try:
        yield
    finally:
        if before is None:
            del os.environ[BACKEND_VARIABLE]
        else:
            os.environ[BACKEND_VARIABLE] = before


def _check_scan(backend: str, device: str, dtype: torch.dtype) -> list[Check]:
    batch, dim, length, state, groups = 2, 6, 131, 16, 2
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    inputs = {
        "u": draw(batch, dim, length).to(dtype),
        "delta": (0.5 * draw(batch, dim, length)).to(dtype),
        "A": -torch.rand(dim, state, generator=generator) - 0.1,
        "B": draw(batch, groups, state, length).to(dtype),
        "C": draw(batch, groups, state, length).to(dtype),
        "D": draw(dim),
        "z": draw(batch, dim, length).to(dtype),
        "delta_bias": draw(dim) - 1,
    }

    def call(**tensors: Tensor) -> tuple[Tensor, ...]:
        result = selective_scan_fn(**tensors, delta_softplus=True, return_last_state=True)
        return tuple(result)

    def expected(**tensors: Tensor) -> tuple[Tensor, ...]:
        return oracle.scan(**tensors, delta_softplus=True)

    return _compare("selective_scan", backend, device, dtype, inputs, call, expected)


def _check_conv1d(backend: str, device: str, dtype: torch.dtype) -> list[Check]:
    batch, dim, length, width = 2, 6, 37, 4
    generator = torch.Generator().manual_seed(1)
    inputs = {
        "x": torch.randn(batch, dim, length, generator=generator).to(dtype),
        "weight": torch.randn(dim, width, generator=generator),
        "bias": torch.randn(dim, generator=generator),
    }

    def call(x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, ...]:
        return (_tensor(causal_conv1d_fn(x, weight, bias, activation="silu")),)

    def expected(x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, ...]:
        return (oracle.conv1d(x, weight, bias, True),)

    def step_by_step(x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, ...]:
        memory = torch.zeros(batch, dim, width, dtype=x.dtype, device=x.device)
        steps = [causal_conv1d_update(x[..., t], memory, weight, bias, "silu") for t in range(length)]
        return (torch.stack(steps, dim=-1),)

    checks = _compare("causal_conv1d", backend, device, dtype, inputs, call, expected)
    return checks + _compare("causal_conv1d_update", backend, device, dtype, inputs, step_by_step, expected, False)


def _check_block(backend: str, device: str) -> list[Check]:
    torch.manual_seed(2)
    block = Mamba(d_model=24, d_state=8)
    names = [name for name, _ in block.named_parameters()]
    inputs = {name: parameter.detach() for name, parameter in block.named_parameters()}
    inputs["hidden_states"] = torch.randn(2, 41, 24)

    def call(hidden_states: Tensor, **parameters: Tensor) -> tuple[Tensor, ...]:
        # The block computes with these very tensors, so that their gradients can be read.
        copy = Mamba(d_model=24, d_state=8, device=device)
        for name in names:
            owner = copy.get_submodule(name.rpartition(".")[0])
            delattr(owner, name.rpartition(".")[2])
            setattr(owner, name.rpartition(".")[2], parameters[name])
        return (copy(hidden_states),)

    def expected(hidden_states: Tensor, **parameters: Tensor) -> tuple[Tensor, ...]:
        return (oracle.block(hidden_states, parameters),)

    return _compare("Mamba", backend, device, torch.float32, inputs, call, expected)


def _compare(
    name: str,
    backend: str,
    device: str,
    dtype: torch.dtype,
    inputs: dict[str, Tensor],
    call: Callable[..., tuple[Tensor, ...]],
    expected: Callable[..., tuple[Tensor, ...]],
    backward: bool = True,
) -> list[Check]:
    """Compare all results of `call` with those of `expected` in float64, then the gradients of all inputs."""
    threshold = THRESHOLDS[dtype]

    def check(part: str, error: float | None, message: str = "") -> Check:
        if error is not None and not math.isfinite(error):
            error, message = None, "not finite where the expected value is"
        ok = error is not None and error <= threshold
        return Check(f"{name} {part}", backend, device, str(dtype)[6:], error, threshold, ok, message)

    exact = {key: value.detach().double().requires_grad_(backward) for key, value in inputs.items()}
    want = expected(**exact)
    try:
        here = {key: value.to(device).requires_grad_(backward) for key, value in inputs.items()}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            got = call(**here)
        checks = [check("forward", max(_error(a, b) for a, b in zip(got, want)))]
        if not backward:
            return checks
        weights = torch.randn(want[0].shape, generator=torch.Generator().manual_seed(3)).to(dtype)
        grads = torch.autograd.grad(got[0], list(here.values()), weights.to(device))
    except Exception as failure:  # noqa: BLE001 - whatever goes wrong is what the check is for
        return [check("call", None, f"{type(failure).__name__}: {failure}")]
    exact_grads = torch.autograd.grad(want[0], list(exact.values()), weights.double())
    return [*checks, check("backward", max(_error(a, b) for a, b in zip(grads, exact_grads)))]


def _error(got: Tensor, want: Tensor) -> float:
    difference = (got.detach().double().cpu() - want.detach()).abs() / (1 + want.detach().abs())
    # A NaN must not pass as a small number.
    return float(torch.nan_to_num(difference, nan=float("inf")).max())


def _tensor(value: Tensor | tuple[Tensor, Tensor]) -> Tensor:
    assert isinstance(value, Tensor)
    return value


def _peak_memory_mb() -> float:
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def _table(report: Report) -> str:
    lines = [str(backend_info()), ""]
    lines.append(f"{'check':<34} {'backend':<10} {'device':<7} {'dtype':<9} {'error':>9} {'allowed':>9}")
    for check in report.checks:
        error = "-" if check.max_error is None else f"{check.max_error:.1e}"
        verdict = "" if check.ok else "  FAILED"
        lines.append(
            f"{check.name:<34} {check.backend:<10} {check.device:<7} {check.dtype:<9} {error:>9} "
            f"{check.threshold:>9.0e}{verdict}"
        )
        if check.message:
            lines.append(f"    {check.message}")
    lines += ["", f"peak memory: {report.peak_memory_mb:.0f} MB"]
    if report.peak_cuda_memory_mb is not None:
        lines.append(f"peak CUDA memory: {report.peak_cuda_memory_mb:.0f} MB")
    failed = sum(not check.ok for check in report.checks)
    lines.append("all checks passed" if report.ok else f"checks that failed: {failed} of {len(report.checks)}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())

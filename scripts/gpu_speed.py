"""Time and bandwidth of the ops on a GPU, against what a copy on the same device reaches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, List

import torch

from scripts.gpu_cases import GridCase, call_op
from scripts.kernel_traffic import expected_traffic

BATCH, CHANNELS, LENGTH, STATE, WIDTH = 8, 1536, 2048, 16, 4
COPY_BYTES = 1 << 28
REPEATS = 20
ITEM_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}


@dataclass(frozen=True)
class Speed:
    """A forward call, or forward and backward; `moved` is the least that it must move."""

    name: str
    seconds: float
    moved: float

    @property
    def bandwidth(self) -> float:
        return self.moved / self.seconds


def median_seconds(work: Callable[[], object]) -> float:
    """The median of REPEATS runs by the device's own clock, after three to warm up."""
    event: Any = torch.cuda.Event  # untyped in torch's stubs
    for _ in range(3):
        work()
    times: List[float] = []
    for _ in range(REPEATS):
        start, end = (event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        end.record()
        end.synchronize()
        times.append(float(start.elapsed_time(end)) / 1e3)
    return sorted(times)[len(times) // 2]


def copy_speed(device: str) -> Speed:
    """Reads and writes each count."""
    source = torch.empty(COPY_BYTES, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return Speed("copy on the device", median_seconds(lambda: target.copy_(source)), 2.0 * COPY_BYTES)


def _inputs(op: str, dtype: torch.dtype, device: str) -> Dict[str, torch.Tensor]:
    def normal(*shape: int, of: torch.dtype = dtype) -> torch.Tensor:
        return torch.randn(shape, device=device, dtype=of)

    rows, weights = (BATCH, CHANNELS, LENGTH), torch.float32
    if op == "conv":
        return {"x": normal(*rows), "weight": normal(CHANNELS, WIDTH), "bias": normal(CHANNELS)}
    return {
        "u": normal(*rows), "delta": normal(*rows), "A": -torch.rand(CHANNELS, STATE, device=device),
        "B": normal(BATCH, 1, STATE, LENGTH), "C": normal(BATCH, 1, STATE, LENGTH),
        "D": normal(CHANNELS, of=weights), "z": normal(*rows), "delta_bias": normal(CHANNELS, of=weights),
    }  # fmt: skip


def _speeds_of(op: str, call: str, dtype: str, device: str) -> List[Speed]:
    """Forward, then forward and backward."""
    moved = {
        each.op: BATCH * CHANNELS * LENGTH * each.minimum
        for each in expected_traffic(ITEM_BYTES[dtype], STATE, CHANNELS, WIDTH)
    }
    case = GridCase(op, dtype, LENGTH, {"silu": True})
    inputs = _inputs(op, getattr(torch, dtype), device)
    with torch.no_grad():
        forward = median_seconds(lambda: call_op(case, inputs))
    leaves = {name: value.requires_grad_() for name, value in inputs.items()}

    def both() -> None:
        out = call_op(case, leaves)["out"]
        torch.autograd.grad(out, list(leaves.values()), out.detach())

    return [
        Speed(f"{op} {dtype} forward", forward, moved[f"{call}_fwd"]),
        Speed(f"{op} {dtype} forward+backward", median_seconds(both), moved[f"{call}_fwd"] + moved[f"{call}_bwd"]),
    ]


def measure_speeds(device: str) -> List[Speed]:
    """The copy, then both ops in each dtype."""
    speeds = [copy_speed(device)]
    for dtype in ITEM_BYTES:
        speeds += _speeds_of("scan", "selective_scan", dtype, device)
        speeds += _speeds_of("conv", "causal_conv1d", dtype, device)
    return speeds

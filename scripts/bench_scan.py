"""Times the CPU ops against the reference in one process: what `scripts.bench` runs with the built wheel's libraries.

Prints one JSON object: milliseconds (minimum and median) per op, and the peak memory that backward added.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import time
from typing import Any, Callable, Optional, Sequence

import torch

import mamba_ssm
from mamba_ssm.ops.causal_conv1d import causal_conv1d_fn, causal_conv1d_ref
from mamba_ssm.ops.selective_scan_interface import selective_scan_fn, selective_scan_ref

BATCH, DIM, LENGTH, STATE, WIDTH = 1, 1536, 2048, 16, 4


def measure(work: Callable[[], Any], repeats: int) -> dict[str, float]:
    """Milliseconds of `work` after one warm-up."""
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append((time.perf_counter() - start) * 1e3)
    return {"min_ms": round(min(times), 2), "median_ms": round(statistics.median(times), 2), "runs": repeats}


def scan_inputs(dtype: torch.dtype) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(0)

    def randn(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    return {
        "u": randn(BATCH, DIM, LENGTH).to(dtype),
        "delta": (0.5 * randn(BATCH, DIM, LENGTH)).to(dtype),
        "A": -torch.exp(0.5 * randn(DIM, STATE)),
        "B": randn(BATCH, STATE, LENGTH).to(dtype),
        "C": randn(BATCH, STATE, LENGTH).to(dtype),
        "D": randn(DIM),
        "z": randn(BATCH, DIM, LENGTH).to(dtype),
        "delta_bias": randn(DIM) - 2,
    }


def forward_backward(function: Callable[..., Any], inputs: dict[str, Any], **options: Any) -> Callable[[], None]:
    leaves = {name: value.detach().requires_grad_() for name, value in inputs.items()}

    def work() -> None:
        torch.autograd.backward(function(**leaves, **options).sum())
        for leaf in leaves.values():
            leaf.grad = None

    return work


def forward(function: Callable[..., Any], inputs: dict[str, Any], **options: Any) -> Callable[[], None]:
    def work() -> None:
        with torch.no_grad():
            function(**inputs, **options)

    return work


def bench_scan(repeats: int) -> dict[str, Any]:
    results: dict[str, Any] = {}
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        inputs, name = scan_inputs(dtype), str(dtype).split(".")[-1]
        results[f"scan {name} forward"] = measure(forward(selective_scan_fn, inputs, delta_softplus=True), repeats)
        results[f"scan {name} forward+backward"] = measure(
            forward_backward(selective_scan_fn, inputs, delta_softplus=True), repeats
        )
    inputs = scan_inputs(torch.float32)
    results["reference forward"] = measure(forward(selective_scan_ref, inputs, delta_softplus=True), 3)
    results["reference forward+backward"] = measure(
        forward_backward(selective_scan_ref, inputs, delta_softplus=True), 3
    )
    return results


def bench_conv(repeats: int) -> dict[str, Any]:
    inputs = {"x": torch.randn(BATCH, DIM, LENGTH), "weight": torch.randn(DIM, WIDTH), "bias": torch.randn(DIM)}
    return {
        "conv forward": measure(forward(causal_conv1d_fn, inputs, activation="silu"), repeats),
        "conv forward+backward": measure(forward_backward(causal_conv1d_fn, inputs, activation="silu"), repeats),
        "conv reference forward": measure(forward(causal_conv1d_ref, inputs, activation="silu"), repeats),
        "conv reference forward+backward": measure(
            forward_backward(causal_conv1d_ref, inputs, activation="silu"), repeats
        ),
    }


def added_peak_mb() -> float:
    """MiB that one forward+backward of the native scan adds to the process's peak."""
    work = forward_backward(selective_scan_fn, scan_inputs(torch.float32), delta_softplus=True)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    work()
    return round((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024, 1)


def main(argv: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="bench_scan", description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=20)
    arguments = parser.parse_args(argv)
    torch.set_num_threads(arguments.threads)
    peak = added_peak_mb()
    results = {**bench_scan(arguments.repeats), **bench_conv(arguments.repeats)}
    print(
        json.dumps(
            {
                "torch": torch.__version__,
                "threads": arguments.threads,
                "shape": {"batch": BATCH, "dim": DIM, "length": LENGTH, "state": STATE, "width": WIDTH},
                "backend": mamba_ssm.backend_info().as_dict(),
                "added_peak_mb": peak,
                "results": results,
            },
            default=str,
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

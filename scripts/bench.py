"""Measures what building costs and how fast the CPU ops are, and writes docs/benchmarks.md from the figures.

Compile cost is the CPU time (user + system) of every command of the farm's own action graph, run one after another in
an empty folder; speed is taken from the built wheel's libraries in one process, native and reference side by side.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Optional, Sequence

from farm.actions import Action, Binding, Graph, add_build
from farm.builder import headers_for, wanted_bindings
from farm.cli import read_project
from farm.plan import Build
from farm.settings import Settings
from scripts.quickstart import ROOT, builds_for_this_machine
from scripts.run_tests import unpack_native

EXAMPLES = """\
examples:
  nox -s bench                       measure all, write docs/benchmarks.md
  nox -s bench -- --output -         print the page instead
"""


@dataclass(frozen=True)
class Cost:
    """What one command cost: CPU seconds and peak memory."""

    action: Action
    seconds: float
    peak_mb: float


def wanted_builds() -> list[Build]:
    names = builds_for_this_machine(None)
    return [build for build in read_project().builds if build.identifier in names]


def timed(action: Action, folder: Path) -> Cost:
    """Run one command in `folder`, with the resources that it and its children used."""
    (folder / action.output).parent.mkdir(parents=True, exist_ok=True)
    process = subprocess.Popen(action.command, cwd=folder)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"`{' '.join(action.command)}` ended with exit code {process.returncode}")
    return Cost(action, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def measure_compile(folder: Path) -> list[Cost]:
    """Every command of the builds for this machine, in order, from nothing."""
    facts, settings = read_project().facts, Settings.from_environment()
    graph = Graph()
    targets: list[str] = []
    for build in wanted_builds():
        choices = wanted_bindings(build, facts)
        headers = headers_for({torch for torch, _ in choices}, facts, settings, ROOT)
        native = add_build(graph, build, [Binding(headers[torch], torch, abi) for torch, abi in choices], facts)
        targets += native.files.values()
    (folder / "csrc").symlink_to(ROOT / "csrc")
    done: dict[str, Cost] = {}

    def make(output: str) -> None:
        if output in graph.actions and output not in done:
            action = graph.actions[output]
            for each in action.inputs:
                make(each)
            done[output] = timed(action, folder)

    for target in targets:
        make(target)
    return list(done.values())


def compile_table(costs: Sequence[Cost]) -> list[str]:
    """CPU seconds by what an addition to the matrix would compile."""
    groups: dict[str, list[Cost]] = {}
    for cost in costs:
        groups.setdefault(group_of(cost.action), []).append(cost)
    lines = ["| what | commands | CPU s | peak MiB of one command |", "|---|---|---|---|"]
    for name, members in sorted(groups.items()):
        seconds = sum(cost.seconds for cost in members)
        lines.append(f"| {name} | {len(members)} | {seconds:.1f} | {max(cost.peak_mb for cost in members):.0f} |")
    lines.append(f"| in all | {len(costs)} | {sum(cost.seconds for cost in costs):.1f} | |")
    return lines


def group_of(action: Action) -> str:
    name = Path(action.output).name
    if name.endswith(".cubin"):
        return f"device code, {name.split('.')[1]}, both ops"
    if name.endswith(".ptx"):
        return f"device code, PTX {name.split('.')[1]}, both ops"
    if "/binding-torch" in action.output:
        return f"one more torch: classic binding {Path(action.output).parent.name.split('-')[1]}"
    if "/binding-stable" in action.output:
        return "stable binding (torch 2.9 and newer)"
    if "/cpu-" in action.output:
        return "CPU kernels, every instruction set"
    return "host launcher, merging, linking"


def measure_python(folder: Path) -> list[str]:
    """What one more Python costs once a torch's wheel exists: CPU seconds of the whole farm command."""
    machine = platform.machine()
    lines = ["| step | CPU s of the whole command |", "|---|---|"]
    for python, step in (("cp311", "first Python of torch 2.13, CPU"), ("cp312", "one more Python")):
        identifier = f"mamba_ssm-torch2.13-cpu-{python}-abi1-{machine}"
        command = [sys.executable, "-m", "farm", "build", "--only", identifier, "--output", str(folder)]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise SystemExit(f"`{' '.join(command)}` ended with exit code {process.returncode}")
        lines.append(f"| {step} | {usage.ru_utime + usage.ru_stime:.1f} |")
    return lines


def measure_speed(folder: Path) -> dict[str, Any]:
    only = [word for build in builds_for_this_machine(None) for word in ("--only", build)]
    subprocess.run([sys.executable, "-m", "farm", "build", *only, "--output", str(folder)], cwd=ROOT, check=True)
    environment = {**os.environ, "MAMBA_SSM_NATIVE_DIR": str(unpack_native(folder, folder / "native"))}
    command = [sys.executable, "-m", "scripts.bench_scan"]
    done = subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def speed_table(speed: dict[str, Any]) -> list[str]:
    lines = ["| op | minimum ms | median ms | runs |", "|---|---|---|---|"]
    for name, row in speed["results"].items():
        lines.append(f"| {name} | {row['min_ms']} | {row['median_ms']} | {row['runs']} |")
    return lines


def ratio(speed: dict[str, Any], slow: str, fast: str) -> str:
    return f"{speed['results'][slow]['median_ms'] / speed['results'][fast]['median_ms']:.0f}x"


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or "unknown processor"


def page(costs: Sequence[Cost], python: Sequence[str], speed: dict[str, Any], sizes: Sequence[str]) -> str:
    kernels = speed["backend"]["kernels"].get("cpu")
    shape = speed["shape"]
    return "\n".join(
        [
            "# Benchmarks",
            "",
            "Written by `nox -s bench`; do not edit. Ratios travel between machines, seconds do not.",
            "",
            f"- date: {date.today().isoformat()}",
            f"- machine: {processor()}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}",
            f"- torch {speed['torch']}, {speed['threads']} threads, CPU kernels: {kernels}",
            "",
            "## What building costs",
            "",
            "Every command of the action graph, run alone from nothing. One more architecture costs its own row, one more",
            "torch at most one binding's row, and from torch 2.9 on nothing.",
            "",
            *compile_table(costs),
            "",
            "One more Python compiles nothing; its wheel is packed from the same files:",
            "",
            *python,
            "",
            "| wheel | bytes |",
            "|---|---|",
            *sizes,
            "",
            "## CPU speed",
            "",
            f"Batch {shape['batch']}, dim {shape['dim']}, length {shape['length']}, state {shape['state']}, with z, D, delta_bias and",
            f"softplus; convolution of width {shape['width']} with bias and silu.",
            "",
            *speed_table(speed),
            "",
            f"- scan, forward: {ratio(speed, 'reference forward', 'scan float32 forward')} the reference's speed",
            f"- scan, forward + backward: {ratio(speed, 'reference forward+backward', 'scan float32 forward+backward')}",
            f"- convolution, forward: {ratio(speed, 'conv reference forward', 'conv forward')}",
            f"- convolution, forward + backward: {ratio(speed, 'conv reference forward+backward', 'conv forward+backward')}",
            f"- memory that one forward + backward of the scan adds to the peak, gradients included: {speed['added_peak_mb']} MiB",
            "",
        ]
    )


def main(argv: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(
        prog="bench", description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", default=str(ROOT / "docs" / "benchmarks.md"), help="the page, or - [%(default)s]")
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="mamba-bench-") as name:
        folder = Path(name)
        (folder / "objects").mkdir()
        costs = measure_compile(folder / "objects")
        python = measure_python(folder / "wheels")
        speed = measure_speed(folder / "wheels")
        sizes = [
            f"| `{wheel.name}` | {wheel.stat().st_size:,} |" for wheel in sorted((folder / "wheels").glob("*.whl"))
        ]
    text = page(costs, python, speed, sizes)
    if arguments.output == "-":
        print(text)
        return 0
    target = Path(arguments.output)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_suffix(".tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(target)
    print(f"written: {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

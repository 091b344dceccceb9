"""What ptxas made of the CUDA kernels: registers, shared memory, spills; fails when any kernel spills or uses local memory.

Needs nvcc and no GPU. The flags are those of the wheels (farm/recipe.py).
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Tuple

from farm import recipe
from farm.errors import FarmError
from farm.toolchains import Toolchain, find_system_toolchain
from scripts.kernel_coverage import CoverageError, measure_coverage
from scripts.kernel_traffic import expected_traffic

ROOT = Path(__file__).resolve().parents[1]
ARCHS = ("7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "12.0")
ENTRY = re.compile(r"Compiling entry function '(\w+)' for 'sm_(\d+)a?'")
STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
SIZES = {"float32": 4, "float16": 2}
STATE, CHANNELS, WIDTH = 16, 1536, 4  # of Mamba 130M
EXAMPLES = """\
examples:
  python -m scripts.kernel_report             every architecture; about 25 seconds of CPU
  python -m scripts.kernel_report --arch 9.0  one
  python -m scripts.kernel_report --json      for programs
  python -m scripts.kernel_report --coverage  which lines of the kernels the tests on the emulated GPU run

exit codes: 0 clean; 1 a kernel spills or uses local memory; 2 wrong usage, or nvcc is missing or fails
"""


class ReportError(Exception):
    """nvcc is missing, or does not do what it must."""


@dataclass(frozen=True)
class Kernel:
    """One kernel on one architecture; bytes per thread, shared memory per block."""

    name: str
    arch: str
    registers: int
    static_shared: int
    stack: int
    spill_stores: int
    spill_loads: int
    local: int

    @property
    def clean(self) -> bool:
        return not (self.stack or self.spill_stores or self.spill_loads or self.local)


def _number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    return int(found[1]) if found else 0


def read_ptxas(text: str) -> Tuple[Kernel, ...]:
    """The kernels in what `ptxas -v` said."""
    kernels: List[Kernel] = []
    entries = list(ENTRY.finditer(text))
    for entry, after in zip(entries, [*entries[1:], None]):
        part = text[entry.end() : after.start() if after else len(text)]
        stack = STACK.search(part)
        registers = _number(r"Used (\d+) registers", part)
        if stack is None or registers == 0:
            raise ReportError(f"ptxas says nothing of the registers or the stack of `{entry[1]}` on sm_{entry[2]}")
        arch = f"{entry[2][:-1]}.{entry[2][-1]}"
        shared, local = _number(r"(\d+) bytes smem", part), _number(r"(\d+) bytes lmem", part)
        frame, stores, loads = map(int, stack.groups())
        kernels.append(Kernel(entry[1], arch, registers, shared, frame, stores, loads, local))
    return tuple(sorted(kernels, key=lambda kernel: (kernel.name, ARCHS.index(kernel.arch))))


def compile_units(toolchain: Toolchain, archs: Sequence[str], folder: Path) -> Tuple[Kernel, ...]:
    """Compile each device unit once, for all of these architectures."""
    missing = [arch for arch in archs if arch not in toolchain.archs]
    if missing:
        raise ReportError(f"nvcc {toolchain.release} does not know these architectures: `{', '.join(missing)}`")
    targets = [f"-gencode=arch=compute_{a},code=sm_{a}" for a in (arch.replace(".", "") for arch in archs)]
    said = ""
    for unit, source in recipe.CUDA_UNITS.items():
        output = ["-Xptxas", "-v", "-fatbin", *targets, source, "-o", str(folder / f"{unit}.fatbin")]
        command = [toolchain.nvcc, *recipe.NVCC_FLAGS, *output]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode != 0:
            raise ReportError(f"nvcc failed: `{' '.join(command)}`\n{done.stdout}{done.stderr}")
        said += done.stdout + done.stderr
    return read_ptxas(said)


def format_table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns as wide as they need to be; the first is a name, the others are numbers."""
    cells = [list(map(str, row)) for row in [heads, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(heads))]
    lines = (
        "  ".join(cell.rjust(width) if i else cell.ljust(width) for i, (cell, width) in enumerate(zip(row, widths)))
        for row in cells
    )
    return "\n".join(line.rstrip() for line in lines)


def kernel_table(kernels: Sequence[Kernel]) -> str:
    heads = ("kernel", "arch", "registers", "shared", "stack", "spill stores", "spill loads", "local")
    return format_table(heads, [tuple(asdict(kernel).values()) for kernel in kernels])


def traffic_rows() -> List[Dict[str, object]]:
    return [
        {"op": each.op, "dtype": dtype, "asked": each.asked, "memory": each.from_memory, "minimum": each.minimum}
        for dtype, size in SIZES.items()
        for each in expected_traffic(size, STATE, CHANNELS, WIDTH)
    ]


def traffic_table(rows: Sequence[Dict[str, object]]) -> str:
    heads = ("bytes per element", "dtype", "asked for", "from memory", "minimum")
    return format_table(
        heads, [[f"{cell:.2f}" if isinstance(cell, float) else cell for cell in row.values()] for row in rows]
    )


def main(argv: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(
        prog="kernel_report",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--arch", action="append", choices=ARCHS, help="only this architecture (may be repeated)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--coverage", action="store_true", help="run the emulation's tests and print covered lines")
    arguments = parser.parse_args(argv)
    try:
        if arguments.coverage:
            rows = measure_coverage()
            print(format_table(("file", "lines", "run", "not run"), rows))
            return 0
        toolchain = find_system_toolchain()
        if toolchain is None:
            raise ReportError("there is no nvcc: not in CUDA_HOME, on PATH or in `/usr/local/cuda`")
        with tempfile.TemporaryDirectory() as folder:
            kernels = compile_units(toolchain, arguments.arch or ARCHS, Path(folder))
    except (ReportError, CoverageError, FarmError) as error:
        print(f"kernel_report: {error}", file=sys.stderr)
        return 2
    bad = [kernel for kernel in kernels if not kernel.clean]
    if arguments.json:
        report = {"nvcc": toolchain.release, "kernels": [asdict(kernel) for kernel in kernels], "bytes": traffic_rows()}
        print(json.dumps(report, indent=2))
    else:
        print(kernel_table(kernels))
        print(f"\nstate {STATE}, {CHANNELS} channels a group, width {WIDTH}\n{traffic_table(traffic_rows())}")
    for kernel in bad:
        print(f"kernel_report: `{kernel.name}` spills or uses local memory on {kernel.arch}", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

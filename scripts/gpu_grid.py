"""Run the kernels on a GPU: the public tests' grid against float64, then time and bandwidth against a device copy.

Takes a built wheel, or the installed mamba_ssm; needs a torch with CUDA. It builds nothing and opens no connection.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Tuple

EXAMPLES = """\
examples:
  nox -s gpu -- --wheel dist/mamba_ssm-2.4.0+cu130-py3-none-linux_x86_64.whl
  python -m scripts.gpu_grid              the installed mamba_ssm
  python -m scripts.gpu_grid --no-speed   only the comparison

exit codes: 0 all results are right; 1 some are not; 2 wrong usage; 3 there is no GPU that torch can use
"""
ROOT = Path(__file__).resolve().parents[1]
BUDGET_SECONDS = 8 * 60
NO_GPU = 3


def why_no_gpu() -> Optional[str]:
    """None where torch sees a GPU."""
    try:
        import torch
    except ImportError as error:
        return f"torch cannot be imported: {error}\nhint: pip install torch"
    if torch.version.cuda is None:
        return f"torch {torch.__version__} is built without CUDA\nhint: install a torch that is built with CUDA"
    if not torch.cuda.is_available():
        return (
            f"torch {torch.__version__} for CUDA {torch.version.cuda} finds no GPU it can use\n"
            "hint: `nvidia-smi` shows the GPUs and what the driver supports"
        )
    return None


def use_wheel(wheel: Path, folder: Path) -> None:
    """Import mamba_ssm from this wheel: ahead of an installed one and of the checkout."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    sys.path.insert(0, str(folder))


def use_installed() -> None:
    """Import mamba_ssm from where it is installed: `python -m` puts the checkout, which has no kernels, first.

    With MAMBA_SSM_NATIVE_DIR the checkout is meant.
    """
    if not os.environ.get("MAMBA_SSM_NATIVE_DIR"):
        sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != ROOT]


def format_rows(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = [list(heads), *map(list, rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(heads))]
    lines = (
        "  ".join(cell.rjust(width) if i else cell.ljust(width) for i, (cell, width) in enumerate(zip(row, widths)))
        for row in cells
    )
    return "\n".join(line.rstrip() for line in lines)


def compare_grid(device: str, deadline: float) -> Tuple[List[List[str]], List[str]]:
    """One row for each op, dtype and result with its worst error, and what failed."""
    from scripts.gpu_cases import Comparison, grid, run_case

    worst: Dict[Tuple[str, str, str], Comparison] = {}
    calls: Dict[Tuple[str, str], int] = {}
    failed: List[str] = []
    for case in grid():
        if time.monotonic() > deadline:
            failed.append(f"{case.name}: not run, the time of {BUDGET_SECONDS} seconds is used up")
            continue
        calls[case.op, case.dtype] = calls.get((case.op, case.dtype), 0) + 1
        try:
            found = run_case(case, device)
        except RuntimeError as error:  # a launch that failed: the next rows still say something
            failed.append(f"{case.name}: {str(error).splitlines()[0]}")
            continue
        for each in found:
            key = (case.op, case.dtype, each.name)
            if key not in worst or each.ratio > worst[key].ratio:
                worst[key] = each
            if each.ratio > 1:
                failed.append(f"{case.name}: `{each.name}` is off by {each.error:.3g}, {each.ratio:.2g} of the allowed")
    rows = [
        [f"{op} {dtype} {name}", str(calls[op, dtype]), f"{each.error:.2e}", f"{each.ratio:.3f}"]
        for (op, dtype, name), each in worst.items()
    ]
    return rows, failed


def speed_rows(device: str) -> List[List[str]]:
    from scripts.gpu_speed import measure_speeds

    speeds = measure_speeds(device)
    copy = speeds[0].bandwidth
    return [
        [each.name, f"{each.seconds * 1e3:.3f}", f"{each.bandwidth / 1e9:.0f}", f"{each.bandwidth / copy:.0%}"]
        for each in speeds
    ]


def main(argv: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(
        prog="gpu", description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--wheel", type=Path, help="test this wheel instead of the installed mamba_ssm")
    parser.add_argument("--no-speed", action="store_true", help="leave out the measurement of time and bandwidth")
    arguments = parser.parse_args(argv)
    if arguments.wheel is not None and not arguments.wheel.is_file():
        parser.error(f"there is no such wheel: `{arguments.wheel}`")
    reason = why_no_gpu()
    if reason is not None:
        print(f"gpu: there is nothing to run on: {reason}", file=sys.stderr)
        return NO_GPU
    os.environ["MAMBA_SSM_BACKEND"] = "cuda"  # the reference in their place would pass for them
    deadline = time.monotonic() + BUDGET_SECONDS * 0.75
    with tempfile.TemporaryDirectory() as folder:
        if arguments.wheel is not None:
            use_wheel(arguments.wheel, Path(folder))
        else:
            use_installed()
        if importlib.util.find_spec("mamba_ssm") is None:
            parser.error("mamba_ssm is not installed: install a wheel, or name one with --wheel")
        import torch

        print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, CUDA {torch.version.cuda}\n")
        rows, failed = compare_grid("cuda", deadline)
        print(format_rows(("result", "calls", "largest error", "of allowed"), rows))
        if not arguments.no_speed and not failed:
            print("\n" + format_rows(("speed", "ms", "GB/s", "of the copy"), speed_rows("cuda")))
    for line in failed:
        print(f"gpu: {line}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

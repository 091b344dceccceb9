"""Which lines of the CUDA kernels the tests on the emulated GPU run, by gcov."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Dict, List, Tuple

ROOT = Path(__file__).resolve().parents[1]
CSRC = ROOT / "csrc"
VARIABLE = "MAMBA_KERNELS_COVERAGE"  # read by tests/kernels/build.py
TESTS = ("tests/kernels/test_selective_scan.py", "tests/kernels/test_causal_conv1d.py")


class CoverageError(Exception):
    """gcov is missing, or the tests fail."""


def read_gcov(text: str) -> Dict[str, Dict[int, int]]:
    """File below csrc -> line -> runs, from `gcov --json-format --stdout`: one document a line."""
    lines: Dict[str, Dict[int, int]] = {}
    for document in text.splitlines():
        if not document.startswith("{"):
            continue
        for file in json.loads(document)["files"]:
            path = (ROOT / file["file"]).resolve()
            if CSRC not in path.parents or path.suffix not in (".cuh", ".cu"):
                continue
            counts = lines.setdefault(str(path.relative_to(CSRC)), {})
            for line in file["lines"]:
                number = line["line_number"]
                counts[number] = counts.get(number, 0) + line["count"]
    return lines


def coverage_rows(lines: Dict[str, Dict[int, int]]) -> List[Tuple[str, int, int, str]]:
    """A row for each file: its lines of code, those that ran, the numbers of the others."""
    rows = []
    for name, counts in sorted(lines.items()):
        missed = [number for number, count in sorted(counts.items()) if count == 0]
        rows.append((name, len(counts), len(counts) - len(missed), " ".join(map(str, missed)) or "-"))
    return rows


def measure_coverage() -> List[Tuple[str, int, int, str]]:
    """Run the tests of both ops on kernels that count their lines."""
    if shutil.which("gcov") is None:
        raise CoverageError("gcov is not installed; it comes with gcc")
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={folder}/tests", *TESTS]
        environment = {**os.environ, VARIABLE: "1"}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        if done.returncode != 0:
            raise CoverageError(f"the tests fail on kernels that count their lines:\n{done.stdout}{done.stderr}")
        counts = sorted(map(str, Path(folder).rglob("*.gcda")))
        if not counts:
            raise CoverageError("the kernels left no counts behind")
        shown = subprocess.run(
            ["gcov", "--json-format", "--stdout", *counts], cwd=folder, capture_output=True, text=True, check=True
        )
    return coverage_rows(read_gcov(shown.stdout))

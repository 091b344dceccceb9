"""Every command and every example of README.md, run as it stands there."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

from scripts.readme import code_blocks, example
from scripts.run_tests import unpack_native

ROOT = Path(__file__).resolve().parents[2]
# These two are what CI itself calls (.ci/run); a test cannot call the session that it runs in.
BY_CI = ["pip install nox && nox -s quickstart", "pip install nox && nox -s tests"]


def commands() -> list[str]:
    return [line for block in code_blocks("sh") for line in block.splitlines() if line]


def run(arguments: list[str], **environment: str) -> str:
    done = subprocess.run(
        arguments, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def test_the_first_two_commands_are_what_ci_runs() -> None:
    assert commands()[:2] == BY_CI
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert all(command.split("&& ")[1].split()[-1] in script for command in BY_CI)


def test_the_other_commands_run() -> None:
    others = [shlex.split(command) for command in commands()[2:]]
    assert others, "README shows no command"
    # The index that the installer reads is made by the farm's commands, which README shows after it.
    for arguments in sorted(others, key=lambda words: words[:3] == ["python", "-m", "mamba_install"]):
        assert arguments[0] in ("python", "pip")
        run([sys.executable, *(arguments[1:] if arguments[0] == "python" else ["-m", *arguments])])


def test_the_example_runs_on_native_kernels(wheelhouse: Path, tmp_path: Path) -> None:
    native = unpack_native(wheelhouse, tmp_path)
    assert "tensors on cpu: cpu" in run([sys.executable, "-c", example()], MAMBA_SSM_NATIVE_DIR=str(native))


def test_the_example_runs_without_any_native_library(tmp_path: Path) -> None:
    assert "tensors on cpu: reference" in run([sys.executable, "-c", example()], MAMBA_SSM_NATIVE_DIR=str(tmp_path))

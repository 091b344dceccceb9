"""`mamba-install` on its own: built from the checkout, installed into a fresh environment, run away from the checkout."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path
from typing import Dict

import pytest

from tests.unit.mamba_install.wheels import make_wheel

ROOT = Path(__file__).resolve().parents[2]
FACTS = {
    "python": "3.12",
    "torch": "2.13.0+cpu",
    "cxx11abi": True,
    "platform": "linux",
    "machine": "x86_64",
    "glibc": "2.36",
}


def clean_environment() -> Dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith(("MAMBA_", "PYTHONPATH"))}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, because a build leaves its folder beside the project file."""
    folder = tmp_path_factory.mktemp("standalone")
    ignore = shutil.ignore_patterns("__pycache__", "build", "*.egg-info")
    shutil.copytree(ROOT / "mamba_install", folder / "mamba_install", ignore=ignore)
    shutil.copytree(ROOT / "distributions" / "mamba-install", folder / "distributions" / "mamba-install", ignore=ignore)
    project = str(folder / "distributions" / "mamba-install")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), project]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    (built,) = folder.glob("*.whl")
    return built


def test_what_is_in_it(wheel: Path) -> None:
    assert wheel.name.startswith("mamba_install-")
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if name.endswith(".py")}
        (metadata,) = [archive.read(name).decode() for name in archive.namelist() if name.endswith("/METADATA")]
    assert names == {f"mamba_install/{path.name}" for path in (ROOT / "mamba_install").glob("*.py")}
    required = [line for line in metadata.splitlines() if line.startswith("Requires-Dist: ")]
    assert sorted(line.split()[1].partition(">")[0] for line in required) == ["packaging", "requests"]


def test_it_runs_alone(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "env"
    venv.create(environment, with_pip=True, symlinks=True)
    subprocess.run(
        [str(environment / "bin" / "pip"), "install", "--quiet", str(wheel)],
        check=True,
        capture_output=True,
        timeout=300,
    )
    program = str(environment / "bin" / "mamba-install")
    make_wheel(tmp_path / "wheels")
    (tmp_path / "facts.json").write_text(json.dumps(FACTS))

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, timeout=120
        )

    assert "examples:" in run(program, "--help").stdout
    replayed = run(program, "--index", "wheels", "--environment", "facts.json", "--dry-run")
    assert replayed.returncode == 0, replayed.stderr
    assert replayed.stdout.startswith("wheel: mamba_ssm-2.4.0+cpu-py3-none-")
    here = run(str(environment / "bin" / "python"), "-m", "mamba_install", "--index", "wheels", "--dry-run", "--json")
    assert here.returncode == 3, here.stderr
    assert json.loads(here.stdout)["code"] == "TORCH_MISSING"

"""Runs the farm of a checkout, or of a copy of it, as a user would."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from email.message import Message
from email.parser import BytesParser
from pathlib import Path
from typing import Any, Dict, Mapping, Optional

from farm.sdist import source_files

ROOT = Path(__file__).resolve().parents[2]
MACHINE = os.uname().machine
PYTHON = f"cp{sys.version_info[0]}{sys.version_info[1]}"
CPU = f"mamba_ssm-universal-cpu-{MACHINE}"
CLASSIC_CPU = f"mamba_ssm-torch2.13-cpu-cp311-abi1-{MACHINE}"
CLASSIC_CUDA = f"mamba_ssm-torch2.13-cu130-cp311-abi1-{MACHINE}"
# variables of the caller that would change what is built
_OURS = ("MAMBA_", "TORCH_CUDA", "MAX_JOBS", "NVCC_", "SOURCE_DATE", "PYTHONPATH")


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def said(self) -> str:
        """Everything: pip's verbose output goes to either stream, by version."""
        return self.stdout + self.stderr

    def json(self) -> Any:
        return json.loads(self.stdout)


def environment(extra: Mapping[str, str] = {}) -> Dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_OURS) or name == "MAMBA_FARM_CACHE" or name == "MAX_JOBS"
    }
    return {**kept, **extra}


def run(*command: str, cwd: Path = ROOT, extra: Mapping[str, str] = {}) -> Outcome:
    done = subprocess.run(command, cwd=cwd, env=environment(extra), capture_output=True, text=True, timeout=1200)
    return Outcome(done.returncode, done.stdout, done.stderr)


def farm(*arguments: str, root: Path = ROOT, extra: Mapping[str, str] = {}) -> Outcome:
    return run(sys.executable, "-m", "farm", *arguments, cwd=root, extra=extra)


def build(folder: Path, *arguments: str, root: Path = ROOT, extra: Mapping[str, str] = {}) -> list[Path]:
    """Build and return the wheels; the build's own words are the failure message."""
    outcome = farm("build", "--json", "--output", str(folder), *arguments, root=root, extra=extra)
    assert outcome.code == 0, outcome.stderr
    return [root / row["wheel"] for row in outcome.json()["wheels"]]


def copy_checkout(folder: Path) -> Path:
    """The sources as the source archive has them, elsewhere."""
    for path in source_files(ROOT):
        target = folder / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)
    return folder


def contents(wheel: Path) -> Dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def native(wheel: Path) -> Dict[str, bytes]:
    return {name: data for name, data in contents(wheel).items() if name.endswith(".so")}


def table(wheel: Path) -> Any:
    return json.loads(contents(wheel)["mamba_ssm/_native/bindings.json"])


def metadata(wheel: Path) -> Message:
    (data,) = [data for name, data in contents(wheel).items() if name.endswith(".dist-info/METADATA")]
    return BytesParser().parsebytes(data)


def cuda_toolkit() -> Optional[str]:
    """The version of the CUDA toolkit here, None where there is none."""
    from farm.toolchains import find_system_toolchain

    toolchain = find_system_toolchain()
    return None if toolchain is None else toolchain.version

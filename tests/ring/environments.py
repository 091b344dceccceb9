"""Fresh environments with one real torch each, made for a test and deleted after it: they are gigabytes."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator, Optional, Sequence

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    code: int
    stdout: str
    stderr: str

    def json(self) -> Any:
        return json.loads(self.stdout)


@dataclass(frozen=True)
class Environment:
    """A virtual environment and the wheelhouse that its wheel comes from."""

    folder: Path
    wheelhouse: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def run(self, *arguments: str, cwd: Optional[Path] = None) -> Outcome:
        """Run the environment's interpreter away from the checkout, so that only what is installed is imported."""
        return _run([str(self.python), *arguments], cwd=cwd or self.folder)

    def installer(self, *arguments: str) -> Outcome:
        """Run the installer of the checkout on this environment."""
        command = [sys.executable, "-m", "mamba_install", *arguments, "--python", str(self.python)]
        return _run(command, cwd=ROOT)

    def snapshot(self) -> dict[str, str]:
        """Every installed distribution but ours, with the digest of its RECORD and of its files' sizes."""
        (packages,) = self.folder.glob("lib/python3*/site-packages")
        return {
            folder.name: _fingerprint(folder, packages)
            for folder in sorted(packages.glob("*.dist-info"))
            if not folder.name.startswith("mamba_ssm-")
        }


def _fingerprint(dist_info: Path, packages: Path) -> str:
    record = (dist_info / "RECORD").read_bytes()
    digest = hashlib.sha256(record)
    for line in record.decode("utf-8").splitlines():
        path = packages / line.rsplit(",", 2)[0].strip('"')
        if path.suffix != ".pyc":
            digest.update(f"{path.name}:{path.stat().st_size if path.exists() else 'gone'}\n".encode())
    return digest.hexdigest()


def _run(command: Sequence[str], cwd: Path) -> Outcome:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAMBA_", "PYTHONPATH"))}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=900)
    return Outcome(done.returncode, done.stdout, done.stderr)


@contextmanager
def fresh_environment(folder: Path, wheelhouse: Path, torch: str) -> Iterator[Environment]:
    """An environment with `torch==torch` and nothing else; gone afterwards, whatever happened."""
    environment = Environment(folder, wheelhouse)
    try:
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        pip = [str(environment.python), "-m", "pip", "install", "--quiet", "--no-cache-dir", f"torch=={torch}"]
        subprocess.run(pip, check=True, timeout=1800)
        yield environment
    finally:
        shutil.rmtree(folder, ignore_errors=True)

"""The source archive: everything that a build, its tests and its documentation need, in a fixed order with fixed time stamps.

https://packaging.python.org/en/latest/specifications/source-distribution-format/
"""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from pathlib import Path
from typing import List

from farm.errors import BuildError
from farm.plan import PACKAGE, read_version

FILES = (
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "matrix.yaml",
    "facts.yaml",
    "noxfile.py",
)
FOLDERS = (
    "csrc",
    "farm",
    "mamba_install",
    "mamba_ssm",
    "causal_conv1d",
    "distributions",
    "scripts",
    "tests",
    "docs",
    "docker",
)
REQUIRED = ("pyproject.toml", "matrix.yaml", "facts.yaml", "LICENSE", "README.md", "csrc/include/mamba_kernels.h")
_LEFT_OUT = {"__pycache__", "build", "dist"}
_SUFFIXES_LEFT_OUT = {".so", ".pyc", ".o"}


def source_files(root: Path) -> List[Path]:
    """The sources below the checkout, sorted; nothing that is made."""
    found = [root / name for name in FILES if (root / name).is_file()]
    for folder in FOLDERS:
        for parent, folders, names in os.walk(root / folder):
            folders[:] = sorted(name for name in folders if name not in _LEFT_OUT and not name.startswith("."))
            if Path(parent).name.endswith(".egg-info"):
                continue
            found += [
                Path(parent) / name
                for name in names
                if Path(name).suffix not in _SUFFIXES_LEFT_OUT and not name.startswith(".") and name != "bindings.json"
            ]
    missing = [name for name in REQUIRED if not (root / name).is_file()]
    if missing:
        raise BuildError(
            f"SDIST_INCOMPLETE: the checkout lacks {', '.join(missing)}", "git status says what was removed"
        )
    return sorted(found, key=lambda path: path.relative_to(root).as_posix())


def write_sdist(root: Path, folder: Path, epoch: int, pkg_info: bytes) -> Path:
    base = f"{PACKAGE}-{read_version(root)}"
    path = folder / f"{base}.tar.gz"
    folder.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with (
            temporary.open("wb") as raw,
            gzip.GzipFile("", "wb", 9, raw, mtime=epoch) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            _add(archive, f"{base}/PKG-INFO", pkg_info, 0o644, epoch)
            for source in source_files(root):
                mode = 0o755 if os.access(source, os.X_OK) else 0o644
                _add(archive, f"{base}/{source.relative_to(root).as_posix()}", source.read_bytes(), mode, epoch)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def _add(archive: tarfile.TarFile, name: str, data: bytes, mode: int, epoch: int) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = len(data), mode, epoch
    archive.addfile(info, io.BytesIO(data))

"""Torch's headers without torch: unpacked once from the smallest wheel that pip downloads, and cached by release.

The wheels for aarch64 are a tenth of the others and hold the same headers where the bindings look.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
import tempfile
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Optional, Tuple

from farm.errors import BuildError, NetworkError
from farm.facts import pair
from farm.process import run
from mamba_install.probes import parse_torch_version_file, read_abi
from mamba_install.torch_versions import TorchVersion

# (machine of the wheel, pip's platforms), the small ones first
_PLATFORMS: Tuple[Tuple[str, Tuple[str, ...]], ...] = (
    ("aarch64", ("manylinux2014_aarch64", "manylinux_2_17_aarch64", "manylinux_2_28_aarch64")),
    ("x86_64", ("manylinux1_x86_64", "manylinux2014_x86_64", "manylinux_2_28_x86_64")),
)
_PYTHONS = ("3.11", "3.10")  # one of them is served by every release


@dataclass(frozen=True)
class Headers:
    """A tree that holds torch/, ATen/ and c10/."""

    version: str
    include: str
    origin: str  # cache or installed

    @property
    def standard(self) -> str:
        from farm.recipe import CXX20_FROM

        return "-std=c++20" if pair(self.version) >= CXX20_FROM else "-std=c++17"


@dataclass(frozen=True)
class InstalledTorch:
    """The torch that this interpreter could import, read from its files."""

    version: str
    minor: str
    is_release: bool
    cxx11abi: Optional[bool]
    include: str


def cached_headers(version: str, cache: Path) -> Optional[Headers]:
    for machine, _ in _PLATFORMS:
        folder = cache / "headers" / f"{version}-{machine}"
        if (folder / "include" / "torch").is_dir():
            return Headers(version, str(folder / "include"), "cache")
    return None


def get_headers(version: str, cache: Path, log: Path) -> Headers:
    """The headers of a release: from the cache, or downloaded into it. NetworkError when pip gets nothing."""
    found = cached_headers(version, cache)
    if found is not None:
        return found
    (cache / "headers").mkdir(parents=True, exist_ok=True)
    said = ""
    for machine, platforms in _PLATFORMS:
        for python in _PYTHONS:
            with tempfile.TemporaryDirectory(prefix=f".{version}-", dir=cache / "headers") as temporary:
                wheel, said = _download(version, python, platforms, Path(temporary), log)
                if wheel is not None:
                    return _unpack(wheel, version, machine, cache)
    last = [line for line in said.splitlines() if line.startswith("ERROR")]
    raise NetworkError(
        f"pip found no wheel of torch {version} for its headers: {last[-1] if last else 'it said nothing'}",
        f"is the package index reachable? the whole log is in {log}",
    )


def _download(
    version: str, python: str, platforms: Tuple[str, ...], folder: Path, log: Path
) -> Tuple[Optional[Path], str]:
    command = [*_pip(), "download", "--no-deps", "--only-binary=:all:", "--python-version", python]
    command += [word for platform in platforms for word in ("--platform", platform)]
    command += ["--disable-pip-version-check", "--no-cache-dir", "--dest", str(folder), f"torch=={version}"]
    print(f"fetching the headers of torch {version} (one download, kept in the cache)", file=sys.stderr, flush=True)
    start = time.monotonic()
    finished = run(command, log=log, show=False)
    wheels = sorted(folder.glob("torch-*.whl"))
    if finished.returncode != 0 or not wheels:
        return None, finished.output
    size = wheels[0].stat().st_size / 1e6
    print(f"  {wheels[0].name}: {size:.0f} MB in {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    return wheels[0], finished.output


def _pip() -> Tuple[str, ...]:
    if importlib.util.find_spec("pip") is not None:
        return sys.executable, "-m", "pip"
    for name in ("pip3", "pip"):
        path = shutil.which(name)
        if path is not None:
            return (path,)
    raise BuildError("torch's headers are downloaded by pip, and there is none", f"{sys.executable} -m ensurepip")


def _unpack(wheel: Path, version: str, machine: str, cache: Path) -> Headers:
    """Keep only the headers, and put them in place by one rename, so that a half-unpacked tree is never used."""
    target = cache / "headers" / f"{version}-{machine}"
    staging = wheel.parent / "staging"
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.startswith("torch/include/") and not name.endswith("/"):
                archive.extract(name, staging)
    if not (staging / "torch" / "include" / "torch").is_dir():
        raise BuildError(f"the wheel holds no headers: `{wheel.name}`", "report this release to the project")
    whole = wheel.parent / "whole"
    whole.mkdir()
    (staging / "torch" / "include").rename(whole / "include")
    try:
        whole.rename(target)
    except OSError:
        if not (target / "include" / "torch").is_dir():
            raise
    return Headers(version, str(target / "include"), "cache")


def find_installed_torch() -> Optional[InstalledTorch]:
    """The torch beside this interpreter, found without importing it; None where there is none with headers."""
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        return None
    return read_installed_torch(Path(next(iter(spec.submodule_search_locations))))


def read_installed_torch(folder: Path) -> Optional[InstalledTorch]:
    """None for a folder without headers, or one whose version.py names no version. The facts are read as the installer does."""
    try:
        text = (folder / "version.py").read_text(encoding="utf-8")
    except OSError:
        return None
    torch = TorchVersion.parse(parse_torch_version_file(text)["torch"] or "")
    include = folder / "include"
    if torch is None or not (include / "torch").is_dir():
        return None
    abi = read_abi(folder / "lib" / "libc10.so")
    return InstalledTorch(torch.text, torch.minor, torch.build == "release", abi, str(include))

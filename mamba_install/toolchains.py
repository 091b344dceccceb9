"""The compilers that a build from source would find, read from files: no compiler is started to learn its version."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Dict, Iterator, Mapping, Optional, Sequence


def find_nvcc(
    prefix: str, sites: Sequence[str], installed: Mapping[str, str], sources: Dict[str, str]
) -> Optional[str]:
    """The CUDA version of the nvcc that a build would use, in the order in which torch's builds look for it."""
    for root in _toolkit_roots(prefix):
        if (root / "bin" / "nvcc").exists() or (root / "bin" / "nvcc.exe").exists():
            version = toolkit_version(root)
            if version is not None:
                sources["nvcc"] = str(root)
                return version
    for site in sites:
        for nvcc in sorted(Path(site, "nvidia").glob("*/bin/nvcc")):
            names = [name for name in installed if re.fullmatch(r"nvidia-cuda-nvcc(-cu\d+)?", name)]
            if names:
                sources["nvcc"] = str(nvcc)
                return ".".join(installed[names[0]].split(".")[:2])
    return None


def _toolkit_roots(prefix: str) -> Iterator[Path]:
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        value = os.environ.get(variable)
        if value:
            yield Path(value)
    program = shutil.which("nvcc")
    if program is not None:
        yield Path(os.path.realpath(program)).parent.parent
    yield Path(prefix)
    yield Path("/usr/local/cuda")
    yield from sorted(Path("/usr/local").glob("cuda-*"), reverse=True)


def toolkit_version(root: Path) -> Optional[str]:
    """`12.4` from what the toolkit says of itself."""
    for name, pattern in (
        ("version.json", None),
        ("version.txt", r"CUDA Version (\d+\.\d+)"),
        ("include/cuda.h", r"#define CUDA_VERSION (\d+)"),
        ("targets/x86_64-linux/include/cuda.h", r"#define CUDA_VERSION (\d+)"),
        ("targets/sbsa-linux/include/cuda.h", r"#define CUDA_VERSION (\d+)"),
    ):
        try:
            text = (root / name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        version = _version_of_json(text) if pattern is None else _version_of_text(text, pattern)
        if version is not None:
            return version
    return None


def _version_of_json(text: str) -> Optional[str]:
    try:
        parts = json.loads(text)
    except (ValueError, RecursionError):
        return None
    for name in ("cuda_nvcc", "cuda"):
        part = parts.get(name) if isinstance(parts, dict) else None
        version = part.get("version") if isinstance(part, dict) else None
        match = re.match(r"\d+\.\d+", version) if isinstance(version, str) else None
        if match:
            return match[0]
    return None


def _version_of_text(text: str, pattern: str) -> Optional[str]:
    match = re.search(pattern, text)
    if not match:
        return None
    if "." in match[1]:
        return match[1]
    return f"{int(match[1]) // 1000}.{int(match[1]) % 1000 // 10}"


def find_host_compiler(sources: Dict[str, str]) -> Optional[str]:
    """The major version of the g++ that a build would use, where its name or its folder of parts tells it."""
    named = (os.environ.get("CXX") or "g++").split()
    program = shutil.which(named[0]) if named else None
    if program is None:
        return None
    real = os.path.realpath(program)
    match = re.search(r"-(\d{1,2})$", real)
    if match:
        sources["gcc"] = real
        return match[1]
    folders = {part.name for part in Path("/usr/lib/gcc").glob("*/*") if re.fullmatch(r"\d{1,2}", part.name)}
    if len(folders) == 1 and real.startswith("/usr/bin/"):
        sources["gcc"] = "/usr/lib/gcc"
        return folders.pop()
    return None


def describe_host() -> Sequence[str]:
    """What kind of machine this is beside its system: Jetson, Colab, WSL."""
    found = []
    if Path("/proc/sys/fs/binfmt_misc/WSLInterop").exists():
        found.append("WSL2")
    if Path("/etc/nv_tegra_release").exists():
        found.append("Jetson")
    if os.environ.get("COLAB_RELEASE_TAG"):
        found.append("Colab")
    return found

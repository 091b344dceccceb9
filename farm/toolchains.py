"""CUDA toolchains of this machine, each verified before it is used. In this version one provider: the installed toolkit."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Dict, List, Mapping, Optional, Tuple

from farm.errors import BuildError, UsageError
from farm.facts import Facts
from farm.process import run

DEFAULT_ROOT = Path("/usr/local/cuda")


@dataclass(frozen=True)
class Toolchain:
    """A toolkit that answers, and what it said of itself."""

    version: str  # 13.0
    release: str  # 13.0.88
    provider: str
    root: str
    archs: Tuple[str, ...]  # compute capabilities, as nvcc lists them

    @property
    def nvcc(self) -> str:
        return str(Path(self.root) / "bin" / "nvcc")

    @property
    def fatbinary(self) -> str:
        return str(Path(self.root) / "bin" / "fatbinary")


def find_system_toolchain(environment: Mapping[str, str] = os.environ) -> Optional[Toolchain]:
    """The toolkit of CUDA_HOME, of the nvcc on PATH, or of /usr/local/cuda; None where there is none.

    A CUDA_HOME that holds no nvcc is an error: whoever set it meant it.
    """
    named = environment.get("CUDA_HOME", "").strip()
    if named:
        if not (Path(named) / "bin" / "nvcc").is_file():
            raise UsageError(f"CUDA_HOME has no bin/nvcc: `{named}`", "set CUDA_HOME to a CUDA toolkit, or unset it")
        return _verify(Path(named) / "bin" / "nvcc")
    on_path = shutil.which("nvcc", path=environment.get("PATH"))
    if on_path is not None:
        return _verify(Path(on_path))
    default = DEFAULT_ROOT / "bin" / "nvcc"
    return _verify(default) if default.is_file() else None


# provider -> how to find its toolchains
PROVIDERS: Dict[str, Callable[[Mapping[str, str]], Optional[Toolchain]]] = {"system": find_system_toolchain}


def find_toolchains(environment: Mapping[str, str] = os.environ) -> Tuple[Toolchain, ...]:
    found: List[Toolchain] = []
    for find in PROVIDERS.values():
        toolchain = find(environment)
        if toolchain is not None:
            found.append(toolchain)
    return tuple(found)


def _verify(nvcc: Path) -> Toolchain:
    said = run([str(nvcc), "--version"], show=False)
    version = re.search(r"release (\d+\.\d+), V([\d.]+)", said.output)
    listed = run([str(nvcc), "--list-gpu-arch"], show=False)
    archs = tuple(
        sorted(
            {f"{number[:-1]}.{number[-1]}" for number in re.findall(r"compute_(\d+)\b", listed.output)},
            key=lambda arch: tuple(map(int, arch.split("."))),
        )
    )
    if said.returncode != 0 or version is None or not archs:
        raise BuildError(
            f"nvcc does not answer as nvcc does: `{nvcc}`",
            "reinstall the CUDA toolkit, or set CUDA_HOME to another one",
        )
    return Toolchain(version[1], version[2], "system", str(_root(nvcc)), archs)


def _root(nvcc: Path) -> Path:
    """The toolkit's folder. `nvcc` on PATH may be a link or a script; nvcc itself says where it lives."""
    said = run([str(nvcc), "--dryrun", "-c", "-x", "cu", os.devnull], show=False)
    top = re.search(r"^#\$ TOP=(.*)$", said.output, re.MULTILINE)
    if top is None:
        return nvcc.resolve().parent.parent
    return Path(top[1].strip()).resolve()


def host_compiler_major(command: str = "g++") -> Optional[int]:
    """The major version of the host compiler, None where it is absent."""
    if shutil.which(command) is None:
        return None
    said = run([command, "-dumpversion"], show=False)
    match = re.match(r"(\d+)", said.output)
    return int(match[1]) if said.returncode == 0 and match else None


def check_host_compiler(toolchain: Toolchain, facts: Facts) -> None:
    """Refuse a host compiler that this nvcc will refuse, before it does so in the middle of a build."""
    major = host_compiler_major()
    toolkit = facts.toolkits.get(toolchain.version)
    if major is not None and toolkit is not None and major > toolkit.max_gcc:
        raise BuildError(
            f"CUDA {toolchain.version} takes gcc {toolkit.max_gcc} at most, the host compiler is gcc {major}",
            f"install g++-{toolkit.max_gcc} and put it first on PATH as g++",
        )

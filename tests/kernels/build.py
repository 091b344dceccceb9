"""Builds the emulated GPU with the kernels in it, and the launcher as it stands in a wheel, into a folder."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Sequence

ROOT = Path(__file__).resolve().parents[2]
CSRC = ROOT / "csrc"
EMULATION = Path(__file__).resolve().parent / "emulation"
UNITS = ("selective_scan", "causal_conv1d")
INCLUDES = (f"-I{CSRC / 'include'}", f"-I{CSRC}")
DESCRIPTION = "cuda emulated: sm_80 sm_90+PTX"
IMAGE_ARCHS = "sm_80 sm_90 compute_90"

# -fsanitize=thread makes the compiler call a hook before each access; emulation/memory.cpp defines those hooks.
# Two-byte floats live in structs that kernels reach through other types: no strict aliasing, as under nvcc.
KERNEL_FLAGS = ("-std=c++17", "-g1", "-O1", "-fPIC", "-fvisibility=hidden", "-fno-strict-aliasing", "-ffp-contract=off")
HOST_FLAGS = ("-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror")
LAUNCHER_FLAGS = (*HOST_FLAGS, "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics")
LAUNCHER_SOURCES = (
    "cuda/driver.cpp",
    "cuda/device.cpp",
    "cuda/status.cpp",
    "cuda/table.cpp",
    "selective_scan/launch.cpp",
    "causal_conv1d/launch.cpp",
)


class BuildError(Exception):
    """A compiler refused; carries its output."""


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise BuildError(f"+ {' '.join(command)}\n{done.stdout}{done.stderr}")


# Set to anything, the kernels count their lines' executions for gcov: scripts/kernel_report.py --coverage.
COVERAGE_VARIABLE = "MAMBA_KERNELS_COVERAGE"


def coverage_flags() -> list[str]:
    return ["--coverage", "-fprofile-update=single"] if os.environ.get(COVERAGE_VARIABLE) else []


def compile_kernels(source: Path, object_file: Path, first_includes: Sequence[str] = ()) -> Path:
    """Compile a .cu file for the emulated GPU."""
    flags = (*KERNEL_FLAGS, "-fsanitize=thread", *coverage_flags(), *first_includes, *INCLUDES, f"-I{EMULATION}")
    _run(["g++", *flags, "-x", "c++", "-c", str(source), "-o", str(object_file)])
    return object_file


def compile_machine(folder: Path) -> list[Path]:
    """Compile the emulated GPU and its driver, without kernels."""
    objects = []
    for name in ("schedule", "memory", "driver"):
        objects.append(folder / f"machine_{name}.o")
        source = EMULATION / f"{name}.cpp"
        counts = ["-DEMU_COUNTS_LINES"] if coverage_flags() else []
        _run(["g++", *HOST_FLAGS, *counts, *INCLUDES, f"-I{EMULATION}", "-c", str(source), "-o", str(objects[-1])])
    return objects


def link_driver(objects: Sequence[Path], library: Path) -> Path:
    """Link the emulated libcuda.so.1. Its name differs from the real one's, so that nothing else takes it for that."""
    _run(
        [
            "g++",
            "-shared",
            "-Wl,-z,defs",
            f"-Wl,-soname,{library.name}",
            *coverage_flags(),
            *map(str, objects),
            "-o",
            str(library),
        ]
    )
    return library


def _compile_host(source: Path, object_file: Path, first_includes: Sequence[str] = ()) -> str:
    description = f'-DMAMBA_CUDA_DESCRIPTION="{DESCRIPTION}"'
    flags = (*LAUNCHER_FLAGS, *first_includes, *INCLUDES, description)
    _run(["g++", *flags, "-c", str(source), "-o", str(object_file)])
    return str(object_file)


def _launcher_object(folder: Path, source: str) -> Path:
    return folder / source.replace("/", "_").replace(".cpp", ".o")


def _link_launcher(objects: Sequence[str], library: Path) -> Path:
    late = ["-Wl,--no-as-needed", "-l:libdl.so.2", "-l:libpthread.so.0", "-Wl,--as-needed"]
    _run(["gcc", "-shared", "-Wl,-z,defs", "-Wl,-soname,libmamba_cuda.so", *objects, *late, "-o", str(library)])
    return library


def build_launcher(folder: Path, library: Path) -> Path:
    """Build libmamba_cuda.so from its sources with images for the emulated GPU in place of fatbins."""
    objects = [_compile_host(CSRC / source, _launcher_object(folder, source)) for source in LAUNCHER_SOURCES]
    definitions = []
    for unit in UNITS:
        image = folder / f"{unit}.image"
        image.write_bytes(f"emulated {unit} {IMAGE_ARCHS}".encode() + b"\0")
        definitions.append(f'-DMAMBA_FATBIN_{unit.upper()}="{image}"')
    objects.append(str(folder / "embed.o"))
    _run(["gcc", *definitions, "-c", str(CSRC / "cuda" / "embed.S"), "-o", objects[-1]])
    return _link_launcher(objects, library)


def rebuild_launcher(folder: Path, source: Path, unit: str, library: Path) -> Path:
    """The launcher that lies in `folder`, with the unit's part compiled anew from other sources."""
    changed = f"{unit}/launch.cpp"
    own = _compile_host(source / changed, library.with_suffix(".o"), [f"-I{source}"])
    others = [str(_launcher_object(folder, each)) for each in LAUNCHER_SOURCES if each != changed]
    return _link_launcher([own, *others, str(folder / "embed.o")], library)

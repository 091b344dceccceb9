"""Builds libmamba_cpu.so once, with the flags of the farm, and loads it once per instruction set that this CPU has."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path
from typing import Dict

import pytest

from farm import recipe
from tests.kernels_cpu.abi import Kernels

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Dict[str, Path]:
    """Compiled objects: `dispatch`, and one per instruction set."""
    folder = tmp_path_factory.mktemp("objects")
    machine = platform.machine()
    compile_ = [recipe.CXX, *recipe.KERNEL_FLAGS, "-Werror", "-c"]
    built = {"dispatch": folder / "dispatch.o"}
    commands = [[*compile_, recipe.CPU_DISPATCH, "-o", str(built["dispatch"])]]
    for isa, flags in recipe.CPU_ISAS[machine].items():
        built[isa] = folder / f"kernels.{isa}.o"
        commands.append([*compile_, *flags, f"-DMAMBA_ISA={isa}", recipe.CPU_KERNELS, "-o", str(built[isa])])
    for command in commands:
        subprocess.run(command, cwd=ROOT, check=True)
    return built


@pytest.fixture(scope="session")
def library(objects: Dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("library") / recipe.CPU_LIBRARY
    linked = [str(each) for each in objects.values()]
    subprocess.run([recipe.LINKER, *linked, "-o", str(path), *recipe.KERNEL_LINK_FLAGS], check=True)
    return path


def load_as(library: Path, isa: str, folder: Path) -> Kernels:
    """A copy of the library, since a loaded one has already chosen; the choice falls in the first call."""
    copy = folder / f"{isa}.so"
    shutil.copy(library, copy)
    kernels = Kernels(copy)
    before = os.environ.get("MAMBA_CPU_ISA")
    os.environ["MAMBA_CPU_ISA"] = isa
    try:
        kernels.describe()
    finally:
        del os.environ["MAMBA_CPU_ISA"]
        if before is not None:
            os.environ["MAMBA_CPU_ISA"] = before
    return kernels


@pytest.fixture(scope="session")
def every_isa(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Dict[str, Kernels]:
    """One loaded library for each instruction set of this CPU."""
    folder = tmp_path_factory.mktemp("isas")
    loaded = {isa: load_as(library, isa, folder) for isa in recipe.CPU_ISAS[platform.machine()]}
    return {isa: kernels for isa, kernels in loaded.items() if kernels.describe() == isa}


@pytest.fixture(scope="session")
def kernels(every_isa: Dict[str, Kernels]) -> Kernels:
    """The widest."""
    return list(every_isa.values())[-1]


@pytest.fixture(params=["baseline", "avx2", "avx512"])
def isa(request: pytest.FixtureRequest, every_isa: Dict[str, Kernels]) -> Kernels:
    """Each in turn."""
    if request.param not in every_isa:
        pytest.skip(f"this CPU has no {request.param}")
    return every_isa[request.param]

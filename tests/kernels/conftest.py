"""The emulated GPU and the real launcher on it, built once a session."""

from __future__ import annotations

import ctypes
import os
import shutil
from pathlib import Path
from typing import Iterator

import pytest

from tests.kernels import build
from tests.kernels.abi import Kernels
from tests.kernels.arrays import Memory

DRIVER_VARIABLE = "MAMBA_SSM_CUDA_DRIVER"
ORDERS = ("forward", "reverse", "shuffled")


@pytest.fixture(scope="session")
def build_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("g++") is None:
        pytest.skip("no C++ compiler: g++ is not installed")
    return tmp_path_factory.mktemp("kernels")


@pytest.fixture(scope="session")
def machine_objects(build_folder: Path) -> list[Path]:
    return build.compile_machine(build_folder)


@pytest.fixture(scope="session")
def driver_path(build_folder: Path, machine_objects: list[Path]) -> Path:
    units = [build.compile_kernels(build.CSRC / u / f"{u}.cu", build_folder / f"{u}.o") for u in build.UNITS]
    return build.link_driver([*units, *machine_objects], build_folder / "libcuda_emulated.so")


@pytest.fixture(scope="session")
def library_path(build_folder: Path) -> Path:
    return build.build_launcher(build_folder, build_folder / "libmamba_cuda.so")


@pytest.fixture(scope="session")
def kernels(library_path: Path, driver_path: Path) -> Kernels:
    """The launcher, bound to the emulated driver; it looks for the driver once, at this first call."""
    loaded = Kernels(library_path)
    os.environ[DRIVER_VARIABLE] = str(driver_path)
    try:
        assert loaded.device_count() == 1, loaded.last_error()
    finally:
        del os.environ[DRIVER_VARIABLE]
    return loaded


@pytest.fixture
def driver(driver_path: Path) -> Iterator[ctypes.CDLL]:
    """The emulated driver with its settings as they were."""
    loaded = ctypes.CDLL(str(driver_path))
    yield loaded
    loaded.emulation_set(0, 0, 1, 9, 0)
    loaded.emulation_order(0, 1)
    loaded.emulation_forget()


@pytest.fixture
def memory(driver: ctypes.CDLL) -> Memory:
    return Memory(driver)

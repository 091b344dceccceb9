"""The launcher on drivers and GPUs that do not suit it, and what it leaves behind on those that do."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from tests.kernels import abi, build
from tests.kernels.arrays import Memory
from tests.kernels.conftest import DRIVER_VARIABLE
from tests.kernels.test_selective_scan import Case, check, run


@pytest.fixture
def fresh(
    library_path: Path, driver_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver: ctypes.CDLL
) -> abi.Kernels:
    """A copy of the library, which has not looked for a driver yet and will find the emulated one."""
    monkeypatch.setenv(DRIVER_VARIABLE, str(driver_path))
    return abi.Kernels(Path(shutil.copy(library_path, tmp_path)))


def forward(kernels: abi.Kernels, device: int = 0) -> None:
    """An empty call: it needs a device with an image, and launches nothing."""
    kernels.call("selective_scan_fwd", abi.SelectiveScan(batch=0, dim=1, length=1, state=1, groups=1), device)


def test_the_table_says_what_it_is(kernels: abi.Kernels) -> None:
    assert (kernels.abi_version, kernels.table.abi_version) == (1, 1)
    assert kernels.table.device_type == 1
    assert kernels.table.describe().decode() == build.DESCRIPTION


def test_without_a_driver_every_call_says_so(fresh: abi.Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DRIVER_VARIABLE, "libno_such_driver.so.1")
    assert fresh.device_count() == 0
    assert fresh.last_error().startswith("no CUDA device: libno_such_driver.so.1 could not be opened (")
    assert "\nhint: " in fresh.last_error()
    for name, params in (
        ("selective_scan_fwd", abi.SelectiveScan(batch=0, dim=1, length=1, state=1, groups=1)),
        ("causal_conv1d_fwd", abi.CausalConv1d(batch=0, dim=1, length=1, width=4)),
        ("causal_conv1d_update", abi.CausalConv1dUpdate(batch=0, dim=1, length=1, width=4, state_length=3)),
    ):
        with pytest.raises(abi.KernelError, match="could not be opened") as refused:
            fresh.call(name, params)
        assert refused.value.status == abi.NO_DEVICE


def test_a_library_that_is_no_driver(fresh: abi.Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DRIVER_VARIABLE, "libc.so.6")
    assert fresh.device_count() == 0
    assert "libc.so.6 has no function `cu" in fresh.last_error()


def test_a_driver_that_finds_no_gpu(fresh: abi.Kernels, driver: ctypes.CDLL) -> None:
    driver.emulation_set(100, 0, 0, 9, 0)
    assert fresh.device_count() == 0
    assert fresh.last_error() == "no CUDA device: cuInit failed: no CUDA-capable device is detected (100)"


@pytest.mark.parametrize("device", [-1, 1, 99])
def test_a_device_that_is_not_there(kernels: abi.Kernels, memory: Memory, device: int) -> None:
    with pytest.raises(abi.KernelError, match=f"no CUDA device {device}: the driver sees 1") as refused:
        forward(kernels, device)
    assert refused.value.status == abi.NO_DEVICE


def test_no_image_names_the_gpu_and_the_library(fresh: abi.Kernels, driver: ctypes.CDLL) -> None:
    driver.emulation_set(0, 0, 1, 7, 5)
    with pytest.raises(abi.KernelError) as refused:
        forward(fresh)
    assert refused.value.status == abi.NO_KERNEL_IMAGE
    assert str(refused.value) == (
        "no kernel image of selective_scan for GPU 0, whose compute capability is 7.5; the library holds: "
        f"`{build.DESCRIPTION}`\nhint: install a build for sm_75, or build from source on this machine"
    )
    driver.emulation_set(0, 0, 1, 8, 9)  # a failure is not remembered
    forward(fresh)


@pytest.mark.parametrize("result", [200, 218, 222])
def test_an_image_too_new_for_the_driver(fresh: abi.Kernels, driver: ctypes.CDLL, result: int) -> None:
    driver.emulation_set(0, result, 1, 9, 0)
    with pytest.raises(abi.KernelError, match=r"the driver \(CUDA 12.4\) cannot read the kernel image") as refused:
        forward(fresh)
    assert refused.value.status == abi.NO_KERNEL_IMAGE
    assert f"(error {result})" in str(refused.value)


def test_out_of_memory_has_its_own_status(fresh: abi.Kernels, driver: ctypes.CDLL) -> None:
    driver.emulation_set(0, 2, 1, 9, 0)
    with pytest.raises(abi.KernelError, match=r"failed in cuModuleLoadData: .* \(2\)") as refused:
        forward(fresh)
    assert refused.value.status == abi.OUT_OF_MEMORY


@pytest.mark.parametrize(("major", "minor"), [(8, 0), (8, 9), (9, 0), (10, 0), (12, 1)])
def test_gpus_that_an_image_fits(fresh: abi.Kernels, driver: ctypes.CDLL, major: int, minor: int) -> None:
    driver.emulation_set(0, 0, 1, major, minor)
    forward(fresh)


def test_one_module_for_each_device_and_unit(fresh: abi.Kernels, driver: ctypes.CDLL, memory: Memory) -> None:
    driver.emulation_set(0, 0, 2, 9, 0)
    before = driver.emulation_modules_loaded()
    for _ in range(2):
        for device in (0, 1):
            forward(fresh, device)
    assert driver.emulation_modules_loaded() - before == 2
    check(fresh, memory, Case(length=9))
    assert driver.emulation_modules_loaded() - before == 2


def test_the_callers_context_is_current_again(kernels: abi.Kernels, driver: ctypes.CDLL, memory: Memory) -> None:
    run(kernels, memory, Case(length=9))
    with pytest.raises(abi.KernelError):
        forward(kernels, 5)
    assert driver.emulation_contexts() == 0


def test_a_failed_load_gives_the_context_back(fresh: abi.Kernels, driver: ctypes.CDLL) -> None:
    driver.emulation_set(0, 0, 1, 7, 0)
    with pytest.raises(abi.KernelError):
        forward(fresh)
    assert driver.emulation_contexts() == 0


def test_last_error_belongs_to_its_thread(kernels: abi.Kernels, driver: ctypes.CDLL) -> None:
    with pytest.raises(abi.KernelError):
        forward(kernels, 7)
    seen: list[str] = []
    thread = threading.Thread(target=lambda: seen.append(kernels.last_error()))
    thread.start()
    thread.join()
    assert seen == [""]
    assert "no CUDA device 7" in kernels.last_error()


def test_the_library_loads_on_old_systems(library_path: Path) -> None:
    if shutil.which("readelf") is None:
        pytest.skip("readelf is not installed")
    shown = subprocess.run(
        ["readelf", "-d", "-V", str(library_path)], capture_output=True, text=True, check=True
    ).stdout
    needed = {line.split("[")[1].rstrip("]") for line in shown.splitlines() if "(NEEDED)" in line}
    assert not [name for name in needed if "stdc++" in name or "cuda" in name]
    versions = [line.split("Name: GLIBC_")[1].split()[0] for line in shown.splitlines() if "Name: GLIBC_" in line]
    assert max(tuple(map(int, version.split("."))) for version in versions) <= (2, 17)


def test_it_exports_its_two_functions_and_nothing_else(library_path: Path) -> None:
    if shutil.which("nm") is None:
        pytest.skip("nm is not installed")
    command = ["nm", "-D", "--defined-only", str(library_path)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    names = {line.split()[-1].split("@")[0] for line in shown.splitlines()}
    assert names == {"mamba_kernels_abi_version", "mamba_kernels_table"}


def test_the_launcher_names_every_kernel_that_there_is(driver: ctypes.CDLL) -> None:
    text = ctypes.create_string_buffer(4096)
    driver.emulation_kernel_names(text, len(text))
    launched = "".join((build.CSRC / source).read_text() for source in build.LAUNCHER_SOURCES)
    names = text.value.decode().split()
    assert len(names) == 15
    assert [name for name in names if f'"{name}"' not in launched] == []

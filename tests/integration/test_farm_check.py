"""A real wheel, broken in one way at a time: the check finds exactly that, and passes what is whole."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Callable, Dict, List

import pytest

from farm.wheel import wheel_file, write_wheel
from tests.integration.farm_runs import CPU, MACHINE, build, contents, farm

NATIVE = "mamba_ssm/_native/"
TABLE = NATIVE + "bindings.json"
Files = Dict[str, bytes]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    (wheel,) = build(tmp_path_factory.mktemp("whole"), "--only", CPU)
    return wheel


def broken(whole: Path, folder: Path, change: Callable[[Files], None], name: str = "") -> List[str]:
    """The findings on a wheel that was changed and packed again with a RECORD that fits."""
    files = contents(whole)
    change(files)
    path = folder / (name or whole.name)
    version = path.name.split("-")[1]
    info = f"mamba_ssm-{version}.dist-info"
    (old,) = {entry.split("/")[0] for entry in files if entry.split("/")[0].endswith(".dist-info")}
    files = {entry.replace(old, info, 1): data for entry, data in files.items() if not entry.endswith("/RECORD")}
    metadata = files[f"{info}/METADATA"].replace(b"Version: 2.4.0+cpu\n", f"Version: {version}\n".encode())
    tags = "-".join(path.name[: -len(".whl")].split("-")[-3:])
    files.update({f"{info}/METADATA": metadata, f"{info}/WHEEL": wheel_file([tags], pure=False)})
    write_wheel(path, files, info, 315532800)
    outcome = farm("check", "--json", str(path))
    (result,) = outcome.json()["wheels"]
    assert outcome.code == (0 if result["ok"] else 6)
    return list(result["findings"])


def test_the_whole_wheel_packed_again_passes(whole: Path, tmp_path: Path) -> None:
    assert broken(whole, tmp_path, lambda files: None) == []


def test_a_tag_that_promises_an_older_glibc(whole: Path, tmp_path: Path) -> None:
    name = f"mamba_ssm-2.4.0+cpu-py3-none-manylinux_2_5_{MACHINE}.whl"
    found = broken(whole, tmp_path, lambda files: None, name)
    assert any("needs glibc 2." in finding for finding in found)
    assert any("auditwheel's verdict is" in finding for finding in found)
    assert {finding.split(":")[0] for finding in found} == {"FARM_GLIBC"}


def test_a_tag_of_another_machine(whole: Path, tmp_path: Path) -> None:
    other = "aarch64" if MACHINE == "x86_64" else "x86_64"
    found = broken(whole, tmp_path, lambda files: None, whole.name.replace(MACHINE, other))
    assert f"FARM_MACHINE: `{NATIVE}libmamba_cpu.so` is for {MACHINE}" in "\n".join(found)


def test_a_binding_under_the_name_of_the_other_abi(whole: Path, tmp_path: Path) -> None:
    def swap(files: Files) -> None:
        old, new = NATIVE + "binding_torch2.6_abi0.so", NATIVE + "binding_torch2.6_abi1.so"
        files[old], files[new] = files[new], files[old]

    found = broken(whole, tmp_path, swap)
    assert [finding.split(":")[0] for finding in found] == ["FARM_WRONG_ABI_LABEL"] * 2


def test_a_library_that_the_table_does_not_know_and_one_that_is_gone(whole: Path, tmp_path: Path) -> None:
    def lose(files: Files) -> None:
        del files[NATIVE + "binding_torch2.6_abi0.so"]

    assert [finding.split(":")[0] for finding in broken(whole, tmp_path, lose)] == ["FARM_TABLE"]

    def add(files: Files) -> None:
        files[NATIVE + "libextra.so"] = files[NATIVE + "libmamba_cpu.so"]

    assert [finding.split(":")[0] for finding in broken(whole, tmp_path, add)] == ["FARM_TABLE"]


def test_a_cuda_label_on_kernels_without_device_code(whole: Path, tmp_path: Path) -> None:
    def claim(files: Files) -> None:
        table = json.loads(files[TABLE])
        table["cuda"] = {"file": "libmamba_cuda.so", "toolkit": "13.0", "archs": ["8.0"], "minimum_driver": None}
        files[TABLE] = json.dumps(table).encode()
        files[NATIVE + "libmamba_cuda.so"] = files[NATIVE + "libmamba_cpu.so"]

    found = broken(whole, tmp_path, claim, whole.name.replace("+cpu", "+cu13"))
    assert "FARM_NO_DEVICE_CODE: `libmamba_cuda.so` holds no device code" in found


def test_a_library_that_needs_what_not_every_machine_has(whole: Path, tmp_path: Path) -> None:
    stub = tmp_path / "libcudart.so.13"
    library = tmp_path / "libmamba_cpu.so"
    for command in (
        ["gcc", "-shared", "-x", "c", "/dev/null", "-o", str(stub), "-Wl,-soname,libcudart.so.13"],
        ["gcc", "-shared", "-x", "c", "/dev/null", "-x", "none", "-Wl,--no-as-needed", str(stub), "-o", str(library)],
    ):
        subprocess.run(command, check=True)

    def link(files: Files) -> None:
        files[NATIVE + "libmamba_cpu.so"] = library.read_bytes()

    found = broken(whole, tmp_path, link)
    assert any(finding.startswith("FARM_BUNDLED_LIB") and "needs `libcudart.so.13`" in finding for finding in found)


@pytest.mark.parametrize("cut", [0.3, 0.9, 0.999])
def test_a_truncated_wheel(whole: Path, tmp_path: Path, cut: float) -> None:
    path = tmp_path / whole.name
    data = whole.read_bytes()
    path.write_bytes(data[: int(len(data) * cut)])
    outcome = farm("check", str(path))
    assert outcome.code == 6
    assert "FARM_ARCHIVE: not a whole zip archive" in outcome.stderr and "Traceback" not in outcome.stderr
    assert farm("index", str(tmp_path)).code == 6
    assert not (tmp_path / "simple").exists()

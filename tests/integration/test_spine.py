"""The whole way with the wheels that were just built: a row, its wheel, the index, and an installer that decides by them."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from farm.cuobjdump import find_cuobjdump
from farm.toolchains import find_system_toolchain

ROOT = Path(__file__).resolve().parents[2]
CLASSIC = "mamba_ssm-torch2.13-cu130-cp311-abi1-x86_64"

toolchain = find_system_toolchain()
needs_cuda_13 = pytest.mark.skipif(
    toolchain is None or toolchain.version != "13.0",
    reason="classic cu130 wheels are compiled by the nvcc of CUDA 13.0",
)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=900)


@pytest.fixture(scope="session")
def classic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("classic")
    built = run("farm", "build", "--only", CLASSIC, "--archs", "8.0;9.0", "--output", str(folder))
    assert built.returncode == 0, built.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


@needs_cuda_13
def test_a_classic_wheel_holds_exactly_the_cubins_that_were_asked_for(classic: Path, tmp_path: Path) -> None:
    cuobjdump = find_cuobjdump()
    assert cuobjdump is not None, "nvidia-cuda-cuobjdump is among the test requirements"
    with zipfile.ZipFile(classic) as archive:
        library = archive.extract("mamba_ssm/_native/libmamba_cuda.so", tmp_path)
    listed = subprocess.run([str(cuobjdump), "--list-elf", library], capture_output=True, text=True, check=True).stdout
    cubins = sorted(line.split(".")[-2] for line in listed.splitlines() if ".cubin" in line)
    assert cubins == ["sm_80", "sm_80", "sm_90", "sm_90"]  # one per op
    ptx = subprocess.run([str(cuobjdump), "--list-ptx", library], capture_output=True, text=True).stdout
    assert ".ptx" not in ptx


@needs_cuda_13
def test_its_metadata_pins_torch_and_agrees_with_its_name(classic: Path) -> None:
    with zipfile.ZipFile(classic) as archive:
        (name,) = [each for each in archive.namelist() if each.endswith(".dist-info/METADATA")]
        metadata = Parser().parsestr(archive.read(name).decode("utf-8"))
        table = json.loads(archive.read("mamba_ssm/_native/bindings.json"))
    assert metadata["Version"] == classic.name.split("-")[1]
    assert metadata["Version"].endswith("+cu130torch2.13cxx11abiTRUE")
    assert metadata.get_all("Requires-Dist") == ["torch==2.13.*"]
    assert table["cuda"]["archs"] == ["8.0", "9.0"]
    assert run("farm", "check", str(classic)).returncode == 0


def test_an_environment_that_nothing_fits_gets_the_nearest_wheels_and_one_command(
    wheelhouse: Path, tmp_path: Path
) -> None:
    facts = tmp_path / "facts.json"
    environment = {
        "python": "3.11",
        "torch": "2.13.0+cpu",
        "torch_cuda": None,
        "cxx11abi": True,
        "platform": "linux",
        "machine": "aarch64",
        "glibc": "2.36",
    }
    facts.write_text(json.dumps(environment), encoding="utf-8")
    told = run(
        "mamba_install", "--index", str(wheelhouse / "simple"), "--environment", str(facts), "--json", "--dry-run"
    )
    assert told.returncode == 3, told.stderr
    answer = json.loads(told.stdout)
    assert answer["outcome"] == "diagnosis"
    assert answer["code"] == "MACHINE_MISMATCH"
    assert answer["wheel"] is None
    assert answer["command"]
    assert answer["rejected"]
    assert all(each["reason"] for each in answer["rejected"])

"""Which binding serves a torch, and what is said where nothing can be loaded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import mamba_ssm
from mamba_ssm._native import TorchBuild, choose_binding, load

CLASSIC = [
    {"file": f"binding_torch{minor}_abi{abi}.so", "kind": "classic", "torch": minor, "cxx11abi": bool(abi)}
    for minor, abi in (("1.13", 0), ("2.6", 0), ("2.6", 1), ("2.8", 1))
]
STABLE = {"file": "binding_stable.so", "kind": "stable", "torch_floor": "2.9", "torch_tested": "2.14"}
TABLE: list[dict[str, Any]] = [*CLASSIC, STABLE]


@pytest.mark.parametrize(
    "version, abi, file",
    [
        ("1.13.1", False, "binding_torch1.13_abi0.so"),
        ("1.13.1+cu117", False, "binding_torch1.13_abi0.so"),
        ("2.6.0", False, "binding_torch2.6_abi0.so"),
        ("2.6.0+cu124", False, "binding_torch2.6_abi0.so"),
        ("2.6.0+cu126", True, "binding_torch2.6_abi1.so"),
        ("2.6.0+cpu.cxx11.abi", True, "binding_torch2.6_abi1.so"),
        ("2.8.0+rocm6.4", True, "binding_torch2.8_abi1.so"),
        ("2.9.0", True, "binding_stable.so"),
        ("2.13.0+cpu", True, "binding_stable.so"),
        ("2.14.1+cu130", True, "binding_stable.so"),
        ("2.15.0", True, "binding_stable.so"),
        ("3.0.0", True, "binding_stable.so"),
        ("2.10.0a0+b558c98", True, "binding_stable.so"),
        ("2.11.0.dev20260101+cu130", True, "binding_stable.so"),
        ("2.10.0+mybuild", True, "binding_stable.so"),
        # no binding of their own, and below the stable floor
        ("2.5.1", False, None),
        ("2.8.0", False, None),
        ("1.12.1", False, None),
        # somebody's own builds of a minor that a classic binding serves
        ("2.6.0a0+ecf3bae40a.nv25.01", True, None),
        ("2.8.0+gitabc", True, None),
        ("2.8.0rc1", True, None),
        # a pre-release of the floor may lack what the floor has
        ("2.9.0a0+145a3a7bda.nv25.10", True, None),
        ("unknown", True, None),
    ],
)
def test_choice(version: str, abi: bool, file: str | None) -> None:
    choice = choose_binding(TABLE, TorchBuild(version, abi))
    assert choice.file == file
    assert choice.reason


def test_the_order_of_the_table_is_of_no_matter() -> None:
    build = TorchBuild("2.6.0", False)
    assert choose_binding(TABLE[::-1], build).file == choose_binding(TABLE, build).file


def test_reasons() -> None:
    assert choose_binding(TABLE, TorchBuild("2.5.1", False)).reason == (
        "no binding for torch 2.5.1 (C++11 ABI no); this installation serves: 1.13 (C++11 ABI no), "
        "2.6 (C++11 ABI no), 2.6 (C++11 ABI yes), 2.8 (C++11 ABI yes), 2.9 and newer"
    )
    vendor = choose_binding(TABLE, TorchBuild("2.6.0a0+ecf3bae40a.nv25.01", True)).reason
    assert "not a release of the PyTorch project" in vendor
    assert choose_binding([], TorchBuild("2.6.0", False)).reason.endswith("serves: none")


def test_notes() -> None:
    assert choose_binding(TABLE, TorchBuild("2.14.1", True)).note is None
    assert "newer than the newest" in (choose_binding(TABLE, TorchBuild("2.15.0", True)).note or "")
    assert "not a release" in (choose_binding(TABLE, TorchBuild("2.11.0.dev20260101", True)).note or "")
    unrun = [{**entry, "not_run": True} for entry in CLASSIC]
    assert "without having been run" in (choose_binding(unrun, TorchBuild("2.8.0", True)).note or "")
    assert choose_binding(CLASSIC, TorchBuild("2.8.0", True)).note is None


def write(folder: Path, **changes: Any) -> Path:
    table = {"format": 1, "kernels_abi": 1, "cpu": None, "cuda": None, "bindings": [], **changes}
    (folder / "bindings.json").write_text(json.dumps(table), encoding="utf-8")
    return folder


def any_torch(file: str) -> list[dict[str, Any]]:
    return [{"file": file, "kind": "stable", "torch_floor": "1.0", "torch_tested": "99.0"}]


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"format": 2}, "a format that this version does not read: 2"),
        ({"kernels_abi": 7}, "speak version 7 of the interface, this version of mamba_ssm speaks 1"),
        ({"bindings": [{"kind": "stable"}]}, "cannot be read: KeyError"),
        ({}, "this installation serves: none"),
    ],
)
def test_an_unusable_table(changes: dict[str, Any], words: str, tmp_path: Path) -> None:
    loaded = load(write(tmp_path, **changes))
    assert loaded.binding is None
    assert words in loaded.reason
    assert not loaded.serves("cpu")
    assert loaded.why_not("cpu") == loaded.reason


def test_no_folder_and_no_json(tmp_path: Path) -> None:
    assert "no native library" in load(tmp_path / "missing").reason
    (tmp_path / "bindings.json").write_text("{", encoding="utf-8")
    assert "cannot be read: JSONDecodeError" in load(tmp_path).reason


IMPORT = """
import json, mamba_ssm, torch
mamba_ssm.Mamba(16)(torch.randn(1, 5, 16)).sum().backward()
print(json.dumps(mamba_ssm.backend_info().as_dict()))
"""


def in_a_new_process(folder: Path, code: str = IMPORT, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "MAMBA_SSM_NATIVE_DIR": str(folder), "MAMBA_SSM_BACKEND": "", **variables}
    environment["PYTHONPATH"] = str(Path(mamba_ssm.__file__).parents[1])
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)


def test_import_without_native_code(tmp_path: Path) -> None:
    done = in_a_new_process(tmp_path)
    assert done.returncode == 0, done.stderr
    info = json.loads(done.stdout)
    assert info["backends"] == {"cpu": "reference", "cuda": "reference"}
    assert "no native library" in info["reasons"]["cpu"]


def test_a_library_that_cannot_be_loaded_keeps_the_loaders_words(tmp_path: Path) -> None:
    (tmp_path / "broken.so").write_bytes(b"not a library")
    write(tmp_path, cpu={"file": "absent.so"}, bindings=any_torch("broken.so"))
    done = in_a_new_process(tmp_path)
    assert done.returncode == 0, done.stderr
    info = json.loads(done.stdout)
    assert info["binding"] is None
    assert "`broken.so` cannot be loaded: " in info["binding_reason"]
    assert "broken.so: " in info["binding_reason"]


def test_kernels_of_another_version(tmp_path: Path) -> None:
    write(tmp_path, kernels_abi=2, bindings=any_torch("binding.so"))
    done = in_a_new_process(tmp_path, "import mamba_ssm; print(mamba_ssm.backend_info())")
    assert "speak version 2 of the interface" in done.stdout


def test_a_forced_backend_without_native_code(tmp_path: Path) -> None:
    done = in_a_new_process(tmp_path, MAMBA_SSM_BACKEND="cpu")
    assert done.returncode != 0
    assert "MAMBA_SSM_BACKEND=cpu, but it cannot serve mamba_inner_fn: this installation has no native" in done.stderr
    assert done.stderr.strip().splitlines()[-1].startswith("hint: ")

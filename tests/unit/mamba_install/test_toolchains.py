"""The compilers of a source build are found by files alone."""

from __future__ import annotations

from pathlib import Path
from typing import Dict, Optional

import pytest

from mamba_install import toolchains


@pytest.mark.parametrize(
    ("name", "text", "version"),
    [
        ("version.json", '{"cuda": {"version": "12.4.1"}, "cuda_nvcc": {"version": "12.4.131"}}', "12.4"),
        ("version.json", "[]", None),
        ("version.json", "{", None),
        ("version.json", '{"cuda": {"version": 12}}', None),
        ("version.txt", "CUDA Version 11.8.0\n", "11.8"),
        ("include/cuda.h", "#define CUDA_VERSION 12090\n", "12.9"),
        ("targets/sbsa-linux/include/cuda.h", "#define CUDA_VERSION 13000\n", "13.0"),
        ("include/cuda.h", "nothing", None),
    ],
)
def test_the_version_of_a_toolkit(tmp_path: Path, name: str, text: str, version: Optional[str]) -> None:
    place = tmp_path / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    assert toolchains.toolkit_version(tmp_path) == version


def test_cuda_home_comes_first_and_the_source_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "nvcc").touch()
    (tmp_path / "version.txt").write_text("CUDA Version 12.6.20")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    sources: Dict[str, str] = {}
    assert toolchains.find_nvcc("/nowhere", [], {}, sources) == "12.6"
    assert sources == {"nvcc": str(tmp_path)}


def test_an_nvcc_installed_by_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchains, "_toolkit_roots", lambda prefix: iter(()))
    nvcc = tmp_path / "nvidia" / "cuda_nvcc" / "bin" / "nvcc"
    nvcc.parent.mkdir(parents=True)
    nvcc.touch()
    sources: Dict[str, str] = {}
    assert toolchains.find_nvcc("/nowhere", [str(tmp_path)], {"nvidia-cuda-nvcc-cu12": "12.4.131"}, sources) == "12.4"
    assert toolchains.find_nvcc("/nowhere", [str(tmp_path)], {}, {}) is None


def test_the_compiler_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "x86_64-linux-gnu-g++-12"
    program.touch(0o755)
    program.chmod(0o755)
    (tmp_path / "g++").symlink_to(program)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    sources: Dict[str, str] = {}
    assert toolchains.find_host_compiler(sources) == "12"
    assert sources["gcc"].endswith("g++-12")
    monkeypatch.setenv("CXX", "absent-compiler")
    assert toolchains.find_host_compiler({}) is None


def test_what_kind_of_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLAB_RELEASE_TAG", "release-colab")
    assert "Colab" in toolchains.describe_host()

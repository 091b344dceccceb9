"""A toolkit is believed for what its nvcc says, and a host compiler is refused before nvcc does it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Sequence

import pytest

from farm import toolchains
from farm.errors import BuildError, UsageError
from farm.process import Finished
from tests.unit.farm.samples import CUDA_13, real_facts

VERSION = "Cuda compilation tools, release 13.0, V13.0.88\nBuild cuda_13.0.r13.0/compiler\n"
ARCHS = "compute_75\ncompute_120\ncompute_80\ncompute_103\n"


def toolkit(folder: Path) -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "nvcc").touch(mode=0o755)
    return folder


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Dict[str, str]:
    """What the nvcc of this test says, by option."""
    said = {"--version": VERSION, "--list-gpu-arch": ARCHS, "--dryrun": ""}

    def run(command: Sequence[str], **options: Any) -> Finished:
        return Finished(command, 0, said[command[1]])

    monkeypatch.setattr(toolchains, "run", run)
    return said


def test_the_toolkit_of_cuda_home(tmp_path: Path, answers: Dict[str, str]) -> None:
    found = toolchains.find_system_toolchain({"CUDA_HOME": str(toolkit(tmp_path / "cuda")), "PATH": "/nowhere"})
    assert found is not None
    assert (found.version, found.release, found.archs) == ("13.0", "13.0.88", ("7.5", "8.0", "10.3", "12.0"))
    assert found.nvcc == str(tmp_path / "cuda" / "bin" / "nvcc")


def test_an_nvcc_that_is_a_script_says_where_it_lives(tmp_path: Path, answers: Dict[str, str]) -> None:
    answers["--dryrun"] = f"#$ _HERE_=/x\n#$ TOP={tmp_path}/real/bin/..\n"
    (tmp_path / "real" / "bin").mkdir(parents=True)
    found = toolchains.find_system_toolchain({"PATH": str(toolkit(tmp_path / "script") / "bin")})
    assert found is not None and found.root == str(tmp_path / "real")


def test_a_cuda_home_that_is_none_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="CUDA_HOME has no bin/nvcc"):
        toolchains.find_system_toolchain({"CUDA_HOME": str(tmp_path)})


def test_no_toolkit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchains, "DEFAULT_ROOT", tmp_path)
    assert toolchains.find_toolchains({"PATH": str(tmp_path)}) == ()


@pytest.mark.parametrize("option, said", [("--version", "command not found"), ("--list-gpu-arch", "")])
def test_an_nvcc_that_does_not_answer(tmp_path: Path, answers: Dict[str, str], option: str, said: str) -> None:
    answers[option] = said
    with pytest.raises(BuildError, match="nvcc does not answer as nvcc does"):
        toolchains.find_system_toolchain({"CUDA_HOME": str(toolkit(tmp_path / "cuda"))})


def test_a_host_compiler_that_is_too_new(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchains, "host_compiler_major", lambda: 16)
    with pytest.raises(BuildError, match=r"CUDA 13\.0 takes gcc 15 at most, the host compiler is gcc 16"):
        toolchains.check_host_compiler(CUDA_13, real_facts())
    monkeypatch.setattr(toolchains, "host_compiler_major", lambda: 12)
    toolchains.check_host_compiler(CUDA_13, real_facts())

"""The outermost layer: every error is a sentence and an exit code, never a traceback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from farm import cli
from farm.errors import BuildError
from tests.unit.farm.samples import make_wheel


def fail_with(error: Exception) -> Any:
    def fail(*arguments: object) -> None:
        raise error

    return fail


def test_a_full_disk_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_wheel(tmp_path)
    monkeypatch.setattr(cli, "write_index", fail_with(OSError(28, "No space left on device", "simple/index.html")))
    assert cli.main(["index", str(tmp_path)]) == 8
    said = capsys.readouterr().err
    assert "No space left on device: `simple/index.html`\nhint: " in said


def test_a_broken_nvcc_does_not_stop_builds_for_the_cpu(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "host_compiler_major", lambda: 12)
    monkeypatch.setattr(cli, "find_toolchains", fail_with(BuildError("nvcc does not answer", "reinstall it")))
    monkeypatch.delenv("CUDA_HOME", raising=False)
    builds = cli.read_project().builds
    assert all(build.toolchain is None for build in builds)
    assert "farm: without CUDA: nvcc does not answer\nhint: reinstall it" in capsys.readouterr().err


def test_a_broken_nvcc_that_was_named_stops_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "host_compiler_major", lambda: 12)
    monkeypatch.setattr(cli, "find_toolchains", fail_with(BuildError("nvcc does not answer")))
    monkeypatch.setenv("CUDA_HOME", "/cuda")
    with pytest.raises(BuildError, match="nvcc does not answer"):
        cli.read_project()

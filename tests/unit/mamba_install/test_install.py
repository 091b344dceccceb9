"""Installing with a runner that only pretends: what is asked of pip, what is refused, what is put back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import List, Sequence

import pytest

from mamba_install import install as installing
from mamba_install.environment import Environment, Target
from mamba_install.errors import InstallRefusedError, NothingFitsError, SelfCheckError
from mamba_install.process import Finished
from mamba_install.records import Candidate, CheckedWheel, Download, SelfCheck
from mamba_install.snapshot import find_dist_info, take_snapshot
from mamba_install.wheel_names import WheelName
from tests.unit.mamba_install.wheels import make_wheel, sha256

OK = SelfCheck(True, "fine", {})


def make_target(folder: Path) -> Target:
    site = folder / "lib" / "python3.12" / "site-packages"
    (site / "torch").mkdir(parents=True)
    (site / "torch" / "version.py").write_text("__version__ = '2.8.0+cu128'\ncuda = '12.8'\n")
    (site / "torch-2.8.0.dist-info").mkdir()
    return Target(
        str(folder / "bin" / "python"),
        str(folder),
        str(site),
        str(site),
        (str(site),),
        None,
        True,
        {"pip": "26", "torch": "2.8.0"},
    )


def make_environment(target: Target) -> Environment:
    return Environment(
        python="3.12.1", platform="linux", machine="x86_64", torch="2.8.0+cu128", target=target, probed=True
    )


def make_checked(folder: Path, *requires: str) -> CheckedWheel:
    path = make_wheel(folder)
    download = Download(Candidate(WheelName.parse(path.name), str(path), "here"), path, sha256(path), 1)
    return CheckedWheel(download, requires, None)


def put_distribution(target: Target, version: str) -> None:
    """What an installed mamba_ssm looks like."""
    site = Path(target.purelib)
    info = site / f"mamba_ssm-{version}.dist-info"
    info.mkdir(parents=True)
    (site / "mamba_ssm").mkdir(exist_ok=True)
    (site / "mamba_ssm" / "__init__.py").write_text(version)
    (site / "mamba_ssm" / f"only_in_{version}.py").write_text("")
    rows = [
        "mamba_ssm/__init__.py,,",
        f"mamba_ssm/only_in_{version}.py,,",
        f"{info.name}/RECORD,,",
        "../../../../outside,,",
    ]
    (info / "RECORD").write_text("\n".join(rows))


class Pip:
    """Pretends to be pip: replaces the distribution, or fails, or touches torch."""

    def __init__(self, target: Target, fails: bool = False, touches_torch: bool = False) -> None:
        self.target, self.fails, self.touches_torch = target, fails, touches_torch
        self.commands: List[Sequence[str]] = []

    def __call__(self, command: Sequence[str]) -> Finished:
        self.commands.append(command)
        if self.fails:
            return Finished(1, "", "ERROR: No space left on device\nand more")
        snapshot = take_snapshot(self.target, "mamba-ssm", Path(self.target.prefix) / "pip")
        replace(snapshot, files=()).restore()
        put_distribution(self.target, "2.4.0")
        if self.touches_torch:
            Path(self.target.purelib, "torch", "version.py").write_text("__version__ = '2.9.0'\n")
        return Finished(0, "", "")


def run_install(
    tmp_path: Path, target: Target, pip: Pip, selfcheck: SelfCheck = OK, requires: Sequence[str] = ()
) -> None:
    installing.install(
        make_checked(tmp_path / "wheel", *requires),
        make_environment(target),
        tmp_path,
        prove=lambda: selfcheck,
        run=pip,
        log=lambda text: None,
    )


def test_exactly_this_file_without_its_dependencies(tmp_path: Path) -> None:
    target = make_target(tmp_path / "env")
    pip = Pip(target)
    run_install(tmp_path, target, pip, requires=["torch>=2.0", "ninja; extra == 'build'"])
    (command,) = pip.commands
    assert list(command[:4]) == [target.executable, "-m", "pip", "install"]
    assert {"--no-deps", "--no-index", "--force-reinstall"} < set(command)
    assert command[-1].endswith(".whl")


def test_what_else_the_wheel_requires_comes_first_with_torch_pinned(tmp_path: Path) -> None:
    target = make_target(tmp_path / "env")
    pip = Pip(target)
    run_install(tmp_path, target, pip, requires=["torch>=2.0", "einops>=0.7"])
    first, second = pip.commands
    assert first[-1] == "einops>=0.7"
    constraints = Path(first[list(first).index("--constraint") + 1])
    assert constraints.read_text() == "torch==2.8.0\n"
    assert "--no-deps" in second


def test_a_wheel_that_would_replace_torch_is_refused_before_pip_runs(tmp_path: Path) -> None:
    target = make_target(tmp_path / "env")
    pip = Pip(target)
    with pytest.raises(NothingFitsError) as caught:
        run_install(tmp_path, target, pip, requires=["torch==2.9.*"])
    assert caught.value.code == "WOULD_REPLACE_TORCH"
    assert pip.commands == []


def test_a_failed_self_check_brings_the_previous_version_back(tmp_path: Path) -> None:
    target = make_target(tmp_path / "env")
    (tmp_path / "outside").write_text("mine")
    put_distribution(target, "2.3.0")
    with pytest.raises(SelfCheckError, match=r"self-check failed: gradients differ") as caught:
        run_install(tmp_path, target, Pip(target), SelfCheck(False, "gradients differ", {}))
    assert "2.3.0 is back" in (caught.value.hint or "")
    package = Path(target.purelib, "mamba_ssm")
    assert (package / "__init__.py").read_text() == "2.3.0"
    assert sorted(path.name for path in package.iterdir()) == ["__init__.py", "only_in_2.3.0.py"]
    assert (find_dist_info(target, "mamba_ssm") or Path()).name == "mamba_ssm-2.3.0.dist-info"
    assert (tmp_path / "outside").read_text() == "mine"


@pytest.mark.parametrize("outcome", ["self-check", "interrupt"])
def test_without_a_previous_version_nothing_stays(outcome: str, tmp_path: Path) -> None:
    target = make_target(tmp_path / "env")

    def prove() -> SelfCheck:
        cache = Path(target.purelib, "mamba_ssm", "__pycache__")
        cache.mkdir()
        (cache / "__init__.cpython-312.pyc").write_bytes(b"")
        if outcome == "interrupt":
            raise KeyboardInterrupt
        return SelfCheck(False, "no", {})

    with pytest.raises(KeyboardInterrupt if outcome == "interrupt" else SelfCheckError):
        installing.install(
            make_checked(tmp_path / "wheel"), make_environment(target), tmp_path, prove, Pip(target), lambda text: None
        )
    assert sorted(path.name for path in Path(target.purelib).iterdir()) == ["torch", "torch-2.8.0.dist-info"]


def test_a_torch_that_changed_is_an_error(tmp_path: Path) -> None:
    target = make_target(tmp_path / "env")
    with pytest.raises(SelfCheckError, match="torch changed"):
        run_install(tmp_path, target, Pip(target, touches_torch=True))


def test_a_pip_that_fails_is_told_by_its_first_error(tmp_path: Path) -> None:
    target = make_target(tmp_path / "env")
    with pytest.raises(InstallRefusedError, match="No space left on device") as caught:
        run_install(tmp_path, target, Pip(target, fails=True))
    log = Path((caught.value.hint or "").split("`")[1])
    assert "and more" in log.read_text()
    log.unlink()


def test_a_python_that_belongs_to_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = replace(
        make_target(tmp_path / "env"), externally_managed="/usr/lib/python3.12/EXTERNALLY-MANAGED", virtual=False
    )
    monkeypatch.delenv("PIP_BREAK_SYSTEM_PACKAGES", raising=False)
    with pytest.raises(InstallRefusedError, match="PEP 668") as caught:
        installing.check_target(target)
    assert "-m venv" in (caught.value.hint or "")
    monkeypatch.setenv("PIP_BREAK_SYSTEM_PACKAGES", "1")
    installing.check_target(target)


def test_uv_where_there_is_no_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = replace(make_target(tmp_path / "env"), installed={"torch": "2.8.0"})
    monkeypatch.setattr("shutil.which", lambda name: f"/bin/{name}")
    assert installing.choose_tool(target)[:3] == ("/bin/uv", "pip", "install")
    pip = Pip(target)
    run_install(tmp_path, target, pip)
    assert "--reinstall" in pip.commands[0]
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(InstallRefusedError, match="no pip"):
        installing.choose_tool(target)

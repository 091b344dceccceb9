"""Whole installs into a fresh environment, beside a torch that cannot be imported: if anything did, the test would fail."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import venv
from pathlib import Path
from typing import Any, Dict, Iterator, NamedTuple, Optional

import pytest

from farm.index import write_index
from mamba_install.environment import probe_environment
from tests.unit.mamba_install.wheels import STABLE, UNIVERSAL_CPU, make_wheel

ROOT = Path(__file__).resolve().parents[2]
NEWER = UNIVERSAL_CPU.replace("2.4.0", "2.5.0")


def find_uv() -> Optional[Path]:
    found = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    return Path(found) if found else None


class Outcome(NamedTuple):
    """How the installer ended."""

    code: int
    out: str
    err: str

    @property
    def answer(self) -> Dict[str, Any]:
        answer: Dict[str, Any] = json.loads(self.out)
        return answer


class Place:
    """An environment with pip and a pretended torch 2.13.0+cpu."""

    def __init__(self, folder: Path, with_pip: bool = True) -> None:
        venv.create(folder, with_pip=with_pip, symlinks=True)
        self.folder = folder
        self.python = folder / "bin" / "python"
        (self.site,) = folder.glob("lib/python3*/site-packages")
        (self.site / "torch" / "lib").mkdir(parents=True)
        (self.site / "torch" / "__init__.py").write_text("raise SystemExit('the installer imported torch')\n")
        (self.site / "torch" / "version.py").write_text("__version__ = '2.13.0+cpu'\ncuda = None\nhip = None\n")
        (self.site / "torch" / "lib" / "libc10.so").write_bytes(
            b"_ZN3c105ErrorC1ENS_14SourceLocationENSt7__cxx1112basic_string\0"
        )
        info = self.site / "torch-2.13.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.13.0\n")
        (info / "INSTALLER").write_text("tests\n")

    def run(self, *arguments: str, temporary: Optional[Path] = None, path: Optional[Path] = None) -> Outcome:
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("MAMBA_", "PYTHONPATH"))}
        if temporary is not None:
            environment["TMPDIR"] = str(temporary)
        if path is not None:
            environment["PATH"] = f"{path}{os.pathsep}{environment.get('PATH', '')}"
        command = [sys.executable, "-m", "mamba_install", *arguments, "--python", str(self.python)]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
        return Outcome(done.returncode, done.stdout, done.stderr)

    def state(self) -> Dict[str, bytes]:
        """Every file but byte code."""
        return {
            str(path.relative_to(self.site)): path.read_bytes()
            for path in sorted(self.site.rglob("*"))
            if path.is_file() and path.suffix != ".pyc"
        }


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("environment") / "env")


@pytest.fixture
def clean(place: Place) -> Iterator[Place]:
    before = place.state()
    yield place
    subprocess.run([str(place.python), "-m", "pip", "uninstall", "-qy", "mamba_ssm"], check=True, capture_output=True)
    assert place.state() == before


def test_install_verify_replace_and_undo(clean: Place, tmp_path: Path) -> None:
    """The life of an environment: install, prove, a broken newer version that is undone, a good one that stays."""
    make_wheel(tmp_path / "wheels")
    write_index(tmp_path / "wheels")
    index = str(tmp_path / "wheels" / "simple")
    first = clean.run("install", "--index", index, "--json")
    assert first.code == 0, first.err
    assert first.answer["outcome"] == "wheel"
    assert first.answer["wheel"] == UNIVERSAL_CPU
    assert first.answer["selfcheck"]["ok"] is True
    assert first.answer["torch"] == "2.13.0+cpu"
    verdict = clean.run("verify")
    assert verdict.code == 0
    assert "verdict: ok, 1 checks passed against float64" in verdict.out
    installed = clean.state()

    make_wheel(tmp_path / "broken", NEWER, selfcheck_ok=False)
    broken = clean.run("--index", str(tmp_path / "broken"))
    assert broken.code == 7, broken.err
    assert "2.4.0+cpu is back" in broken.err
    assert clean.state() == installed

    make_wheel(tmp_path / "good", NEWER)
    good = clean.run("--index", str(tmp_path / "good"))
    assert good.code == 0, good.err
    assert "(was 2.4.0+cpu)" in good.out
    assert "torch: 2.13.0+cpu, unchanged" in good.out
    again = clean.run("--index", str(tmp_path / "good"))
    assert again.code == 0, again.err


def test_a_failed_self_check_without_a_previous_version(clean: Place, tmp_path: Path) -> None:
    before = clean.state()
    make_wheel(tmp_path / "wheels", selfcheck_ok=False)
    outcome = clean.run("--index", str(tmp_path / "wheels"), "--json")
    assert outcome.code == 7
    assert "removed again" in outcome.answer["hint"]
    assert clean.state() == before


def test_broken_wheels_leave_nothing(clean: Place, tmp_path: Path) -> None:
    before = clean.state()
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    truncated = make_wheel(tmp_path / "truncated")
    truncated.write_bytes(truncated.read_bytes()[:-200])
    make_wheel(tmp_path / "disagreeing", metadata_version="2.4.0")
    make_wheel(tmp_path / "escaping", files={"../../escaped.py": b""})
    hashed = make_wheel(tmp_path / "hashed")
    write_index(tmp_path / "hashed")
    hashed.write_bytes(hashed.read_bytes() + b"\0")
    for index, what in (
        ("truncated", "no intact zip archive"),
        ("disagreeing", "METADATA says version `2.4.0`, the file name says `2.4.0+cpu`"),
        ("escaping", "outside the environment"),
        ("hashed/simple", "the file's hash is wrong"),
    ):
        outcome = clean.run("--index", str(tmp_path / index), temporary=temporary)
        assert outcome.code == 6, (index, outcome.err)
        assert what in outcome.err
        assert outcome.err.rstrip().splitlines()[-1].startswith("hint: ")
        assert "Traceback" not in outcome.err
    assert clean.state() == before
    assert list(temporary.iterdir()) == []


def test_a_wheel_that_does_not_serve_this_torch_makes_room_for_the_next(clean: Place, tmp_path: Path) -> None:
    """A listing does not say which bindings a wheel holds; the file does."""
    old = {"file": "binding_torch2.6_abi0.so", "kind": "classic", "torch": "2.6", "cxx11abi": False}
    newer = make_wheel(tmp_path / "files", NEWER, rows=[old])
    older = make_wheel(tmp_path / "files", rows=[STABLE])
    listing = tmp_path / "wheels.txt"
    listing.write_text(f"{newer.as_uri()}\n{older.as_uri()}\n")
    outcome = clean.run("--index", str(listing), "--json")
    assert outcome.code == 0, outcome.err
    assert outcome.answer["wheel"] == UNIVERSAL_CPU
    listing.write_text(newer.as_uri())
    outcome = clean.run("--index", str(listing), "--json")
    assert outcome.code == 3
    assert outcome.answer["code"] == "NO_WHEEL_FOR_TORCH"


def test_nothing_fits(clean: Place, tmp_path: Path) -> None:
    make_wheel(
        tmp_path, "mamba_ssm-2.4.0+cu12torch2.8cxx11abiTRUE-cp312-cp312-linux_x86_64.whl", requires=["torch==2.8.*"]
    )
    outcome = clean.run("--index", str(tmp_path))
    assert outcome.code == 3
    assert "code: TORCH_NO_CUDA" in outcome.err
    assert outcome.err.count("try: ") == 1


def test_the_facts_are_read_without_importing_torch(place: Place) -> None:
    start = time.monotonic()
    environment = probe_environment(place.python)
    seconds = time.monotonic() - start
    assert environment.torch == "2.13.0+cpu"
    assert environment.cxx11abi is True
    assert environment.accelerator == "cpu"
    assert environment.target is not None
    assert environment.target.installed["torch"] == "2.13.0"
    assert Path(environment.target.executable) == place.python
    assert seconds < 3, "a probe is a third of a second on an idle machine"


def test_an_interpreter_that_is_none(place: Place, tmp_path: Path) -> None:
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\necho hello\n")
    script.chmod(0o755)
    for python in (tmp_path / "absent", script):
        command = [sys.executable, "-m", "mamba_install", "doctor", "--python", str(python)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 2
        assert "the target interpreter" in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.skipif(find_uv() is None, reason="uv is not beside the interpreter that runs the tests, nor on the PATH")
def test_uv_where_the_environment_has_no_pip(tmp_path: Path) -> None:
    place = Place(tmp_path / "env", with_pip=False)
    before = place.state()
    uv = find_uv()
    assert uv is not None
    make_wheel(tmp_path / "wheels")
    outcome = place.run("--index", str(tmp_path / "wheels"), path=uv.parent)
    assert outcome.code == 0, outcome.err
    assert "uv pip install" in outcome.err
    assert set(before) < set(place.state())
    make_wheel(tmp_path / "broken", NEWER, selfcheck_ok=False)
    installed = place.state()
    assert place.run("--index", str(tmp_path / "broken"), path=uv.parent).code == 7
    assert place.state() == installed

"""The index as real installers see it: pip and uv against a plain web server, each channel giving its one wheel."""

from __future__ import annotations

import functools
import json
import shutil
import sys
import threading
import venv
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Iterator, List

import pytest

from farm.wheel import metadata_file, wheel_file, write_wheel
from tests.integration.farm_runs import CLASSIC_CPU, CPU, Outcome, build, farm, run

REQUESTS: List[str] = []


class Handler(SimpleHTTPRequestHandler):
    """Serves files and remembers what was asked for."""

    def log_request(self, code: Any = "-", size: Any = "-") -> None:
        REQUESTS.append(f"{code} {self.path}")

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@pytest.fixture(scope="module")
def wheelhouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheelhouse")
    build(folder, "--only", CPU, "--only", CLASSIC_CPU)
    outcome = farm("index", str(folder), "--json")
    assert outcome.code == 0, outcome.stderr
    assert outcome.json()["channels"] == ["cpu/torch2.13", "universal/cpu"]
    return folder


@pytest.fixture(scope="module")
def address(wheelhouse: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(wheelhouse)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/simple"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """A fresh environment with a stand-in that is called torch, which is all that an installer looks at."""
    folder = tmp_path / "environment"
    venv.create(folder, with_pip=True)
    stand_in = tmp_path / "torch-2.13.0-py3-none-any.whl"
    info = "torch-2.13.0.dist-info"
    files = {
        "torch/__init__.py": b"",
        f"{info}/METADATA": metadata_file("torch", "2.13.0", "a stand-in", ">=3.9", []),
        f"{info}/WHEEL": wheel_file(["py3-none-any"], pure=True),
    }
    write_wheel(stand_in, files, info, 315532800)
    done = run(str(folder / "bin" / "pip"), "install", "--no-deps", str(stand_in), cwd=tmp_path)
    assert done.code == 0, done.stderr
    return folder


def pip(environment: Path, address: str, *words: str) -> Outcome:
    command = [
        str(environment / "bin" / "python"),
        "-m",
        "pip",
        "install",
        "--no-cache-dir",
        "--index-url",
        address,
        *words,
    ]
    # Nothing that this machine's settings add to an index.
    return run(
        *command,
        cwd=environment,
        extra={"PIP_CONFIG_FILE": "/dev/null", "PIP_FIND_LINKS": "", "PIP_EXTRA_INDEX_URL": ""},
    )


def installed(environment: Path) -> str:
    (folder,) = environment.glob("lib/python3*/site-packages/mamba_ssm-*.dist-info")
    return folder.name


def test_pip_takes_the_universal_wheel_of_its_channel(environment: Path, address: str) -> None:
    REQUESTS.clear()
    outcome = pip(environment, f"{address}/universal/cpu/", "mamba-ssm")
    assert outcome.code == 0, outcome.stderr
    assert installed(environment) == "mamba_ssm-2.4.0+cpu.dist-info"
    assert any(request.endswith(".whl.metadata") for request in REQUESTS), "pip did not use the metadata files"
    assert any("%2Bcpu" in request for request in REQUESTS)


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the classic wheel of this test is for Python 3.11")
def test_pip_takes_the_classic_wheel_of_its_channel(environment: Path, address: str) -> None:
    outcome = pip(environment, f"{address}/cpu/torch2.13/", "mamba-ssm==2.4.0")
    assert outcome.code == 0, outcome.stderr
    assert installed(environment) == "mamba_ssm-2.4.0+cputorch2.13cxx11abiTRUE.dist-info"


def test_uv_takes_it_too(environment: Path, address: str) -> None:
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    assert uv is not None, "the test group installs uv"
    python = str(environment / "bin" / "python")
    command = [uv, "pip", "install", "--no-cache", "--no-config", "--python", python]
    outcome = run(*command, "--default-index", f"{address}/universal/cpu/", "mamba-ssm", cwd=environment)
    assert outcome.code == 0, outcome.stderr
    assert installed(environment) == "mamba_ssm-2.4.0+cpu.dist-info"


def test_a_wheel_changed_after_indexing_is_refused(environment: Path, wheelhouse: Path, address: str) -> None:
    (wheel,) = wheelhouse.glob("*+cpu-py3-*.whl")
    whole = wheel.read_bytes()
    try:
        wheel.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        outcome = pip(environment, f"{address}/universal/cpu/", "mamba-ssm")
    finally:
        wheel.write_bytes(whole)
    assert outcome.code != 0
    assert "DO NOT MATCH THE HASHES" in outcome.stderr
    assert not list(environment.glob("lib/python3*/site-packages/mamba_ssm*"))


def test_the_root_is_no_index_that_could_give_the_wrong_wheel(environment: Path, address: str) -> None:
    outcome = pip(environment, f"{address}/", "mamba-ssm")
    assert outcome.code != 0
    assert "No matching distribution" in outcome.stderr


def test_indexing_again_after_a_wheel_is_gone(wheelhouse: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(wheelhouse, folder)
    for wheel in folder.glob("*torch2.13*.whl"):
        wheel.unlink()
    assert farm("index", str(folder)).code == 0
    assert not (folder / "simple/cpu").exists()
    assert json.loads((folder / "simple/universal/cpu/mamba-ssm/index.json").read_text())["versions"] == ["2.4.0+cpu"]

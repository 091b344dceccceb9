"""The installer against a real HTTP server on loopback: every way in which an index or a download can fail."""

from __future__ import annotations

import contextlib
import functools
import gzip
import http.server
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple

import pytest

from farm.index import write_index
from mamba_install import cli, client
from mamba_install.client import Client
from mamba_install.errors import CheckError, NetworkError
from mamba_install.fetch import fetch
from mamba_install.sources import read_index
from tests.unit.mamba_install.wheels import UNIVERSAL_CPU, make_wheel, sha256

ROOT = Path(__file__).resolve().parents[2]
GARBAGE = b"<html><head><title>Sign in to the network</title></head><body><h1>Welcome</h1></body></html>"


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves a folder, except where the test wants something else for a path."""

    answers: Dict[str, Any]
    requests: List[str]

    def do_GET(self) -> None:
        self.requests.append(self.path)
        answer = self.answers.get(self.path, self.answers.get("*"))
        if isinstance(answer, list):
            answer = answer.pop(0) if answer else None
        if answer is None:
            super().do_GET()
        elif callable(answer):
            answer(self)
        else:
            self.answer(*answer)

    def answer(self, status: int, kind: str, body: bytes, length: int = -1) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body) if length < 0 else length))
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet: what matters is asserted."""


class Server:
    """The address of the server, what it shall answer, and what it was asked."""

    def __init__(self, folder: Path) -> None:
        self.answers: Dict[str, Any] = {}
        self.requests: List[str] = []
        handler = type("TestHandler", (Handler,), {"answers": self.answers, "requests": self.requests})
        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(handler, directory=str(folder)))
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/"
        self.folder = folder


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    folder = tmp_path / "served"
    folder.mkdir()
    one = Server(folder)
    thread = threading.Thread(target=one.http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    yield one
    one.http.shutdown()
    one.http.server_close()
    thread.join()


@pytest.fixture
def patient() -> Tuple[Client, List[float]]:
    """A client whose pauses are only noted."""
    pauses: List[float] = []
    return Client(sleep=pauses.append, read_timeout=0.3), pauses


def test_the_farms_index_by_its_root_a_channel_and_a_project(
    server: Server, patient: Tuple[Client, List[float]]
) -> None:
    wheel = make_wheel(server.folder)
    make_wheel(server.folder, UNIVERSAL_CPU.replace("cpu", "cu13"))
    make_wheel(server.folder, "mamba_ssm-2.4.0+cu128torch2.8cxx11abiTRUE-cp312-cp312-manylinux_2_28_x86_64.whl")
    write_index(server.folder)
    assert len(read_index(server.url + "simple", "mamba_ssm", patient[0])) == 3
    for address in ("simple/universal/cpu", "simple/universal/cpu/", "simple/universal/cpu/mamba-ssm/"):
        (found,) = read_index(server.url + address, "mamba-ssm", patient[0])
        assert found.filename == wheel.name
        assert found.sha256 == sha256(wheel)
    (found,) = read_index(server.url + "simple/universal/cpu/mamba-ssm/index.json", "mamba-ssm", patient[0])
    assert found.size == wheel.stat().st_size
    assert len(read_index(str(server.folder / "simple"), "mamba_ssm", patient[0])) == 3


def test_404_is_final_and_names_the_address(server: Server, patient: Tuple[Client, List[float]]) -> None:
    with pytest.raises(NetworkError, match=r"no index at this address: .*404") as caught:
        read_index(server.url + "absent/", "mamba_ssm", patient[0])
    assert caught.value.hint
    assert patient[1] == []


def test_500_is_tried_again_with_growing_pauses(server: Server, patient: Tuple[Client, List[float]]) -> None:
    server.answers["*"] = (500, "text/plain", b"broken")
    with pytest.raises(NetworkError, match=r"the server failed, 3 attempts: .*500"):
        read_index(server.url, "mamba_ssm", patient[0])
    assert patient[1] == [0.5, 1.0]
    assert len(server.requests) == 3


def test_a_server_that_recovers(server: Server, patient: Tuple[Client, List[float]]) -> None:
    make_wheel(server.folder)
    write_index(server.folder)
    page = "/simple/universal/cpu/mamba-ssm/"
    server.answers[page] = [(503, "text/plain", b""), (429, "text/plain", b"")]
    assert len(read_index(server.url.rstrip("/") + page, "mamba_ssm", patient[0])) == 1
    assert len(patient[1]) == 2


@pytest.mark.parametrize("kind", ["text/html", "application/json", "text/plain"])
def test_html_garbage(kind: str, server: Server, patient: Tuple[Client, List[float]]) -> None:
    server.answers["*"] = (200, kind, GARBAGE)
    with pytest.raises(NetworkError, match="something that is no index") as caught:
        read_index(server.url, "mamba_ssm", patient[0])
    assert "proxy" in (caught.value.hint or "")


def test_access_refused(server: Server, patient: Tuple[Client, List[float]]) -> None:
    server.answers["*"] = (403, "text/plain", b"")
    with pytest.raises(NetworkError, match="refuses access"):
        read_index(server.url, "mamba_ssm", patient[0])


def test_nobody_listens(patient: Tuple[Client, List[float]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(NetworkError, match="connection refused"):
        read_index(f"http://127.0.0.1:{port}/", "mamba_ssm", patient[0])
    assert patient[1] == []


def test_a_server_that_never_answers(server: Server, patient: Tuple[Client, List[float]]) -> None:
    released = threading.Event()
    server.answers["*"] = lambda handler: released.wait(10)
    try:
        with pytest.raises(NetworkError, match="no answer in time, 3 attempts"):
            read_index(server.url, "mamba_ssm", patient[0])
    finally:
        released.set()
    assert patient[1] == [0.5, 1.0]


def candidates(server: Server, client_: Client) -> Any:
    (found,) = read_index(server.url + "simple/", "mamba_ssm", client_)
    return found


def test_downloads_that_are_not_what_the_index_says(
    server: Server, patient: Tuple[Client, List[float]], tmp_path: Path
) -> None:
    wheel = make_wheel(server.folder)
    write_index(server.folder)
    found = candidates(server, patient[0])
    data = wheel.read_bytes()
    work = tmp_path / "work"
    work.mkdir()
    address = "/" + found.location.rpartition("/")[2]
    for answer, error, what in (
        ((200, "application/zip", data[:100], len(data)), CheckError, "truncated"),
        ((200, "application/zip", b"x" + data[1:]), CheckError, "hash is wrong"),
        ((200, "application/zip", GARBAGE), CheckError, "hash is wrong"),
        ((404, "text/plain", b""), NetworkError, "that its server does not have"),
    ):
        server.answers[address] = answer
        with pytest.raises(error, match=what):
            fetch(found, work, patient[0], lambda done, total: None)
        assert list(work.iterdir()) == []
    del server.answers[address]
    assert fetch(found, work, patient[0], lambda done, total: None).path.read_bytes() == data


def trickle(released: threading.Event) -> Any:
    """Headers at once, then a byte now and then: no single read ever takes too long."""

    def answer(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000000")
        handler.end_headers()
        with contextlib.suppress(OSError):
            while not released.wait(0.05):
                handler.wfile.write(b"x")
        handler.close_connection = True

    return answer


def test_a_page_that_trickles_ends_at_the_deadline(server: Server) -> None:
    released = threading.Event()
    server.answers["*"] = trickle(released)
    try:
        with pytest.raises(NetworkError, match=r"did not arrive within 0.3 s") as caught:
            read_index(server.url, "mamba_ssm", Client(page_seconds=0.3))
    finally:
        released.set()
    assert caught.value.hint


def test_a_wheel_that_trickles_is_given_up(server: Server, tmp_path: Path) -> None:
    make_wheel(server.folder)
    write_index(server.folder)
    patient = Client(slow_seconds=0.3)
    found = candidates(server, patient)
    released = threading.Event()
    server.answers["/" + found.location.rpartition("/")[2]] = trickle(released)
    work = tmp_path / "work"
    work.mkdir()
    try:
        with pytest.raises(NetworkError, match="too slow, or stands still") as caught:
            fetch(found, work, patient, lambda done, total: None)
    finally:
        released.set()
    assert caught.value.hint
    assert list(work.iterdir()) == []


def test_a_page_that_unpacks_to_too_much(server: Server, patient: Tuple[Client, List[float]]) -> None:
    packed = gzip.compress(b" " * (client.PAGE_BYTES + 1), 1)

    def bomb(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Encoding", "gzip")
        handler.send_header("Content-Length", str(len(packed)))
        handler.end_headers()
        handler.wfile.write(packed)

    server.answers["*"] = bomb
    with pytest.raises(NetworkError, match="larger than 16 MB") as caught:
        read_index(server.url, "mamba_ssm", patient[0])
    assert caught.value.hint


@pytest.mark.parametrize("page", [{"meta": {"api-version": "99.0"}, "files": []}, {"files": [3, {"filename": 3}]}])
def test_json_that_is_no_index_that_can_be_read(page: Any, server: Server, patient: Tuple[Client, List[float]]) -> None:
    server.answers["*"] = (200, "application/vnd.pypi.simple.v1+json", json.dumps(page).encode())
    with pytest.raises(NetworkError, match="no index that this version can read") as caught:
        read_index(server.url, "mamba_ssm", patient[0])
    assert caught.value.exit_code == 5
    assert caught.value.hint


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "Client", functools.partial(Client, sleep=lambda seconds: None))


FACTS = {
    "python": "3.12",
    "torch": "2.13.0+cpu",
    "cxx11abi": True,
    "platform": "linux",
    "machine": "x86_64",
    "glibc": "2.36",
}


@pytest.mark.usefixtures("quick")
def test_exit_codes_keep_the_network_and_no_such_wheel_apart(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_wheel(server.folder)
    write_index(server.folder)
    facts = tmp_path / "facts.json"
    facts.write_text(json.dumps(FACTS))
    where = ["--environment", str(facts), "--json", "--index"]

    def run(index: str, *more: str) -> Tuple[int, Dict[str, Any]]:
        code = cli.main([*where, index, *more])
        return code, json.loads(capsys.readouterr().out)

    assert run(server.url + "simple/")[0] == 0
    code, answer = run(server.url + "simple/", "--package", "causal_conv1d")
    assert (code, answer["code"]) == (3, "NOT_IN_INDEX")
    code, answer = run(server.url + "absent/")
    assert (code, answer["code"], answer["outcome"]) == (5, "NETWORK", "diagnosis")
    server.answers["*"] = (500, "text/plain", b"")
    assert run(server.url)[0] == 5
    server.answers["*"] = (200, "text/html", GARBAGE)
    assert run(server.url)[0] == 5


def test_ctrl_c_leaves_nothing(server: Server, tmp_path: Path) -> None:
    asked, released = threading.Event(), threading.Event()

    def hang(handler: Handler) -> None:
        asked.set()
        released.wait(30)

    server.answers["*"] = hang
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "mamba_install", "--index", server.url],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(temporary)},
        stderr=subprocess.PIPE,
    )
    try:
        assert asked.wait(20)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    finally:
        released.set()
        process.kill()
    assert process.returncode == 130, err
    assert b"Traceback" not in err
    assert list(temporary.iterdir()) == []


def test_a_probe_that_hangs_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mamba_install import probes

    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\nexec sleep 60\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(probes, "DRIVER_TIMEOUT", 0.2)
    sources: Dict[str, str] = {}
    start = time.monotonic()
    probes.read_gpus(sources)
    assert time.monotonic() - start < 5
    assert sources["gpus"] == "nvidia-smi gave no answer"

"""Copying a wheel: the right bytes under the right name, or nothing."""

from __future__ import annotations

import queue
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Tuple

import pytest
import requests

from mamba_install.client import SLOW_BYTES, Client, in_background
from mamba_install.errors import CheckError, InstallerError, NetworkError, UsageError
from mamba_install.fetch import fetch
from mamba_install.records import Candidate
from mamba_install.wheel_names import WheelName
from tests.unit.mamba_install.wheels import make_wheel, sha256

URL = "https://x.test/wheel"


class Answer:
    """A response as `requests` gives it."""

    def __init__(self, chunks: List[Any], status: int = 200, headers: Optional[Dict[str, str]] = None) -> None:
        self.chunks, self.status_code, self.headers = chunks, status, headers or {}

    def iter_content(self, size: int) -> Iterator[bytes]:
        for chunk in self.chunks:
            if isinstance(chunk, Exception):
                raise chunk
            yield chunk


class Served(Client):
    """A client that serves one answer."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self.answer = answer

    @contextmanager
    def open(self, url: str, accept: str = "*/*") -> Iterator[Any]:
        yield self.answer


def candidate(path: Path, **values: Any) -> Candidate:
    return Candidate(WheelName.parse(path.name), values.pop("location", str(path)), "here", **values)


def silent(done: int, total: Optional[int]) -> None:
    """Progress that nobody looks at."""


def test_a_local_wheel_is_copied_and_hashed(tmp_path: Path) -> None:
    path = make_wheel(tmp_path / "index")
    seen: List[Tuple[int, Optional[int]]] = []
    download = fetch(
        candidate(path, sha256=sha256(path)), tmp_path, Client(), lambda done, total: seen.append((done, total))
    )
    assert download.path.read_bytes() == path.read_bytes()
    assert download.sha256 == sha256(path)
    assert seen[0] == (0, path.stat().st_size)
    assert seen[-1] == (path.stat().st_size, path.stat().st_size)


def test_a_served_wheel(tmp_path: Path) -> None:
    path = make_wheel(tmp_path / "index")
    data = path.read_bytes()
    client = Served(Answer([data[:100], data[100:]], headers={"Content-Length": str(len(data))}))
    download = fetch(candidate(path, location=URL, sha256=sha256(path)), tmp_path, client, silent)
    assert download.size == len(data)


@pytest.mark.parametrize(
    ("answer", "error", "what"),
    [
        (Answer([b"abc"]), CheckError, "hash is wrong"),
        (Answer([b"abc"], headers={"Content-Length": "10"}), CheckError, "truncated"),
        (Answer([b"abc", requests.exceptions.ChunkedEncodingError("gone")]), CheckError, "truncated"),
        (
            Answer([b"abc", requests.exceptions.ConnectionError("IncompleteRead(3 bytes read)")]),
            CheckError,
            "truncated",
        ),
        (Answer([b"abc", requests.exceptions.ConnectionError("reset by peer")]), NetworkError, "broke off"),
        (Answer([], status=404), NetworkError, "that its server does not have"),
        (Answer([b"abc", KeyboardInterrupt()]), KeyboardInterrupt, ""),
    ],
)
def test_what_is_not_right_leaves_nothing(answer: Answer, error: Any, what: str, tmp_path: Path) -> None:
    path = make_wheel(tmp_path / "index")
    work = tmp_path / "work"
    work.mkdir()
    if answer.chunks and isinstance(answer.chunks[-1], KeyboardInterrupt):
        answer.iter_content = _interrupting  # type: ignore[method-assign]
    with pytest.raises(error) as caught:
        fetch(candidate(path, location=URL, sha256="0" * 64), work, Served(answer), silent)
    assert list(work.iterdir()) == []
    if isinstance(caught.value, InstallerError):
        assert what in caught.value.message
        assert caught.value.hint


def _interrupting(size: int) -> Iterator[bytes]:
    yield b"abc"
    raise KeyboardInterrupt


def test_the_size_that_the_index_promised(tmp_path: Path) -> None:
    path = make_wheel(tmp_path / "index")
    for size, what in ((10**6, "truncated"), (5, "size is wrong")):
        with pytest.raises(CheckError, match=what):
            fetch(candidate(path, size=size), tmp_path, Client(), silent)
    assert [one for one in tmp_path.iterdir() if one.is_file()] == []


def test_names_alone_cannot_be_fetched(tmp_path: Path) -> None:
    path = make_wheel(tmp_path)
    with pytest.raises(UsageError, match="names only"):
        fetch(candidate(path, location=None), tmp_path, Client(), silent)
    with pytest.raises(UsageError, match="cannot be read"):
        fetch(candidate(path, location=str(tmp_path / "gone.whl")), tmp_path, Client(), silent)


def test_a_full_disk_is_told_as_one(tmp_path: Path) -> None:
    path = make_wheel(tmp_path / "index")
    data = path.read_bytes()
    work = tmp_path / "work"
    work.mkdir()
    part = work / f"{path.name}.part"
    served = Served(Answer([data], headers={"Content-Length": str(len(data))}))
    for location in (str(path), URL):
        part.symlink_to("/dev/full")
        with pytest.raises(InstallerError, match=r"cannot be written: .*No space left on device") as caught:
            fetch(candidate(path, location=location), work, served, silent)
        assert str(part) in caught.value.message
        assert f"{len(data)} bytes are needed" in caught.value.message
        assert "TMPDIR" in (caught.value.hint or "")
        assert list(work.iterdir()) == []


def test_a_wheel_that_cannot_be_read_is_not_a_full_disk(tmp_path: Path) -> None:
    path = make_wheel(tmp_path / "index")
    gone = candidate(path, location=str(tmp_path))
    with pytest.raises(UsageError, match=r"cannot be read: .*Is a directory"):
        fetch(gone, tmp_path, Client(), silent)


class Endless(Answer):
    """A body that goes on until somebody stops reading, at the latest after a thousand pieces."""

    def __init__(self, **values: Any) -> None:
        super().__init__([], **values)

    def iter_content(self, size: int) -> Iterator[bytes]:
        for _ in range(1000):
            yield b"x" * 100


@pytest.mark.parametrize("how", ["index", "server", "nobody"])
def test_an_endless_body_is_stopped_at_the_first_byte_too_many(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mamba_install.fetch.WHEEL_BYTES", 1000)
    path = make_wheel(tmp_path / "index")
    work = tmp_path / "work"
    work.mkdir()
    answer = Endless(headers={"Content-Length": "1000"} if how == "server" else None)
    seen: List[int] = []
    with pytest.raises(CheckError, match=r"more than .*1000 bytes") as caught:
        fetch(
            candidate(path, location=URL, size=1000 if how == "index" else None),
            work,
            Served(answer),
            lambda done, total: seen.append(done),
        )
    assert caught.value.hint
    assert seen[-1] == 1000
    assert list(work.iterdir()) == []


class Clock:
    """A clock that goes on by so many seconds each time that it is read."""

    def __init__(self, step: float) -> None:
        self.now, self.step = 0.0, step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


def test_a_download_that_hardly_moves_is_given_up(tmp_path: Path) -> None:
    path = make_wheel(tmp_path / "index")
    work = tmp_path / "work"
    work.mkdir()
    for piece, error, what in ((b"x", NetworkError, "too slow"), (b"x" * SLOW_BYTES, CheckError, "hash is wrong")):
        client = Served(Answer([piece] * 100))
        client.clock = Clock(2.0)
        with pytest.raises(error, match=what) as caught:
            fetch(candidate(path, location=URL, sha256="0" * 64), work, client, silent)
        assert caught.value.hint
        assert list(work.iterdir()) == []


def test_a_pause_after_a_quick_start_is_no_stall() -> None:
    """The time runs out while nothing comes; what came before decides."""
    waited = threading.Event()

    def pausing() -> Iterator[bytes]:
        yield b"x"
        waited.wait(20)
        yield b"y"

    def enough() -> bool:
        waited.set()
        return True

    assert list(in_background(pausing(), lambda: 0.01, enough)) == [b"x", b"y"]
    waited.clear()
    with pytest.raises(queue.Empty):
        list(in_background(pausing(), lambda: 0.01))
    waited.set()

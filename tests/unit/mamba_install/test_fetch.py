"""Copying a wheel: the right bytes under the right name, or nothing."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Tuple

import pytest
import requests

from mamba_install.client import Client
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

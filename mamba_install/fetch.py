"""Brings a wheel to this machine: streamed, hashed while it is copied, renamed into place only when it is whole and right."""

from __future__ import annotations

import hashlib
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Callable, Iterable, Iterator, Optional, Tuple

from mamba_install.client import WIRE_CHUNK, Client
from mamba_install.errors import CheckError, InstallerError, InstallRefusedError, NetworkError, UsageError
from mamba_install.records import Candidate, Download

CHUNK = 1 << 20
# the most that is fetched where neither the index nor the server says how large a wheel is
WHEEL_BYTES = 2 << 30
# bytes so far, bytes in all where that is known
Progress = Callable[[int, Optional[int]], None]


def fetch(candidate: Candidate, folder: Path, client: Client, progress: Progress) -> Download:
    """The wheel in `folder`. Whatever goes wrong, nothing of it is left there."""
    location = candidate.location
    if location is None:
        raise UsageError(
            f"the index holds names only, so there is nothing to fetch: `{candidate.source}`",
            "name an index that holds the files; `--dry-run` works with names alone",
        )
    if "://" not in location:
        return _copy(Path(location), candidate, folder, progress)
    items = client.steady(_served(location, candidate, client), location)
    try:
        expected, _ = next(items)
        promised = candidate.size if candidate.size is not None else expected
        chunks = _limited((chunk for _, chunk in items), promised, candidate)
        return _receive(chunks, expected, candidate, folder, progress)
    finally:
        items.close()


def _served(location: str, candidate: Candidate, client: Client) -> Iterator[Tuple[Optional[int], bytes]]:
    """The size as far as it is known, first with nothing, then with each piece of the file."""
    with client.open(location) as response:
        if response.status_code != 200:
            raise NetworkError(
                f"the index lists a wheel that its server does not have: `{location}` ({response.status_code})",
                "the index is out of date: tell whoever runs it, or use another with `--index`",
            )
        encoded = response.headers.get("Content-Encoding", "identity") != "identity"
        length = response.headers.get("Content-Length", "")
        expected = int(length) if length.isdigit() and not encoded else candidate.size
        yield expected, b""
        for chunk in _stream(response.iter_content(WIRE_CHUNK), location):
            if chunk:
                yield expected, chunk


def _stream(chunks: Iterable[bytes], location: str) -> Iterator[bytes]:
    import requests

    try:
        yield from chunks
    except requests.exceptions.ChunkedEncodingError as error:
        raise _truncated(location, "the connection ended before the file did") from error
    except OSError as error:  # the errors of `requests` are of this kind too
        text = " ".join(str(error).split())[:200]
        if "IncompleteRead" in text:
            raise _truncated(location, "the connection ended before the file did") from error
        raise NetworkError(f"the download broke off: `{location}` ({text})", "run the same command again") from error


def _truncated(location: str, why: str) -> CheckError:
    return CheckError(f"the file is truncated: `{location}` ({why})", "run the same command again; nothing was kept")


def _copy(path: Path, candidate: Candidate, folder: Path, progress: Progress) -> Download:
    try:
        with path.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            return _receive(_limited(_blocks(stream, path), size, candidate), size, candidate, folder, progress)
    except OSError as error:
        raise _unreadable(path, error) from error


def _blocks(stream: BinaryIO, path: Path) -> Iterator[bytes]:
    try:
        yield from iter(lambda: stream.read(CHUNK), b"")
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> UsageError:
    return UsageError(f"the wheel cannot be read: `{path}` ({error.strerror})", "is the index newer than its wheels?")


def _unwritable(part: Path, error: OSError, needed: Optional[int]) -> InstallerError:
    size = f"{needed} bytes are needed" if needed is not None else "the size is not known beforehand"
    try:
        free = f", {shutil.disk_usage(part.parent).free} are free there"
    except OSError:
        free = ""
    return InstallRefusedError(
        f"the wheel cannot be written: `{part}` ({error.strerror}; {size}{free})",
        "make room there, or name a folder with more room in TMPDIR; nothing was kept",
    )


def _receive(
    chunks: Iterable[bytes], expected: Optional[int], candidate: Candidate, folder: Path, progress: Progress
) -> Download:
    part = folder / f"{candidate.filename}.part"
    target = folder / candidate.filename
    try:
        with part.open("wb") as out:
            sha256, size = _copy_with_hash(chunks, out, expected, progress)
        _compare(candidate, expected, sha256, size)
        part.replace(target)
    except BaseException as error:
        with suppress(OSError):
            part.unlink()
        if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
            raise _unwritable(part, error, expected) from error
        raise
    return Download(candidate, target, sha256, size)


def _limited(chunks: Iterable[bytes], promised: Optional[int], candidate: Candidate) -> Iterator[bytes]:
    """Stop at the first byte too many, not when the disk is full."""
    limit, size = WHEEL_BYTES if promised is None else promised, 0
    where = candidate.location or candidate.filename
    for chunk in chunks:
        size += len(chunk)
        if size > limit and promised is None:
            raise CheckError(
                f"the file is larger than any wheel should be: `{where}` (more than {limit} bytes, none were promised)",
                "tell whoever runs the index: it should say the size; or fetch the wheel yourself and name its folder",
            )
        if size > limit:
            raise CheckError(
                f"the file's size is wrong: `{where}` (more than the {limit} bytes that were promised)",
                "the file was replaced, or the index is out of date: tell whoever runs it",
            )
        yield chunk


def _copy_with_hash(
    chunks: Iterable[bytes], out: BinaryIO, expected: Optional[int], progress: Progress
) -> Tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    progress(0, expected)
    for chunk in chunks:
        out.write(chunk)
        digest.update(chunk)
        size += len(chunk)
        progress(size, expected)
    return digest.hexdigest(), size


def _compare(candidate: Candidate, expected: Optional[int], sha256: str, size: int) -> None:
    where = candidate.location or candidate.filename
    promised = candidate.size if candidate.size is not None else expected
    if promised is not None and size < promised:
        raise _truncated(where, f"{size} of {promised} bytes")
    if candidate.sha256 is not None and sha256 != candidate.sha256:
        raise CheckError(
            f"the file's hash is wrong: `{where}` (sha256 {sha256}, the index says {candidate.sha256})",
            "the file was damaged or replaced: fetch it again, and if it stays so, tell whoever runs the index",
        )
    if promised is not None and size != promised:
        raise CheckError(
            f"the file's size is wrong: `{where}` ({size} bytes, {promised} were promised)",
            "the index is out of date: tell whoever runs it",
        )

"""A static simple index over a folder of wheels: one channel per kind of wheel, each a whole index of its own.

https://packaging.python.org/en/latest/specifications/simple-repository-api/
"""

from __future__ import annotations

import hashlib
import html
import json
import os
import zipfile
from dataclasses import dataclass
from email.parser import BytesParser
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Tuple
from urllib.parse import quote

from farm.errors import CheckError, UsageError
from farm.wheel import BROKEN_ARCHIVE
from mamba_install.wheel_names import WheelName, WheelNameError

PAGES = "simple"
GENERATOR = "mamba-farm"
_MARKS = (f'<meta name="generator" content="{GENERATOR}">', f'"_generator": "{GENERATOR}"')


@dataclass(frozen=True)
class IndexEntry:
    """One wheel as the index lists it."""

    filename: str
    name: WheelName
    sha256: str
    size: int
    requires_python: Optional[str]
    metadata: bytes

    @property
    def metadata_sha256(self) -> str:
        return hashlib.sha256(self.metadata).hexdigest()


def read_entry(path: Path) -> IndexEntry:
    """Read one wheel; CheckError for one that an installer would refuse."""
    try:
        name = WheelName.parse(path.name)
        digest = hashlib.sha256()
        with path.open("rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
        with zipfile.ZipFile(path) as archive:
            metadata = archive.read(f"{name.distribution}-{name.full_version}.dist-info/METADATA")
    except WheelNameError as error:
        raise CheckError(
            f"cannot be indexed: {error}", "remove it from the folder", [f"FARM_METADATA_VERSION: {error}"]
        ) from error
    except (OSError, *BROKEN_ARCHIVE, KeyError) as error:
        raise CheckError(
            f"cannot be indexed: `{path.name}` ({error})",
            f"python -m farm check {path.name} says more",
            [f"FARM_ARCHIVE: {error}"],
        ) from error
    parsed = BytesParser().parsebytes(metadata, headersonly=True)
    if parsed["Version"] != name.full_version:
        raise CheckError(
            f"cannot be indexed: `{path.name}` says version {parsed['Version']} in its METADATA",
            "installers refuse such a wheel: build it again",
            [f"FARM_METADATA_VERSION: {path.name}"],
        )
    return IndexEntry(path.name, name, digest.hexdigest(), path.stat().st_size, parsed["Requires-Python"], metadata)


def channel_of(name: WheelName) -> Optional[str]:
    """The channel that a wheel belongs to; None for one without a label, which belongs to all."""
    label = name.label
    if label is None:
        return None
    return f"universal/{label.accelerator}" if label.torch is None else f"{label.accelerator}/torch{label.torch}"


def lay_out(entries: Sequence[IndexEntry]) -> Dict[str, str]:
    """Every page by its path below the folder of pages. A pure function of the entries."""
    channels: Dict[str, List[IndexEntry]] = {}
    shared = [entry for entry in entries if channel_of(entry.name) is None and entry.name.platform == "any"]
    for entry in entries:
        channel = channel_of(entry.name)
        if channel is not None:
            channels.setdefault(channel, []).append(entry)
    pages = {"index.html": _root_page(sorted(channels))}
    for channel, members in channels.items():
        projects: Dict[str, List[IndexEntry]] = {}
        for entry in [*members, *shared]:
            projects.setdefault(entry.name.canonical_name, []).append(entry)
        names = sorted(projects)
        pages[f"{channel}/index.html"] = _page("Simple index", [f'<a href="{name}/">{name}</a><br>' for name in names])
        pages[f"{channel}/index.json"] = _json({"projects": [{"name": name} for name in names]})
        for name in names:
            listed = sorted(projects[name], key=lambda entry: entry.filename)
            up = "../" * (channel.count("/") + 3)
            pages[f"{channel}/{name}/index.html"] = _page(f"Links for {name}", [_anchor(entry, up) for entry in listed])
            pages[f"{channel}/{name}/index.json"] = _project_json(name, listed, up)
    return pages


def _root_page(channels: Sequence[str]) -> str:
    # Not an index itself: a page with wheels for several torches would give an installer the wrong one.
    lines = ["<p>Channels; each is an index. python -m mamba_install --index THIS-ADDRESS finds the right one.</p>"]
    return _page("Channels", lines + [f'<a href="{channel}/">{channel}</a><br>' for channel in channels])


def _page(title: str, body: Sequence[str]) -> str:
    head = (
        '<meta charset="utf-8">',
        '<meta name="pypi:repository-version" content="1.1">',
        f'<meta name="generator" content="{GENERATOR}">',
        f"<title>{html.escape(title)}</title>",
    )
    return "\n".join(
        ["<!DOCTYPE html>", "<html>", "<head>", *head, "</head>", "<body>", *body, "</body>", "</html>", ""]
    )


def _url(entry: IndexEntry, up: str) -> str:
    return up + quote(entry.filename, safe="")


def _anchor(entry: IndexEntry, up: str) -> str:
    digest = f"sha256={entry.metadata_sha256}"
    attributes = f' data-core-metadata="{digest}" data-dist-info-metadata="{digest}"'
    if entry.requires_python:
        attributes += f' data-requires-python="{html.escape(entry.requires_python)}"'
    return f'<a href="{_url(entry, up)}#sha256={entry.sha256}"{attributes}>{html.escape(entry.filename)}</a><br>'


def _project_json(name: str, entries: Sequence[IndexEntry], up: str) -> str:
    files = []
    for entry in entries:
        metadata = {"sha256": entry.metadata_sha256}
        file = {
            "filename": entry.filename,
            "url": _url(entry, up),
            "hashes": {"sha256": entry.sha256},
            "size": entry.size,
            "core-metadata": metadata,
            "dist-info-metadata": metadata,
        }
        if entry.requires_python:
            file["requires-python"] = entry.requires_python
        files.append(file)
    versions = sorted({entry.name.full_version for entry in entries})
    return _json({"name": name, "versions": versions, "files": files})


def _json(content: Dict[str, object]) -> str:
    meta = {"api-version": "1.1", "_generator": GENERATOR}
    return json.dumps({"meta": meta, **content}, indent=1, sort_keys=True) + "\n"


def write_index(folder: Path) -> Tuple[IndexEntry, ...]:
    """Index a folder of wheels: metadata files beside them, pages below `simple`, stale ones of ours removed last."""
    if not folder.is_dir():
        raise UsageError(f"there is no such folder: `{folder}`", "give the folder that `python -m farm build` wrote to")
    wheels = sorted(folder.glob("*.whl"))
    if not wheels:
        raise UsageError(f"there are no wheels in `{folder}`", f"python -m farm build --output {folder}")
    entries = tuple(read_entry(path) for path in wheels)
    for entry in entries:
        _write(folder / f"{entry.filename}.metadata", entry.metadata)
    pages = lay_out(entries)
    # From the leaves to the root, so that no page points to one that is not there yet.
    for path in sorted(pages, key=lambda path: (-path.count("/"), path)):
        _write(folder / PAGES / path, pages[path].encode("utf-8"))
    _prune(folder, {entry.filename for entry in entries}, set(pages))
    return entries


def _write(path: Path, data: bytes) -> None:
    if path.is_file() and path.read_bytes() == data:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _prune(folder: Path, filenames: set[str], pages: set[str]) -> None:
    """Remove what an earlier index left: metadata of wheels that are gone, and pages that carry our mark."""
    for path in folder.glob("*.whl.metadata"):
        if path.name[: -len(".metadata")] not in filenames:
            path.unlink()
    root = folder / PAGES
    for path in sorted(root.rglob("index.*"), reverse=True):
        if path.relative_to(root).as_posix() not in pages and _is_ours(path):
            path.unlink()
    for path in sorted(root.rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink() and not any(path.iterdir()):
            path.rmdir()


def _is_ours(path: Path) -> bool:
    if path.is_symlink() or path.name not in ("index.html", "index.json"):
        return False
    text = path.read_text(encoding="utf-8", errors="replace")
    return any(mark in text for mark in _MARKS)

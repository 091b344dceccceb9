"""What of a distribution stands in an environment, kept aside so that a failed install can be undone without a network."""

from __future__ import annotations

import csv
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator, Optional, Tuple

from packaging.utils import canonicalize_name

from mamba_install.environment import Target


@dataclass(frozen=True)
class Snapshot:
    """`files` are (where it belongs, where it is kept); empty where nothing was installed."""

    distribution: str
    target: Target
    version: Optional[str]
    files: Tuple[Tuple[Path, Path], ...]

    def restore(self) -> None:
        """Remove what is installed now and put back what was there."""
        remove_distribution(self.target, self.distribution)
        for place, kept in self.files:
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(kept, place)


def take_snapshot(target: Target, distribution: str, folder: Path) -> Snapshot:
    """Copy the files of the installed distribution, if there is one, into `folder`."""
    info = find_dist_info(target, distribution)
    if info is None:
        return Snapshot(distribution, target, None, ())
    files = []
    for number, place in enumerate(recorded_files(target, info)):
        if place.is_file():
            kept = folder / str(number)
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy2(place, kept)
            files.append((place, kept))
    return Snapshot(distribution, target, info.name[: -len(".dist-info")].partition("-")[2], tuple(files))


def find_dist_info(target: Target, distribution: str) -> Optional[Path]:
    """The metadata folder that an import would find first."""
    for site in target.site_packages:
        for info in sorted(Path(site).glob("*.dist-info")):
            if canonicalize_name(info.name.partition("-")[0]) == canonicalize_name(distribution):
                return info
    return None


def recorded_files(target: Target, info: Path) -> Iterator[Path]:
    """The files of RECORD that lie inside the environment; a damaged RECORD must not lead out of it."""
    inside = [os.path.realpath(target.prefix) + os.sep, os.path.realpath(info.parent) + os.sep]
    try:
        rows = list(csv.reader((info / "RECORD").read_text(encoding="utf-8", errors="replace").splitlines()))
    except (OSError, csv.Error):
        rows = []
    for row in rows:
        if row and row[0]:
            place = os.path.realpath(info.parent / row[0])
            if any(place.startswith(folder) for folder in inside):
                yield Path(place)


def remove_distribution(target: Target, distribution: str) -> None:
    """Remove an installed distribution's files, the byte code made of them, and the folders left empty."""
    info = find_dist_info(target, distribution)
    if info is None:
        return
    folders = {info}
    for place in list(recorded_files(target, info)):
        place.unlink(missing_ok=True)
        folders.add(place.parent)
        if place.suffix == ".py":
            cache = place.parent / "__pycache__"
            folders.add(cache)
            for compiled in cache.glob(f"{place.stem}.*.pyc"):
                compiled.unlink()
    shutil.rmtree(info, ignore_errors=True)
    site = info.parent
    for folder in sorted(folders, key=lambda path: len(path.parts), reverse=True):
        _prune(folder, site)


def _prune(folder: Path, site: Path) -> None:
    while site in folder.parents:
        try:
            folder.rmdir()
        except OSError:
            if folder.exists():
                return
        folder = folder.parent

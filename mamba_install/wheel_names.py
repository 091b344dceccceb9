"""What a wheel's file name says: distribution, version, and the CUDA, torch and C++ ABI of its local version label.

The builder writes names with this module and the installer reads them with it, so that the two cannot disagree.
Format of the file name: https://packaging.python.org/en/latest/specifications/binary-distribution-format/
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Optional

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

_CLASSIC = re.compile(
    r"(?P<accelerator>cpu|cu\d{2,3}|hip\d+)torch(?P<torch>\d+\.\d+)cxx11abi(?P<abi>true|false)", re.IGNORECASE
)
# the parser of `packaging` lets any character into build and platform tags; a name becomes a path, so these may not
_FILENAME = re.compile(r"[A-Za-z0-9_.+!-]{1,250}")
_UNIVERSAL = re.compile(r"cpu|cu\d{2}", re.IGNORECASE)


# an index repeats a few distributions and versions a thousand times
@lru_cache(maxsize=4096)
def parse_version(text: str) -> Version:
    return Version(text)


@lru_cache(maxsize=4096)
def _canonical(distribution: str) -> str:
    return str(canonicalize_name(distribution))


class WheelNameError(ValueError):
    """A file name that is not a wheel's."""


@dataclass(frozen=True)
class Label:
    """What a wheel was built for, as its local version says it.

    `accelerator` is `cpu`, `cuNN`/`cuNNN` or `hipNN`; `torch` is `MAJOR.MINOR` for a classic wheel and None for a
    universal one, which serves many.
    """

    accelerator: str
    torch: Optional[str] = None
    cxx11abi: Optional[bool] = None

    def __post_init__(self) -> None:
        if (self.torch is None) != (self.cxx11abi is None):
            raise ValueError("torch and cxx11abi come together")

    @property
    def kind(self) -> str:
        return "universal" if self.torch is None else "classic"

    def __str__(self) -> str:
        if self.torch is None:
            return self.accelerator
        return f"{self.accelerator}torch{self.torch}cxx11abi{'TRUE' if self.cxx11abi else 'FALSE'}"

    @classmethod
    def parse(cls, local: str) -> Optional[Label]:
        """Read a local version label; None when it follows neither convention."""
        classic = _CLASSIC.fullmatch(local)
        if classic:
            return cls(classic["accelerator"].lower(), classic["torch"], classic["abi"].lower() == "true")
        if _UNIVERSAL.fullmatch(local):
            return cls(local.lower())
        return None


@dataclass(frozen=True)
class WheelName:
    """A wheel's file name, taken apart. `tags` are `python-abi-platform` strings with compressed sets kept as written."""

    distribution: str
    version: str
    local: Optional[str]
    label: Optional[Label]
    python: str
    abi: str
    platform: str
    build: Optional[str] = None

    @property
    def full_version(self) -> str:
        return self.version if self.local is None else f"{self.version}+{self.local}"

    @property
    def filename(self) -> str:
        parts = [self.distribution, self.full_version]
        if self.build:
            parts.append(self.build)
        return "-".join([*parts, self.python, self.abi, self.platform]) + ".whl"

    @classmethod
    def of(
        cls, distribution: str, version: str, label: Optional[Label], python: str, abi: str, platform: str
    ) -> WheelName:
        """The name of a wheel that is about to be written."""
        local = None if label is None else str(label)
        return cls(distribution.replace("-", "_"), version, local, label, python, abi, platform)

    @classmethod
    def parse(cls, filename: str) -> WheelName:
        """Read a file name. Raises WheelNameError when it is not a valid wheel name."""
        if not _FILENAME.fullmatch(filename):
            raise WheelNameError(f"not a wheel's file name: `{filename[:300]}` (a character or a length that none has)")
        try:
            parse_wheel_filename(filename)
        except (InvalidWheelFilename, InvalidVersion) as error:
            raise WheelNameError(f"not a wheel's file name: `{filename}` ({error})") from error
        parts = filename[: -len(".whl")].split("-")
        build = parts[2] if len(parts) == 6 else None
        version, _, local = parts[1].partition("+")
        return cls(
            distribution=parts[0],
            version=version,
            local=local or None,
            label=Label.parse(local) if local else None,
            python=parts[-3],
            abi=parts[-2],
            platform=parts[-1],
            build=build,
        )

    @property
    def canonical_name(self) -> str:
        return _canonical(self.distribution)

    @property
    def sort_version(self) -> Version:
        """The public version, for ordering; the local part sorts wrongly as text (torch2.10 below torch2.6)."""
        return parse_version(self.version)

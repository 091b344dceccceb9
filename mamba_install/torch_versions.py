"""What a torch version string says: its minor, its CUDA flavour, and whether a release wheel can be meant for it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Optional

from packaging.version import InvalidVersion, Version

# local parts of official wheels; anything else was built by somebody else
_OFFICIAL = re.compile(r"(cpu|xpu|cu\d+|rocm[\d.]+)(\.cxx11\.abi|\.with\.pypi\.cudnn)?")
_VENDOR_RELEASE = re.compile(r"nv(\d{2}\.\d{2})|\(NGC (\d{2}\.\d{2})\)")


@dataclass(frozen=True)
class TorchVersion:
    """`build` is `release`, `prerelease`, `vendor` or `local`; only a release may be spoken of as X.Y."""

    text: str
    version: Version
    build: str
    vendor_release: Optional[str] = None

    @property
    def minor(self) -> str:
        return f"{self.version.major}.{self.version.minor}"

    @property
    def flavour(self) -> Optional[str]:
        """`cpu`, `cu126`, `rocm6.2.4`, `xpu` as the local part says it, or None."""
        local = self.version.local or ""
        official = _OFFICIAL.fullmatch(local)
        return official[1] if official else None

    @classmethod
    def parse(cls, text: str) -> Optional[TorchVersion]:
        """Read `2.6.0+cu124`, `2.5.0a0+e000cf0ad9.nv24.10`, `2.14 nightly`; None when it is no version at all."""
        return _parse(text)


@lru_cache(maxsize=64)
def _parse(text: str) -> Optional[TorchVersion]:
    word, _, rest = text.strip().partition(" ")
    try:
        version = Version(word)
    except InvalidVersion:
        return None
    vendor = _VENDOR_RELEASE.search(text)
    if vendor or "nv" in (version.local or ""):
        return TorchVersion(text, version, "vendor", (vendor[1] or vendor[2]) if vendor else None)
    local = version.local or ""
    if local and not _OFFICIAL.fullmatch(local):
        return TorchVersion(text, version, "local")
    if version.is_prerelease or "nightly" in rest:
        return TorchVersion(text, version, "prerelease")
    return TorchVersion(text, version, "release")


def cuda_of_flavour(flavour: Optional[str]) -> Optional[str]:
    """`cu126` -> `12.6`; None for anything else."""
    match = re.fullmatch(r"cu(\d{2})(\d)", flavour or "")
    return f"{match[1]}.{match[2]}" if match else None

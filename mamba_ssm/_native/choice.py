"""Which binding serves a torch: a pure function of the wheel's table (bindings.json) and of torch's version and ABI."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# Local labels of the releases that the PyTorch project itself publishes: these are its releases. Any other label, such as
# a commit or a vendor's, names another build, whose C++ interface nobody promises to be the release's.
_RELEASE = re.compile(r"^(\d+)\.(\d+)(?:\.\d+)*(?:\.post\d+)?(?:\+(.+))?$")
_OFFICIAL_LABEL = re.compile(r"^(cpu|cpu\.cxx11\.abi|cu\d+(\.cxx11\.abi)?|cu\d+\.with\.pypi\.cudnn|rocm[\d.]+|xpu)$")
_LEADING_MINOR = re.compile(r"^(\d+)\.(\d+)")


@dataclass(frozen=True)
class TorchBuild:
    """The facts about a torch that decide which binding can be loaded into it."""

    version: str  # torch.__version__
    cxx11abi: bool  # torch._C._GLIBCXX_USE_CXX11_ABI

    @property
    def minor(self) -> tuple[int, int] | None:
        """(major, minor), or None where the version does not begin with them."""
        match = _LEADING_MINOR.match(self.version)
        return (int(match.group(1)), int(match.group(2))) if match else None

    @property
    def is_release(self) -> bool:
        """Whether this is a release of the PyTorch project, not a pre-release or somebody's own build."""
        match = _RELEASE.match(self.version)
        return match is not None and (match.group(3) is None or _OFFICIAL_LABEL.match(match.group(3)) is not None)


@dataclass(frozen=True)
class Choice:
    """A binding's file, or None and the reason; `note` is what a user of a chosen binding should know."""

    file: str | None
    reason: str
    note: str | None = None


def choose_binding(bindings: Sequence[Mapping[str, Any]], build: TorchBuild) -> Choice:
    """Choose the one binding that serves `build`. Nothing is ever tried: a wrong binding can end the process."""
    minor = build.minor
    if minor is None:
        return Choice(None, f"the version of torch is not understood: `{build.version}`")
    for entry in bindings:
        if entry["kind"] != "classic" or not build.is_release:
            continue
        if _pair(entry["torch"]) == minor and bool(entry["cxx11abi"]) == build.cxx11abi:
            return Choice(
                entry["file"], f"made for torch {entry['torch']}, C++11 ABI {_yes(build.cxx11abi)}", _not_run(entry)
            )
    for entry in bindings:
        if entry["kind"] == "stable" and _stable_serves(_pair(entry["torch_floor"]), minor, build):
            return Choice(
                entry["file"],
                f"torch's stable interface serves torch {entry['torch_floor']} and newer",
                _newer_than_tested(entry, minor, build),
            )
    return Choice(None, _why_none(bindings, build))


def served_torches(bindings: Sequence[Mapping[str, Any]]) -> str:
    """The torches that a table serves, for people: `2.6 (C++11 ABI no), 2.9 and newer`."""
    texts = []
    for entry in bindings:
        if entry["kind"] == "classic":
            texts.append(f"{entry['torch']} (C++11 ABI {_yes(entry['cxx11abi'])})")
        else:
            texts.append(f"{entry['torch_floor']} and newer")
    return ", ".join(texts) if texts else "none"


def _stable_serves(floor: tuple[int, int], minor: tuple[int, int], build: TorchBuild) -> bool:
    # A pre-release of the floor itself may lack what the release has.
    return minor >= floor if build.is_release else minor > floor


def _newer_than_tested(entry: Mapping[str, Any], minor: tuple[int, int], build: TorchBuild) -> str | None:
    tested = entry.get("torch_tested")
    if not build.is_release:
        return f"torch {build.version} is not a release of the PyTorch project; this binding was not run with it"
    if tested is not None and minor > _pair(tested):
        return f"torch {build.version} is newer than the newest that this binding was run with: {tested}"
    return None


def _not_run(entry: Mapping[str, Any]) -> str | None:
    if not entry.get("not_run"):
        return None
    return (
        "this binding was published without having been run beside its torch; the self-check shows whether it is right"
    )


def _why_none(bindings: Sequence[Mapping[str, Any]], build: TorchBuild) -> str:
    abi = _yes(build.cxx11abi)
    what = f"no binding for torch {build.version} (C++11 ABI {abi})"
    if not build.is_release:
        what += ", which is not a release of the PyTorch project and so is served through the stable interface only"
    return f"{what}; this installation serves: {served_torches(bindings)}"


def _pair(text: str) -> tuple[int, int]:
    major, minor = text.split(".")[:2]
    return int(major), int(minor)


def _yes(value: bool) -> str:
    return "yes" if value else "no"

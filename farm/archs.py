"""GPU architectures in the syntax of TORCH_CUDA_ARCH_LIST: `8.0;9.0+PTX`, separated by semicolons, commas or spaces."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Dict, Iterable, List, Sequence, Tuple

_ARCH = re.compile(r"(\d+)\.(\d)(\+PTX)?")
# sm_90a and the like run on exactly that GPU or family, for instructions that these kernels do not use.
_SPECIFIC = re.compile(r"(\d+\.\d)[af](\+PTX)?")


class ArchError(ValueError):
    """A list of architectures that cannot be read."""


@dataclass(frozen=True)
class Arch:
    """One compute capability: a cubin for it, and PTX for everything newer where `ptx` is set."""

    capability: str  # 9.0
    ptx: bool = False

    @property
    def digits(self) -> str:
        """As nvcc spells it: 90."""
        return self.capability.replace(".", "")

    @property
    def order(self) -> Tuple[int, int]:
        major, minor = self.capability.split(".")
        return int(major), int(minor)

    def __str__(self) -> str:
        return self.capability + ("+PTX" if self.ptx else "")


def parse_archs(text: str) -> Tuple[Arch, ...]:
    """Read a list; sorted and without repetitions, so that equal lists make equal objects."""
    found: List[Arch] = []
    words = [word for word in re.split(r"[;,\s]+", text) if word]
    if not words:
        raise ArchError("the list of architectures is empty")
    for word in words:
        specific = _SPECIFIC.fullmatch(word)
        if specific is not None:
            plain = f"{specific[1]}{specific[2] or ''}"
            raise ArchError(f"the kernels use nothing that only `{word}` has, and less would run it: write `{plain}`")
        match = _ARCH.fullmatch(word)
        if match is None:
            named = (
                " (names such as `Ampere` stand for different numbers in different releases)"
                if word[:1].isalpha()
                else ""
            )
            raise ArchError(f"not an architecture{named}, expected a number such as 8.0 or 9.0+PTX: `{word}`")
        found.append(Arch(f"{match[1]}.{match[2]}", match[3] is not None))
    return merge(found)


def merge(archs: Iterable[Arch]) -> Tuple[Arch, ...]:
    ptx: Dict[str, bool] = {}
    for arch in archs:
        ptx[arch.capability] = ptx.get(arch.capability, False) or arch.ptx
    return tuple(sorted((Arch(name, flag) for name, flag in ptx.items()), key=lambda arch: arch.order))


def fit(archs: Sequence[Arch], known: Sequence[str]) -> Tuple[Tuple[Arch, ...], Tuple[Arch, ...]]:
    """Split a list into what a toolkit knows and what it does not. PTX asked for an unknown one moves to the newest known."""
    kept = [arch for arch in archs if arch.capability in known]
    dropped = tuple(arch for arch in archs if arch.capability not in known)
    if kept and any(arch.ptx for arch in dropped) and not any(arch.ptx for arch in kept):
        kept[-1] = Arch(kept[-1].capability, True)
    return tuple(kept), dropped


def spell(archs: Sequence[Arch]) -> str:
    return ";".join(str(arch) for arch in archs)

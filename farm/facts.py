"""Facts about the world (facts.yaml): torch releases, their flavours and ABI, CUDA toolkits, and which binding serves what."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Tuple

from farm.reader import MISSING, Faults, Key, integer, list_of, matching, read, record, string, table_of

MACHINES = ("x86_64", "aarch64")
MINOR = matching(r"\d+\.\d+", "MAJOR.MINOR")
RELEASE = matching(r"\d+\.\d+\.\d+", "MAJOR.MINOR.PATCH")
PYTHON = matching(r"3\.\d+t?", "a Python such as 3.12 or 3.14t")
ARCH = matching(r"\d+\.\d", "a compute capability such as 8.0")
DRIVER = matching(r"\d+\.\d+(\.\d+)?", "a driver version")
FLAVOUR = r"cpu|cu\d{3}|rocm\d+(\.\d+)+"

_TORCH = record(
    {
        "version": Key(MINOR),
        "release": Key(RELEASE),
        "pythons": Key(list_of(PYTHON)),
        "lacks": Key(table_of(list_of(PYTHON)), required=False, default={}),
        "cxx11abi": Key(table_of(table_of(integer))),
        "not_run": Key(table_of(list_of(integer)), required=False, default={}),
        "source": Key(string),
    }
)
_TOOLKIT = record(
    {
        "version": Key(MINOR),
        "archs": Key(list_of(ARCH)),
        "max_gcc": Key(integer),
        "minimum_driver": Key(DRIVER),
        "own_driver": Key(DRIVER),
        "obtain": Key(string),
        "source": Key(string),
    }
)
_FACTS = record(
    {
        "format": Key(integer),
        "bindings": Key(
            record({"stable_floor": Key(MINOR), "stable_release": Key(RELEASE), "newest_tested": Key(MINOR)})
        ),
        "toolkits": Key(list_of(_TOOLKIT)),
        "torch": Key(list_of(_TORCH)),
    }
)


def pair(version: str) -> Tuple[int, int]:
    """(major, minor) of a version, for comparing: as text, 2.10 sorts below 2.6."""
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


@dataclass(frozen=True)
class TorchFacts:
    """One minor of torch."""

    version: str
    release: str
    pythons: Tuple[str, ...]
    cxx11abi: Mapping[str, Mapping[str, bool]]  # machine -> flavour -> new ABI?
    lacks: Mapping[str, Tuple[str, ...]]  # machine -> pythons that are missing there
    not_run: Mapping[str, Tuple[bool, ...]]  # machine -> ABIs whose binding was never loaded into its torch

    def has_python(self, python: str, machine: str) -> bool:
        return python in self.pythons and python not in self.lacks.get(machine, ())

    def flavours(self, machine: str) -> Tuple[str, ...]:
        return tuple(self.cxx11abi.get(machine, {}))


@dataclass(frozen=True)
class Toolkit:
    """One CUDA toolkit."""

    version: str
    archs: Tuple[str, ...]
    max_gcc: int
    minimum_driver: str
    own_driver: str
    obtain: str

    @property
    def major(self) -> str:
        return self.version.split(".")[0]


@dataclass(frozen=True)
class Facts:
    """All of facts.yaml."""

    torch: Mapping[str, TorchFacts]
    toolkits: Mapping[str, Toolkit]
    stable_floor: str
    stable_release: str
    newest_tested: str

    def is_stable(self, torch: str) -> bool:
        """Whether the stable binding serves this minor."""
        return pair(torch) >= pair(self.stable_floor)

    def classic_bindings(self, machine: str, accelerator: str, python: Optional[str] = None) -> List[Tuple[str, bool]]:
        """(minor, ABI) of every torch below the stable floor that a wheel for `accelerator` (`cpu`, `cu12`) may meet.

        CPU kernels are right beside any torch, CUDA kernels beside a torch of the same CUDA major. `python` leaves out
        the torches that this Python cannot have.
        """
        found: List[Tuple[str, bool]] = []
        for minor, torch in self.torch.items():
            if self.is_stable(minor) or (python is not None and not torch.has_python(python, machine)):
                continue
            abis = {abi for flavour, abi in torch.cxx11abi.get(machine, {}).items() if _meets(accelerator, flavour)}
            found.extend((minor, abi) for abi in sorted(abis))
        return found

    def was_run(self, torch: str, cxx11abi: bool, machine: str) -> bool:
        """Whether the classic binding was loaded into a real torch of this minor and ABI, and gave right numbers."""
        return cxx11abi not in self.torch[torch].not_run.get(machine, ())

    def meets_stable(self, machine: str, accelerator: str) -> bool:
        """Whether any torch of the stable range has a flavour that such a wheel may meet."""
        return any(
            self.is_stable(minor) and any(_meets(accelerator, flavour) for flavour in torch.flavours(machine))
            for minor, torch in self.torch.items()
        )

    def minors(self, machine: str, accelerator: str) -> List[str]:
        """Every minor of torch that has a flavour such a wheel may meet, oldest first."""
        return sorted(
            (m for m, t in self.torch.items() if any(_meets(accelerator, f) for f in t.flavours(machine))), key=pair
        )


def _meets(accelerator: str, flavour: str) -> bool:
    if accelerator == "cpu":
        return not flavour.startswith("rocm")
    return flavour.startswith("cu") and flavour[:-1] == accelerator


def parse_facts(text: str, file: str = "facts.yaml") -> Facts:
    """Read facts; MatrixError lists everything that is wrong."""
    values, faults = read(text, file, _FACTS)
    if values is not MISSING:
        _check(faults, values)
    faults.raise_if_any()
    return Facts(
        torch={
            t["version"]: TorchFacts(
                t["version"],
                t["release"],
                t["pythons"],
                {m: {f: bool(abi) for f, abi in table.items()} for m, table in t["cxx11abi"].items()},
                t["lacks"],
                {machine: tuple(bool(abi) for abi in abis) for machine, abis in t["not_run"].items()},
            )
            for t in values["torch"]
        },
        toolkits={
            k["version"]: Toolkit(
                k["version"], k["archs"], k["max_gcc"], k["minimum_driver"], k["own_driver"], k["obtain"]
            )
            for k in values["toolkits"]
        },
        **values["bindings"],
    )


def _check(faults: Faults, values: Dict[str, Any]) -> None:
    if values["format"] != 1:
        faults.add("format", f"Unexpected format (expected 1): `{values['format']}`")
    for name in ("torch", "toolkits"):
        seen = set()
        for index, entry in enumerate(values[name]):
            path = f"{name}[{index}]"
            if entry["version"] in seen:
                faults.add(f"{path}.version", f"Repeated version: `{entry['version']}`")
            seen.add(entry["version"])
    for index, torch in enumerate(values["torch"]):
        path = f"torch[{index}]"
        if pair(torch["release"]) != pair(torch["version"]):
            faults.add(f"{path}.release", f"A release of another minor: `{torch['release']}`")
        for machine, table in torch["cxx11abi"].items():
            if machine not in MACHINES:
                faults.add(f"{path}.cxx11abi.{machine}", f"Unknown machine (expected {', '.join(MACHINES)})")
            for flavour, abi in table.items():
                where = f"{path}.cxx11abi.{machine}.{flavour}"
                if not re.fullmatch(FLAVOUR, flavour):
                    faults.add(where, "Unknown flavour (expected cpu, cuNNN or rocmN.N)")
                if abi not in (0, 1):
                    faults.add(where, f"Unexpected value (expected 0 or 1): `{abi}`")


def read_facts(path: Path) -> Facts:
    return parse_facts(path.read_text(encoding="utf-8"), path.name)

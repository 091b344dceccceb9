"""matrix.yaml: which wheels are built, as explicit rows, held against the facts. Every fault is reported, with path and line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Tuple

from packaging.version import InvalidVersion, Version

from farm.archs import Arch, ArchError, fit, parse_archs
from farm.facts import MACHINES, MINOR, PYTHON, Facts, pair
from farm.reader import MISSING, Faults, Key, boolean, list_of, matching, one_of, read, record, string, table_of

OLDEST_PYTHON = (3, 9)
_UNIVERSAL = re.compile(r"cu\d{2}")
_CLASSIC = re.compile(r"cu\d{3}")


@dataclass(frozen=True)
class Row:
    """One row of the matrix. Its builds are every Python x ABI x machine that it lists."""

    index: int
    line: int
    kind: str  # classic or universal
    accelerator: str  # cpu, cu128, cu12, rocm6.4
    machines: Tuple[str, ...]
    torch: Optional[str] = None
    pythons: Tuple[str, ...] = ()
    cxx11abi: Tuple[bool, ...] = ()
    archs: Mapping[str, Tuple[Arch, ...]] = None  # type: ignore[assignment]  # machine -> list; empty without CUDA
    toolchain: Optional[str] = None
    local_toolchain: Optional[str] = None
    image: Optional[str] = None
    reason: Optional[str] = None
    until: Optional[str] = None


@dataclass(frozen=True)
class Matrix:
    """All rows."""

    rows: Tuple[Row, ...]


_ROW = record(
    {
        "kind": Key(one_of("classic", "universal")),
        "torch": Key(MINOR, required=False),
        "cuda": Key(matching(r"cu\d{2,3}", "a flavour such as cu128, or cu12 for a universal wheel"), required=False),
        "cpu": Key(boolean, required=False),
        "rocm": Key(matching(r"\d+(\.\d+)+", "a ROCm version"), required=False),
        "machines": Key(list_of(one_of(*MACHINES))),
        "pythons": Key(list_of(PYTHON), required=False, default=()),
        "cxx11abi": Key(list_of(boolean), required=False, default=()),
        "archs": Key(table_of(string), required=False, default={}),
        "toolchain": Key(MINOR, required=False),
        "local_toolchain": Key(MINOR, required=False),
        "image": Key(string, required=False),
        "reason": Key(string, required=False),
        "until": Key(string, required=False),
    }
)


def parse_matrix(text: str, facts: Facts, file: str = "matrix.yaml") -> Matrix:
    """Read a matrix and hold it against the facts; MatrixError lists everything that is wrong."""
    values, faults = read(text, file, record({"rows": Key(_numbered_rows)}))
    rows: List[Row] = []
    if values is not MISSING:
        for index, value in values["rows"]:
            row = _check_row(faults, facts, index, value)
            if row is not None:
                rows.append(row)
        _check_repetitions(faults, rows)
    faults.raise_if_any()
    return Matrix(tuple(rows))


def read_matrix(path: Path, facts: Facts) -> Matrix:
    return parse_matrix(path.read_text(encoding="utf-8"), facts, path.name)


def _numbered_rows(faults: Faults, node: Any, path: str) -> Any:
    """The rows with their numbers, so that a row left out for its faults does not renumber the rest."""
    numbered: List[Tuple[int, Dict[str, Any]]] = []

    def numbered_row(faults: Faults, child: Any, where: str) -> Any:
        value = _ROW(faults, child, where)
        if value is not MISSING:
            numbered.append((int(where[len(path) + 1 : -1]), value))
        return MISSING

    return MISSING if list_of(numbered_row)(faults, node, path) is MISSING else tuple(numbered)


def _check_row(faults: Faults, facts: Facts, index: int, value: Dict[str, Any]) -> Optional[Row]:
    path = f"rows[{index}]"
    before = len(faults.found)
    accelerator = _accelerator(faults, path, value)
    if accelerator is None:
        return None
    archs = _archs(faults, path, value, accelerator)
    if value["kind"] == "universal":
        _check_universal(faults, facts, path, value, accelerator)
    else:
        _check_classic(faults, facts, path, value, accelerator)
    if accelerator.startswith("cu"):
        _check_toolchains(faults, facts, path, value, accelerator, archs)
    elif value["toolchain"] or value["local_toolchain"]:
        faults.add(f"{path}.toolchain", f"Only a CUDA row has a toolchain, not `{accelerator}`")
    if accelerator.startswith("rocm") and not value["reason"]:
        faults.add(path, "A rocm row is planned only and needs a `reason`")
    if value["until"] is not None:
        try:
            Version(value["until"])
        except InvalidVersion:
            faults.add(f"{path}.until", f"Not a version of mamba_ssm: `{value['until']}`")
    if len(faults.found) > before:
        return None
    taken = (
        "kind",
        "machines",
        "torch",
        "pythons",
        "cxx11abi",
        "toolchain",
        "local_toolchain",
        "image",
        "reason",
        "until",
    )
    return Row(
        index=index,
        line=faults.line_of(path),
        accelerator=accelerator,
        archs=archs,
        **{name: value[name] for name in taken},
    )


def _accelerator(faults: Faults, path: str, value: Dict[str, Any]) -> Optional[str]:
    named = [name for name in ("cuda", "cpu", "rocm") if value[name] is not None]
    if value["cpu"] is False:
        faults.add(f"{path}.cpu", "Unexpected value (expected true; leave the key out otherwise): `false`")
        return None
    if len(named) != 1:
        faults.add(path, f"Expected exactly one of `cuda`, `cpu`, `rocm`, found {', '.join(named) or 'none'}")
        return None
    return str({"cuda": value["cuda"], "cpu": "cpu", "rocm": f"rocm{value['rocm']}"}[named[0]])


def _archs(faults: Faults, path: str, value: Dict[str, Any], accelerator: str) -> Dict[str, Tuple[Arch, ...]]:
    archs: Dict[str, Tuple[Arch, ...]] = {}
    if not accelerator.startswith("cu"):
        if value["archs"]:
            faults.add(f"{path}.archs", f"Only a CUDA row has architectures, not `{accelerator}`")
        return archs
    for machine, text in value["archs"].items():
        where = f"{path}.archs.{machine}"
        if machine not in value["machines"]:
            faults.add(where, "Architectures for a machine that the row does not list")
        try:
            archs[machine] = parse_archs(text)
        except ArchError as error:
            faults.add(where, str(error)[0].upper() + str(error)[1:])
    for machine in value["machines"]:
        if machine not in value["archs"]:
            faults.add(path, f"Missing `archs` for machine `{machine}`")
    return archs


def _check_universal(faults: Faults, facts: Facts, path: str, value: Dict[str, Any], accelerator: str) -> None:
    for name in ("torch", "pythons", "cxx11abi"):
        if value[name]:
            faults.add(f"{path}.{name}", f"A universal wheel serves many: it has no `{name}`")
    if accelerator.startswith("cu") and not _UNIVERSAL.fullmatch(accelerator):
        faults.add(f"{path}.cuda", f"A universal wheel names the CUDA major only, such as cu12: `{accelerator}`")
    if accelerator.startswith("rocm"):
        faults.add(f"{path}.rocm", "There are no universal rocm wheels")
        return
    for machine in value["machines"]:
        if not facts.minors(machine, accelerator):
            faults.add(path, f"Impossible: no torch has `{accelerator}` on {machine} (facts.yaml: torch[].cxx11abi)")


def _check_classic(faults: Faults, facts: Facts, path: str, value: Dict[str, Any], accelerator: str) -> None:
    for name in ("torch", "pythons", "cxx11abi"):
        if not value[name]:
            faults.add(path, f"Missing key `{name}`: a classic wheel is for one torch, one ABI, one Python")
    if accelerator.startswith("cu") and not _CLASSIC.fullmatch(accelerator):
        faults.add(f"{path}.cuda", f"A classic wheel names torch's whole flavour, such as cu128: `{accelerator}`")
        return
    if not value["torch"]:
        return
    torch = facts.torch.get(value["torch"])
    if torch is None:
        faults.add(f"{path}.torch", f"Not in facts.yaml: torch `{value['torch']}`")
        return
    for machine in value["machines"]:
        table = torch.cxx11abi.get(machine, {})
        if accelerator not in table:
            known = ", ".join(table) or "nothing"
            faults.add(
                f"{path}.{'cuda' if accelerator.startswith('cu') else 'torch'}",
                f"Impossible: torch {torch.version} has no `{accelerator}` on {machine}, "
                f"it has {known} (facts.yaml: torch {torch.version})",
            )
            continue
        for position, abi in enumerate(value["cxx11abi"]):
            if abi != table[accelerator]:
                faults.add(
                    f"{path}.cxx11abi[{position}]",
                    f"Impossible: torch {torch.version} `{accelerator}` on {machine} has the C++11 ABI "
                    f"`{str(table[accelerator]).lower()}` (facts.yaml: torch {torch.version})",
                )
    for position, python in enumerate(value["pythons"]):
        if pair(python.rstrip("t")) < OLDEST_PYTHON:
            faults.add(f"{path}.pythons[{position}]", f"mamba_ssm needs Python 3.9 or newer: `{python}`")
        elif any(not torch.has_python(python, machine) for machine in value["machines"]):
            lacking = [machine for machine in value["machines"] if not torch.has_python(python, machine)]
            faults.add(
                f"{path}.pythons[{position}]",
                f"Impossible: torch {torch.version} has no wheel for Python `{python}` "
                f"on {', '.join(lacking)}, only {', '.join(torch.pythons)} (facts.yaml: torch {torch.version})",
            )


def _check_toolchains(
    faults: Faults,
    facts: Facts,
    path: str,
    value: Dict[str, Any],
    accelerator: str,
    archs: Mapping[str, Tuple[Arch, ...]],
) -> None:
    if value["toolchain"] is None:
        faults.add(path, "Missing key `toolchain`: the CUDA toolkit that compiles this row")
    for name in ("toolchain", "local_toolchain"):
        version = value[name]
        if version is None:
            continue
        toolkit = facts.toolkits.get(version)
        if toolkit is None:
            faults.add(
                f"{path}.{name}", f"Not in facts.yaml: CUDA toolkit `{version}`, known: {', '.join(facts.toolkits)}"
            )
            continue
        if toolkit.major != accelerator[2:4]:
            faults.add(
                f"{path}.{name}", f"Impossible: CUDA {version} cannot build for `{accelerator}`, another CUDA major"
            )
            continue
        for machine, wanted in archs.items():
            kept, dropped = fit(wanted, toolkit.archs)
            if name == "toolchain" and dropped:
                faults.add(
                    f"{path}.archs.{machine}",
                    f"Impossible: CUDA {version} does not know {', '.join(a.capability for a in dropped)} "
                    f"(facts.yaml: toolkit {version})",
                )
            elif not kept:
                faults.add(
                    f"{path}.{name}", f"Impossible: CUDA {version} knows none of the architectures for {machine}"
                )


def _check_repetitions(faults: Faults, rows: List[Row]) -> None:
    seen: Dict[Tuple[Any, ...], int] = {}
    for row in rows:
        for machine in row.machines:
            for python in row.pythons or (None,):
                for abi in row.cxx11abi or (None,):
                    key = (row.kind, row.accelerator, row.torch, machine, python, abi)
                    if key in seen and seen[key] != row.index:
                        faults.add(f"rows[{row.index}]", f"Repeats a build of 'rows[{seen[key]}]': {_words(key)}")
                    seen.setdefault(key, row.index)


def _words(key: Tuple[Any, ...]) -> str:
    kind, accelerator, torch, machine, python, abi = key
    if kind == "universal":
        return f"`universal {accelerator} {machine}`"
    return f"`torch {torch} {accelerator}, Python {python}, C++11 ABI {str(abi).lower()}, {machine}`"

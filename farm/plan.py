"""From rows to builds: one identifier each, what this machine can build of them, and why not the rest. Starts nothing."""

from __future__ import annotations

import difflib
import fnmatch
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

from packaging.version import Version

from farm.archs import Arch, fit, spell
from farm.errors import UsageError
from farm.facts import Facts
from farm.matrix import Matrix, Row
from farm.toolchains import Toolchain
from mamba_install.wheel_names import Label

PACKAGE = "mamba_ssm"


@dataclass(frozen=True)
class Build:
    """One wheel to be built. `reason` says why this machine cannot; `notes` what is unlike the row."""

    identifier: str
    kind: str  # classic, universal, or local for `pip install .`
    accelerator: str
    machine: str
    torch: Optional[str] = None
    python: Optional[str] = None
    cxx11abi: Optional[bool] = None
    archs: Tuple[Arch, ...] = ()
    wanted_toolchain: Optional[str] = None
    toolchain: Optional[Toolchain] = None
    reason: Optional[str] = None
    notes: Tuple[str, ...] = ()
    row: Optional[int] = None

    @property
    def label(self) -> Optional[Label]:
        if self.kind == "local":
            return None
        return Label(self.accelerator, self.torch, self.cxx11abi)

    @property
    def python_tags(self) -> Tuple[str, str]:
        """Interpreter and ABI tag. Nothing in a wheel uses Python's C API; a classic one is named for its Python, as its
        users' tools expect."""
        if self.python is None:
            return "py3", "none"
        digits = self.python.rstrip("t").replace(".", "")
        return f"cp{digits}", f"cp{digits}t" if self.python.endswith("t") else f"cp{digits}"

    def as_json(self) -> Dict[str, Any]:
        return {
            "identifier": self.identifier,
            "kind": self.kind,
            "accelerator": self.accelerator,
            "machine": self.machine,
            "torch": self.torch,
            "python": self.python,
            "cxx11abi": self.cxx11abi,
            "archs": [str(arch) for arch in self.archs],
            "toolchain": self.toolchain.version if self.toolchain else self.wanted_toolchain,
            "buildable": self.reason is None,
            "reason": self.reason,
            "notes": list(self.notes),
            "row": self.row,
        }


def identify(row: Row, machine: str, python: Optional[str], abi: Optional[bool]) -> str:
    """The one name of a build: for --only, its log, and whatever else is kept of it."""
    if row.kind == "universal":
        return f"{PACKAGE}-universal-{row.accelerator}-{machine}"
    assert python is not None
    return f"{PACKAGE}-torch{row.torch}-{row.accelerator}-cp{python.replace('.', '')}-abi{int(bool(abi))}-{machine}"


def plan(
    matrix: Matrix,
    facts: Facts,
    toolchains: Sequence[Toolchain],
    machine: str,
    version: str,
    host_compiler: bool = True,
) -> Tuple[Build, ...]:
    """Every build of every row that is not retired, in the order of the rows."""
    builds: List[Build] = []
    for row in matrix.rows:
        if row.until is not None and Version(version) > Version(row.until):
            continue
        for built_for in row.machines:
            for abi in row.cxx11abi or (None,):
                for python in row.pythons or (None,):
                    build = Build(
                        identifier=identify(row, built_for, python, abi),
                        kind=row.kind,
                        accelerator=row.accelerator,
                        machine=built_for,
                        torch=row.torch,
                        python=python,
                        cxx11abi=abi,
                        archs=row.archs.get(built_for, ()),
                        wanted_toolchain=row.toolchain,
                        row=row.index,
                    )
                    builds.append(_judge(build, row, facts, toolchains, machine, host_compiler))
    return tuple(builds)


def _judge(
    build: Build, row: Row, facts: Facts, toolchains: Sequence[Toolchain], machine: str, host_compiler: bool
) -> Build:
    if build.accelerator.startswith("rocm"):
        return replace(build, reason=row.reason)
    build = _choose_toolchain(build, row, facts, toolchains)
    if build.machine != machine:
        return replace(build, reason=f"this machine is {machine}: build it on {build.machine}, or in CI")
    if not host_compiler:
        return replace(build, reason="no g++ here; to get it: apt-get install g++")
    return build


def _choose_toolchain(build: Build, row: Row, facts: Facts, toolchains: Sequence[Toolchain]) -> Build:
    if row.toolchain is None:
        return build
    here = {toolchain.version: toolchain for toolchain in toolchains}
    if row.toolchain in here:
        chosen = here[row.toolchain]
        kept, dropped = fit(build.archs, chosen.archs)
        if dropped:
            missing = ", ".join(arch.capability for arch in dropped)
            return replace(
                build, reason=f"the nvcc of CUDA {chosen.release} does not know {missing}, against facts.yaml"
            )
        return replace(build, toolchain=chosen)
    if row.local_toolchain is not None and row.local_toolchain in here:
        chosen = here[row.local_toolchain]
        kept, dropped = fit(build.archs, chosen.archs)
        notes: Tuple[str, ...] = (f"built with CUDA {chosen.version} instead of {row.toolchain}",)
        if dropped:
            notes += (f"left out, unknown to CUDA {chosen.version}: {spell(dropped)}; what is built: {spell(kept)}",)
        return replace(build, toolchain=chosen, archs=kept, notes=notes)
    wanted = [row.toolchain] + ([row.local_toolchain] if row.local_toolchain else [])
    found = ", ".join(sorted(here)) or "none"
    ways = "; ".join(f"CUDA {version}: {facts.toolkits[version].obtain}" for version in wanted)
    return replace(build, reason=f"needs CUDA {' or '.join(wanted)}, found here: {found}; to get it: {ways}")


def override_archs(build: Build, archs: Tuple[Arch, ...]) -> Build:
    """The same build with other architectures, under an identifier that says so."""
    mark = "-".join(f"sm{arch.digits}{'ptx' if arch.ptx else ''}" for arch in archs)
    if build.toolchain is not None:
        unknown = [arch.capability for arch in archs if arch.capability not in build.toolchain.archs]
        if unknown:
            raise UsageError(
                f"CUDA {build.toolchain.version} does not know: {', '.join(unknown)}",
                f"choose from {', '.join(build.toolchain.archs)}",
            )
    return replace(build, identifier=f"{build.identifier}-{mark}", archs=archs)


def select(builds: Sequence[Build], only: Sequence[str]) -> Tuple[Tuple[Build, ...], Tuple[str, ...]]:
    """The builds that `only` names, and which of its words name exactly one. Words may be globs, and may leave out the package.

    UsageError, with what is near, for a word that names nothing.
    """
    if not only:
        return tuple(builds), ()
    chosen: Dict[str, Build] = {}
    exact: List[str] = []
    for word in only:
        full = word if word.startswith((PACKAGE, "*")) else f"{PACKAGE}-{word}"
        found = [build for build in builds if fnmatch.fnmatchcase(build.identifier, full)]
        if not found:
            names = [build.identifier for build in builds]
            near = difflib.get_close_matches(full, names, n=3, cutoff=0.5)
            raise UsageError(
                f"no build has this identifier: `{word}`",
                f"the nearest are {', '.join(near)}" if near else "`python -m farm plan` lists them all",
            )
        if not set(word) & set("*?["):
            exact.append(found[0].identifier)
        chosen.update((build.identifier, build) for build in found)
    return tuple(chosen.values()), tuple(exact)


def read_version(root: Path) -> str:
    """The version of mamba_ssm, read from its text so that nothing is imported."""
    text = (root / PACKAGE / "__init__.py").read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.startswith("__version__ = "):
            return line.split('"')[1]
    raise UsageError(f"no `__version__` in {PACKAGE}/__init__.py", "is this a whole checkout of the project?")

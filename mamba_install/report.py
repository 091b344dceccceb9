"""Turns decisions, facts and verdicts into lines of text. It formats and never prints."""

from __future__ import annotations

from typing import Iterable, List, Mapping, Optional, Sequence

from mamba_install.environment import Environment
from mamba_install.records import Candidate, Decision, Installed, Rejection

SHOWN = 40


def describe_environment(environment: Environment) -> str:
    """One line: what the decision rests on."""
    parts = [f"Python {environment.python or 'not known'}{'t' if environment.free_threaded else ''}"]
    parts.append(f"{environment.platform or 'system not known'} {environment.machine or ''}".strip())
    if environment.glibc:
        parts.append(f"glibc {environment.glibc}")
    if environment.torch:
        abi = "not known" if environment.cxx11abi is None else int(environment.cxx11abi)
        cuda = f"CUDA {environment.cuda}" if environment.cuda else environment.accelerator or "flavour not known"
        parts.append(f"torch {environment.torch} ({cuda}, C++11 ABI {abi})")
    else:
        parts.append("no torch" if environment.torch_missing else "torch not known")
    if environment.gpus:
        first = environment.gpus[0]
        parts.append(
            f"{len(environment.gpus)} x {first.name} (compute capability {first.compute_capability or 'not known'})"
        )
    elif environment.has_gpu is False:
        parts.append("no GPU")
    if environment.driver:
        parts.append(f"driver {environment.driver}")
    return ", ".join(parts)


def decision_lines(decision: Decision) -> List[str]:
    """The choice, then every rejection with its reasons."""
    lines = []
    if decision.candidate is not None:
        lines.append(f"wheel: {decision.candidate.filename}")
        lines.append(f"  from {decision.candidate.source}")
        lines.append(f"  {decision.message}")
        lines += [f"  note: {note}" for note in decision.notes]
    if decision.fitting[1:]:
        lines.append(f"also fitting: {len(decision.fitting) - 1}")
        lines += [f"  {candidate.filename}" for candidate in decision.fitting[1 : SHOWN + 1]]
    lines += rejection_lines(decision.rejected, "rejected")
    return lines


def rejection_lines(rejected: Sequence[Rejection], title: str) -> List[str]:
    """The nearest first; a long list is cut, and says so."""
    if not rejected:
        return []
    lines = [f"{title}: {len(rejected)}"]
    for rejection in rejected[:SHOWN]:
        lines += [f"  {rejection.candidate.filename}", f"    {rejection.text}"]
    if len(rejected) > SHOWN:
        lines.append(f"  and {len(rejected) - SHOWN} more, further from fitting; `--json` shows all")
    return lines


def diagnosis_lines(decision: Decision) -> List[str]:
    """The nearest wheels of a decision that nothing fits; message, command and hint are the error's."""
    nearest = decision.nearest
    lines = [f"nearest of {len(decision.rejected)}:"] if nearest else []
    for rejection in nearest:
        lines += [f"  {rejection.candidate.filename}", f"    {rejection.text}"]
    return lines


def fact_lines(environment: Environment) -> List[str]:
    """One fact per line, with its source."""
    rows = []
    for name, value in environment.as_dict().items():
        if name in ("sources", "gpus", "probed"):
            continue
        absent = "none" if name in environment.sources else "not known"
        shown = absent if value is None else str(value)
        rows.append((name, shown, environment.sources.get(name, "")))
    for number, gpu in enumerate(environment.gpus or ()):
        memory = f", {gpu.memory_mb} MB" if gpu.memory_mb else ""
        rows.append(
            (f"gpu {number}", f"{gpu.name}, {gpu.compute_capability}{memory}", environment.sources.get("gpus", ""))
        )
    if environment.has_gpu is False:
        rows.append(("gpus", "none", environment.sources.get("gpus", "")))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]


def list_lines(candidates: Sequence[Candidate], decision: Decision) -> List[str]:
    """Every wheel with "fits" or why not."""
    reasons = {id(one.candidate): one.text for one in decision.rejected}
    fitting = {id(candidate) for candidate in decision.fitting}
    lines = []
    for candidate in candidates:
        if id(candidate) in fitting or id(candidate) in reasons:
            verdict = "fits" if id(candidate) in fitting else f"no: {reasons[id(candidate)]}"
            lines.append(f"{candidate.filename}\t{verdict}")
    return lines


def installed_lines(installed: Installed) -> List[str]:
    """What changed, and what did not."""
    instead = f" (was {installed.previous})" if installed.previous else ""
    return [f"installed: {installed.wheel}{instead}", f"torch: {installed.torch}, unchanged"]


def progress_bar(done: int, total: Optional[int], width: int = 30) -> str:
    """`[######----]  60 %  18.0 of 30.0 MB`."""
    megabytes = done / 1e6
    if not total:
        return f"{megabytes:.1f} MB"
    filled = min(width, width * done // total)
    return (
        f"[{'#' * filled}{'-' * (width - filled)}] {100 * done // total:3d} %  {megabytes:.1f} of {total / 1e6:.1f} MB"
    )


def error_object(message: str, hint: Optional[str], code: Optional[str]) -> Mapping[str, object]:
    """The `--json` object where no decision was reached."""
    return {
        "outcome": "diagnosis",
        "code": code,
        "wheel": None,
        "command": None,
        "message": message,
        "hint": hint,
        "notes": [],
        "rejected": [],
    }


def joined(lines: Iterable[str]) -> str:
    return "\n".join(lines)

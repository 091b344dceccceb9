"""An error's text and the facts in; one code, its cause, the evidence and the commands out. A pure function, like the resolver."""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from mamba_install import public_wheels
from mamba_install.catalogue import entry, frame
from mamba_install.diagnosis import TOLD_AS, build_is_right, choose_code
from mamba_install.environment import Environment
from mamba_install.fault import Fault
from mamba_install.faults import FAULTS
from mamba_install.records import Candidate, Decision
from mamba_install.report import describe_environment
from mamba_install.rules import known_abi, numbers
from mamba_install.world import torch_flavour

# a compiler's command line may be many thousand characters long; what it says stands at its ends
LINE_HEAD, LINE_TAIL = 600, 300
# commands that are only repeated and progress that is only told: most of a long log, and none of its faults
_CHATTER = re.compile(
    r"\s*(?:\[\d+/\d+\]|ptxas info|\S*(?:nvcc|gcc|g\+\+|c\+\+|cc)\S* -|copying |creating |adding |writing |Downloading )"
)
_COMPLAINT = re.compile(
    r"error|fatal|killed|died|signal|not found|no such|unsupported|undefined|cannot|failed|timed out", re.IGNORECASE
)
SHOWN_LINE = 240
# codes that another wheel may cure keep their code beside the wheel; these may also end in a build
_BUILDABLE = ("NGC_CONTAINER", "TORCH_ROCM", "TORCH_LOCAL_BUILD", "TORCH_PRERELEASE_UNMATCHED", "NO_WHEEL_FOR_TORCH")


@dataclass(frozen=True)
class Finding:
    """One row of the faults that applies, with the words of its sentences and the line that shows it."""

    fault: Fault
    words: Mapping[str, object]
    evidence: Optional[str]


@dataclass(frozen=True)
class Conclusion:
    """What the doctor answers."""

    outcome: str
    code: Optional[str]
    wheel: Optional[Candidate]
    cause: str
    evidence: Tuple[str, ...]
    remedy: str
    commands: Tuple[str, ...]
    also: Tuple[str, ...]
    rejected: Tuple[Mapping[str, str], ...] = ()

    def as_dict(self) -> Mapping[str, Any]:
        return {
            "outcome": self.outcome,
            "code": self.code,
            "wheel": self.wheel.filename if self.wheel else None,
            "command": self.commands[0] if self.commands else None,
            "message": self.cause,
            "hint": self.remedy,
            "evidence": list(self.evidence),
            "commands": list(self.commands),
            "also": list(self.also),
            "rejected": list(self.rejected),
        }


def examine(environment: Environment, text: str) -> Tuple[Finding, ...]:
    """Every fault that text and facts show, what proves most first; one per code."""
    text = clean(text)
    found: Dict[str, Finding] = {}
    for fault in FAULTS:
        if fault.code in found:
            continue
        place = fault.find(text, environment)
        if place is not None:
            match, words = place
            found[fault.code] = Finding(fault, words, _line_of(text, match) if fault.pattern else None)
    return tuple(found.values())


def clean(text: str) -> str:
    """Without colours, carriage returns, endless lines and lines that were said before."""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r", "\n")
    lines = (
        line if len(line) <= LINE_HEAD + LINE_TAIL else f"{line[:LINE_HEAD]} ... {line[-LINE_TAIL:]}"
        for line in text.splitlines()
        if not _CHATTER.match(line) or _COMPLAINT.search(line)
    )
    return "\n".join(dict.fromkeys(lines)).strip("\n")


def _line_of(text: str, match: re.Match[str]) -> str:
    start = text.rfind("\n", 0, match.start()) + 1
    end = text.find("\n", match.start())
    line = text[start : end if end >= 0 else len(text)].strip()
    return line if len(line) <= SHOWN_LINE else line[:SHOWN_LINE] + " ..."


def conclude(
    environment: Environment,
    text: str,
    package: str = "mamba_ssm",
    decision: Optional[Decision] = None,
    language: str = "en",
) -> Conclusion:
    """The one answer: the first finding, cured by the wheel that fits where a wheel is the cure."""
    findings = examine(environment, text)
    if decision is not None and (not findings or _says_no_more(findings[0], text)):
        return _from_decision(decision, findings, text)
    if not findings:
        facts = describe_environment(environment)
        return Conclusion(
            "diagnosis", None, None, frame("nothing", language), (facts,), frame("nothing-hint", language), (), ()
        )
    first = findings[0]
    code: Optional[str] = first.fault.code
    wheel = decision.candidate if decision is not None and first.fault.by_wheel else None
    outcome = "wheel" if wheel is not None else "diagnosis"
    decided = decision is not None and decision.outcome == "build" and decision.code == code
    if wheel is None and (decided or _build_is_right(first.fault.code, environment, decision)):
        outcome = "build"
    words = _words(environment, package, first.words, language)
    text_of = entry(first.fault.key)
    cause, remedy = (text_of.cause, text_of.remedy) if language == "en" else (text_of.cause_zh, text_of.remedy_zh)
    commands = tuple(command.format_map(_Blanks(words)) for command in first.fault.commands)
    if wheel is not None:
        commands = (install_command(wheel, environment), *commands)
    evidence = (*([first.evidence] if first.evidence else []), describe_environment(environment))
    return Conclusion(
        outcome,
        code,
        wheel,
        cause.format_map(words),
        evidence,
        remedy.format_map(words),
        commands,
        tuple(other.fault.code for other in findings[1:]),
        _rejected(decision),
    )


def _says_no_more(finding: Finding, text: str) -> bool:
    """Where facts alone speak, or the text only that nothing was found, the resolver knows more."""
    return finding.fault.key == "no-wheel" or (not finding.fault.pattern and not text.strip())


def _from_decision(decision: Decision, findings: Sequence[Finding], text: str) -> Conclusion:
    code = decision.code
    if decision.candidate is not None and findings and findings[0].fault.key == "no-wheel":
        code = _why_not_found(decision, text)
    return Conclusion(
        decision.outcome,
        code,
        decision.candidate,
        decision.message,
        tuple(finding.evidence for finding in findings if finding.evidence),
        decision.hint or "; ".join(decision.notes),
        (decision.command,) if decision.command else (),
        tuple(finding.fault.code for finding in findings),
        _rejected(decision),
    )


def _why_not_found(decision: Decision, text: str) -> str:
    """What the version that was asked for lacks, although another version has a wheel that fits."""
    asked = re.search(r"\b[A-Za-z]\w+-(\d[\w.]*?)\+\w*torch[^\s]*\.whl", text)
    of_that = [one for one in decision.rejected if asked is not None and one.candidate.name.version == asked[1]]
    code = choose_code(of_that) if of_that else "NO_WHEEL_FOR_TORCH"
    return TOLD_AS.get(code, code)


def _rejected(decision: Optional[Decision]) -> Tuple[Mapping[str, str], ...]:
    return tuple(decision.as_dict()["rejected"]) if decision is not None else ()


def _build_is_right(code: str, environment: Environment, decision: Optional[Decision]) -> bool:
    if code not in _BUILDABLE:
        return False
    public = decision is None or any(public_wheels.is_public(one.candidate) for one in decision.rejected)
    return build_is_right(code, environment, public)


def install_command(wheel: Candidate, environment: Environment) -> str:
    """pip with the exact file; nothing else is touched."""
    place = wheel.location or public_wheels.asset_url(wheel) or wheel.filename
    python = shlex.quote(_python(environment))
    return f"{python} -m pip install --no-deps --no-cache-dir --force-reinstall {shlex.quote(place)}"


def _python(environment: Environment) -> str:
    if environment.target is not None and environment.target.executable != sys.executable:
        return environment.target.executable
    return "python"


def _other_python(environment: Environment) -> Tuple[str, ...]:
    python = _python(environment)
    return () if python == "python" else ("--python", shlex.quote(python))


class _Words(Dict[str, object]):
    """Words that are not known are said to be so."""

    unknown = ""

    def __missing__(self, key: str) -> object:
        return self.unknown


class _Blanks(Dict[str, object]):
    """In a command, what is not known is a blank to fill in: its name in capitals."""

    def __missing__(self, key: str) -> object:
        return key.upper()


def _words(environment: Environment, package: str, found: Mapping[str, object], language: str) -> _Words:
    torch, cuda = environment.torch_version, environment.cuda
    capabilities = [gpu.compute_capability for gpu in environment.gpus or () if gpu.compute_capability]
    minor = ".".join(map(str, numbers(environment.python))) if environment.python else None
    abi = known_abi(environment)
    project = public_wheels.PROJECTS.get(package.replace("_", "-").lower())
    majors = [numbers(cuda)[0]] if cuda else [12, 13, 11]
    flavours = [torch_flavour(torch.minor, major) for major in majors] if torch is not None else []
    known: Dict[str, object] = {
        "package": package,
        "pick": " ".join(["python -m mamba_install --package", package, *_other_python(environment)]),
        "glob": re.sub(r"[-_]", "?", package),
        "python": shlex.quote(_python(environment)),
        "python_version": environment.python,
        "minor": minor,
        "torch": environment.torch,
        "cuda": cuda,
        "ours": None if abi is None else int(abi),
        "glibc": environment.glibc,
        "machine": environment.machine,
        "platform": environment.platform,
        "driver": environment.driver,
        "nvcc": environment.nvcc,
        "gcc": environment.gcc,
        "gpu": ", ".join(capabilities) or None,
        "archs": ";".join(sorted(set(capabilities))) or None,
        "flavour": next((flavour for flavour in flavours if flavour), "cu126"),
        "git": f"git+https://github.com/{project}" if project else package,
        "partner": ">=1.5.1",
        "gfx": "gfx90a",
        "host": "12",
    }
    words = _Words({name: value for name, value in known.items() if value is not None})
    words.update({name: value for name, value in found.items() if value is not None})
    words.unknown = frame("unknown", language)
    return words


def conclusion_lines(conclusion: Conclusion, language: str) -> List[str]:
    """The answer for a reader."""
    lines = [f"{frame('code', language)}: {conclusion.code}"] if conclusion.code else []
    lines.append(f"{frame('cause', language)}: {conclusion.cause}")
    lines += [f"{frame('evidence', language)}: {line}" for line in conclusion.evidence]
    if conclusion.wheel is not None:
        lines.append(f"{frame('wheel', language)}: {conclusion.wheel.filename}")
    if conclusion.outcome == "build":
        lines.append(frame("build", language))
    if conclusion.commands:
        lines.append(f"{frame('commands', language)}:")
        lines += [f"  {command}" for command in conclusion.commands]
    if conclusion.also:
        lines.append(f"{frame('also', language)}: {', '.join(conclusion.also)}")
    lines.append(f"{frame('remedy', language)}: {conclusion.remedy}")
    return lines

"""The frozen values between the installer's stages: Request, Candidate -> Decision -> Download -> Installed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Mapping, Optional, Tuple

from mamba_install.wheel_names import WheelName


@dataclass(frozen=True)
class Policy:
    """What the user wishes beyond "what fits best"."""

    package: str = "mamba_ssm"
    version: Optional[str] = None
    prefer_classic: bool = False
    accept_cpu: bool = False


@dataclass(frozen=True)
class Request:
    """What one run of the installer was asked for."""

    policy: Policy
    indexes: Tuple[str, ...]
    python: str
    facts_file: Optional[Path] = None
    dry_run: bool = False


@dataclass(frozen=True)
class Binding:
    """One row of the choice table that a wheel carries: which torch builds one binding serves."""

    kind: str
    torch: str
    cxx11abi: Optional[bool] = None


@dataclass(frozen=True)
class Contents:
    """What is inside a wheel, as its `bindings.json` says; known only where the file itself was at hand."""

    bindings: Tuple[Binding, ...]
    archs: Optional[Tuple[str, ...]] = None
    toolkit: Optional[str] = None
    tested: Optional[str] = None


@dataclass(frozen=True)
class Candidate:
    """A wheel that an index offers. `location` is a path or URL, None where a listing holds names only."""

    name: WheelName
    location: Optional[str]
    source: str
    sha256: Optional[str] = None
    size: Optional[int] = None
    requires_python: Optional[str] = None
    yanked: Optional[str] = None
    contents: Optional[Contents] = None

    @property
    def filename(self) -> str:
        return self.name.filename


@dataclass(frozen=True)
class Reason:
    """Why one rule refuses one wheel. `weight` says how far the environment is from taking it."""

    code: str
    text: str
    weight: int


@dataclass(frozen=True)
class Rejection:
    """A wheel that does not fit, with every reason."""

    candidate: Candidate
    reasons: Tuple[Reason, ...]

    @property
    def distance(self) -> int:
        return sum(reason.weight for reason in self.reasons)

    @property
    def text(self) -> str:
        return "; ".join(reason.text for reason in self.reasons)


@dataclass(frozen=True)
class Decision:
    """The resolver's answer: a wheel, or a diagnosis; with all rejections either way."""

    outcome: str
    code: Optional[str]
    candidate: Optional[Candidate]
    command: Optional[str]
    message: str
    hint: Optional[str]
    rejected: Tuple[Rejection, ...]
    fitting: Tuple[Candidate, ...] = ()
    notes: Tuple[str, ...] = ()

    @property
    def nearest(self) -> Tuple[Rejection, ...]:
        """The rejected wheels that the environment is closest to, the nearest first."""
        return self.rejected[:5]

    def as_dict(self) -> Mapping[str, Any]:
        """The object that `--json` prints."""
        return {
            "outcome": self.outcome,
            "code": self.code,
            "wheel": self.candidate.filename if self.candidate else None,
            "command": self.command,
            "message": self.message,
            "hint": self.hint,
            "notes": list(self.notes),
            "rejected": [
                {"wheel": rejection.candidate.filename, "reason": rejection.text, "code": rejection.reasons[0].code}
                for rejection in self.rejected
            ],
        }


@dataclass(frozen=True)
class Download:
    """A wheel on this machine, its hash taken while it was copied."""

    candidate: Candidate
    path: Path
    sha256: str
    size: int


@dataclass(frozen=True)
class CheckedWheel:
    """A download that was opened and found to be what its name says."""

    download: Download
    requires_dist: Tuple[str, ...]
    contents: Optional[Contents]


@dataclass(frozen=True)
class SelfCheck:
    """What `python -m mamba_ssm.selfcheck --json` answered in the target environment."""

    ok: bool
    message: str
    report: Mapping[str, Any]


@dataclass(frozen=True)
class Installed:
    """What was installed, what stood there before, and the numbers that prove it."""

    wheel: str
    previous: Optional[str]
    torch: str
    selfcheck: SelfCheck

"""What can go wrong, and the exit code of each kind. Only the outermost layer prints an error or exits."""

from __future__ import annotations

from typing import Optional, Sequence


class FarmError(Exception):
    """The root. The message says what happened and why; the hint, on a line of its own, what to do."""

    exit_code = 1

    def __init__(self, message: str, hint: Optional[str] = None) -> None:
        super().__init__(message)
        self.hint = hint

    def __str__(self) -> str:
        message = super().__str__()
        return message if self.hint is None else f"{message}\nhint: {self.hint}"


class UsageError(FarmError):
    """The command line or an environment variable says something that has no meaning here."""

    exit_code = 2


class NetworkError(FarmError):
    """Something could not be downloaded."""

    exit_code = 5


class CheckError(FarmError):
    """A file is not what it says it is. `findings` are lines that begin with a code of cases/codes.md."""

    exit_code = 6

    def __init__(self, message: str, hint: Optional[str] = None, findings: Sequence[str] = ()) -> None:
        super().__init__(message, hint)
        self.findings = tuple(findings)


class BuildError(FarmError):
    """A compiler, a linker or a missing tool stopped the build."""

    exit_code = 8


class MatrixError(FarmError):
    """matrix.yaml or facts.yaml is wrong; the message lists every fault."""

    exit_code = 9

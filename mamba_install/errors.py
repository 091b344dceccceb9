"""What can go wrong, one class per kind, each with an exit code of its own. Only `cli` prints them or exits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:
    from mamba_install.records import Decision

EXIT_DONE = 0
EXIT_INTERRUPTED = 130


class InstallerError(Exception):
    """The root of the installer's errors: what happened and why, a hint at what to do, and a code of the outcome list."""

    exit_code = 1
    code: Optional[str] = None

    def __init__(self, message: str, hint: Optional[str] = None, code: Optional[str] = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.code = code or type(self).code


class UsageError(InstallerError):
    """The command line, or a file named on it, cannot be understood."""

    exit_code = 2


class NothingFitsError(InstallerError):
    """The candidates are known and none fits; the decision holds every reason."""

    exit_code = 3

    def __init__(self, decision: Decision) -> None:
        super().__init__(decision.message, decision.hint, decision.code)
        self.decision = decision


class BuildNeededError(NothingFitsError):
    """Nothing fits and a build from source would help; the decision holds its command, which nobody has allowed yet."""

    exit_code = 4


class NetworkError(InstallerError):
    """An index or a file could not be had for reasons of the network or of the server."""

    exit_code = 5
    code = "NETWORK"


class CheckError(InstallerError):
    """A file is not what its name, its index or its own records say."""

    exit_code = 6


class SelfCheckError(InstallerError):
    """The wheel was installed, but computing with it failed; the previous state is back."""

    exit_code = 7


class InstallRefusedError(InstallerError):
    """The target environment, its pip or its uv does not let us install."""

    exit_code = 10

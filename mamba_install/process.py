"""The one way in which the installer starts other programs: shown before, kept whole where it fails, told in one line."""

from __future__ import annotations

import re
import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import Callable, NamedTuple, Optional, Sequence

Log = Callable[[str], None]


class Finished(NamedTuple):
    """How a program ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def first_error(self) -> str:
        """The line that says what went wrong: the first that calls itself an error, else the last of all."""
        lines = [line.strip() for line in (self.stderr + "\n" + self.stdout).splitlines() if line.strip()]
        named = [line for line in lines if re.match(r"(?i)(\w*error\b|fatal)", line)]
        return (named or lines[-1:] or [f"it ended with {self.code} and said nothing"])[0][:400]

    def keep(self) -> Path:
        """Write everything it said into a file that stays."""
        with tempfile.NamedTemporaryFile(
            "w", prefix="mamba-install-", suffix=".log", delete=False, encoding="utf-8", errors="replace"
        ) as log:
            log.write(self.stdout + self.stderr)
        return Path(log.name)


Runner = Callable[[Sequence[str]], Finished]


def run(command: Sequence[str], log: Log, cwd: Optional[Path] = None, timeout: Optional[float] = None) -> Finished:
    """Run a program away from the current folder and wait for it. A program that cannot start ends with 127."""
    log("+ " + " ".join(map(shlex.quote, command)))
    try:
        done = subprocess.run(
            command, cwd=cwd, capture_output=True, timeout=timeout, check=False, stdin=subprocess.DEVNULL
        )
    except OSError as error:
        return Finished(127, "", f"{command[0]}: {error.strerror}")
    except subprocess.TimeoutExpired:
        return Finished(124, "", f"error: no end after {timeout:.0f} s")
    return Finished(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))

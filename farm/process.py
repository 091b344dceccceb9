"""The one place from which the farm starts processes: visible, logged whole, and reduced to one line when it fails."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Dict, List, Mapping, Optional, Sequence, Set

from farm.errors import BuildError

# Variables that change what a compiler does behind the farm's back.
HIDDEN_INFLUENCES = (
    "NVCC_PREPEND_FLAGS",
    "NVCC_APPEND_FLAGS",
    "CPATH",
    "C_INCLUDE_PATH",
    "CPLUS_INCLUDE_PATH",
    "GCC_EXEC_PREFIX",
)

# In order: the first pattern found in a log is the first real error; what follows it is a consequence.
_ERRORS = re.compile(
    r"(fatal error:|(?<!\w)error:|error\s*:|error #\d+|nvcc fatal|ptxas fatal|undefined reference|cannot find -l"
    r"|Killed|terminated by signal|internal compiler error|No space left on device|not found$)"
)
_HINTS = (
    (
        r"Killed|terminated by signal|signal 9|cannot allocate memory|out of memory",
        "too little memory: lower MAX_JOBS, for example MAX_JOBS=1",
    ),
    (r"No space left on device", "the disk is full: free some, or remove the folder build/"),
    (
        r"Unsupported gpu architecture|is not defined for option 'gpu-",
        "this nvcc does not know the architecture: choose others, or another toolkit (facts.yaml lists both)",
    ),
    (
        r"unsupported GNU version",
        "this nvcc refuses the host compiler: install an older g++ (facts.yaml lists the newest allowed one)",
    ),
    (
        r"torch/.*No such file|ATen/.*No such file|c10/.*No such file",
        "the torch headers are incomplete: remove their folder from the cache, and build again",
    ),
    (r"No such file or directory", "a file is missing: is the checkout or the toolkit complete?"),
    (
        r"undefined reference|cannot find -l",
        "the linker misses a library or an object: remove the folder build/ and build again",
    ),
)


@dataclass(frozen=True)
class Finished:
    """A process that has ended, and all it said."""

    command: Sequence[str]
    returncode: int
    output: str


# Processes under way, so that an interruption can end those that other threads wait for.
_running: Set[subprocess.Popen[str]] = set()


def clean_environment(extra: Mapping[str, str] = {}) -> Dict[str, str]:
    """The environment for compilers: ours, less what changes them unseen, in the C locale."""
    environment = {name: value for name, value in os.environ.items() if name not in HIDDEN_INFLUENCES}
    environment["LC_ALL"] = "C"
    environment.update(extra)
    return environment


def run(
    command: Sequence[str],
    log: Optional[Path] = None,
    cwd: Optional[Path] = None,
    environment: Optional[Mapping[str, str]] = None,
    on_line: Optional[Callable[[str], None]] = None,
    show: bool = True,
) -> Finished:
    """Run to the end and return what was said. Raises BuildError only when the program cannot be started."""
    if show:
        print("+ " + shlex.join(command), file=sys.stderr, flush=True)
    lines: List[str] = []
    try:
        process = subprocess.Popen(
            list(command),
            cwd=cwd,
            env=dict(environment) if environment is not None else clean_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise BuildError(
            f"cannot start: `{command[0]}` ({error.strerror})", "is it installed and executable?"
        ) from error
    assert process.stdout is not None
    _running.add(process)
    try:
        for line in process.stdout:
            lines.append(line)
            if on_line is not None:
                on_line(line.rstrip("\n"))
        process.wait()
    except BaseException:
        # Ctrl-C reaches only us, since the child has a session of its own: end its whole family, then report.
        _end(process)
        raise
    finally:
        _running.discard(process)
        process.stdout.close()
        if log is not None:
            log.parent.mkdir(parents=True, exist_ok=True)
            log.write_text("+ " + shlex.join(command) + "\n" + "".join(lines), encoding="utf-8")
    return Finished(tuple(command), process.returncode, "".join(lines))


def end_running() -> None:
    """End every process that is under way, in whatever thread."""
    for process in list(_running):
        _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    for sign in (signal.SIGINT, signal.SIGKILL):
        try:
            os.killpg(process.pid, sign)
            process.wait(timeout=5)
            return
        except subprocess.TimeoutExpired:
            continue
        except ProcessLookupError:
            process.wait()
            return


def first_error(output: str) -> str:
    """The first line of a compiler's log that says what is wrong, or the last line that says anything."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    for line in lines:
        if _ERRORS.search(line) and not line.startswith(("FAILED:", "ninja:", "+ ")):
            return line
    said = [line for line in lines if not line.startswith(("FAILED:", "+ "))]
    return said[-1] if said else "the command said nothing"


def hint_for(output: str, returncode: int) -> Optional[str]:
    """What usually helps against an error like this one."""
    if returncode in (-9, 137):
        return _HINTS[0][1]
    for pattern, hint in _HINTS:
        if re.search(pattern, output):
            return hint
    return None

"""Writes the one ninja file of a build, runs it, and reduces a failure to its first real error."""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Dict, List, Mapping, Sequence, Tuple

from farm.actions import Action, Graph
from farm.errors import BuildError
from farm.process import Finished, clean_environment, first_error, hint_for, run
from farm.settings import Settings

FILE = Path("build/build.ninja")
LOGS = Path("build/logs")
_PROGRESS = re.compile(r"\[(\d+)/(\d+)\]")


@dataclass(frozen=True)
class Failure:
    """One failed action: what it was to make, and what was said."""

    output: str
    said: str


def render(graph: Graph) -> str:
    """The ninja file: sorted, so that equal graphs make equal files."""
    lines = [
        "# Written by farm/ninja.py.",
        "ninja_required_version = 1.8",
        "builddir = build",
        "rule run",
        "  command = $cmd",
        "  description = $out",
        "rule compile",
        "  command = $cmd",
        "  description = $out",
        "  deps = gcc",
        "  depfile = $out.d",
    ]
    for output in sorted(graph.actions):
        lines.extend(_edge(graph.actions[output]))
    return "\n".join(lines) + "\n"


def _edge(action: Action) -> List[str]:
    rule = "compile" if action.depfile else "run"
    inputs = "".join(f" {_path(path)}" for path in action.inputs)
    command = shlex.join(action.command).replace("$", "$$")
    return [f"build {_path(action.output)}: {rule}{inputs}", f"  cmd = {command}"]


def _path(path: str) -> str:
    return path.replace("$", "$$").replace(" ", "$ ").replace(":", "$:")


def ninja_command() -> Tuple[str, ...]:
    if importlib.util.find_spec("ninja") is not None:
        return sys.executable, "-m", "ninja"
    path = shutil.which("ninja")
    if path is None:
        raise BuildError("there is no ninja", f"{sys.executable} -m pip install ninja")
    return (path,)


def execute(
    root: Path, graph: Graph, targets: Sequence[str], settings: Settings
) -> Tuple[Finished, Tuple[Failure, ...]]:
    """Make the targets. Other targets go on after a failure; every failure is returned."""
    file = root / FILE
    file.parent.mkdir(parents=True, exist_ok=True)
    text = render(graph)
    if not file.is_file() or file.read_text(encoding="utf-8") != text:
        file.write_text(text, encoding="utf-8")
    extra: Dict[str, str] = {"SOURCE_DATE_EPOCH": str(settings.epoch), "NINJA_STATUS": "[%f/%t] "}
    if settings.nvcc_threads is not None:
        # By the environment, so that the number of threads is no reason to compile anything again.
        extra["NVCC_APPEND_FLAGS"] = f"--threads {settings.nvcc_threads}"
    command = [*ninja_command(), "-f", str(FILE), "-j", str(settings.jobs), "-k", "0", *targets]
    try:
        finished = _run(root, command, extra, _show_progress)
    except DamagedLogError:
        # ninja 1.13 reads past the damage, but never repairs it, and would compile everything each time.
        print(
            "ninja's record of dependencies was damaged, by a killed run: compiling again", file=sys.stderr, flush=True
        )
        (root / "build" / ".ninja_deps").unlink(missing_ok=True)
        finished = _run(root, command, extra, _show_progress)
    return finished, tuple(_failures(finished.output))


class DamagedLogError(Exception):
    """ninja says that it cannot read all of its record of dependencies."""


def _run(root: Path, command: Sequence[str], extra: Mapping[str, str], on_line: Callable[[str], None]) -> Finished:
    log = root / LOGS / "build.log"
    return run(command, log=log, cwd=root, environment=clean_environment(extra), on_line=on_line, show=False)


def _show_progress(line: str) -> None:
    if line.startswith("ninja: warning: premature end of file"):
        raise DamagedLogError
    if _PROGRESS.match(line) or line.startswith("ninja: no work"):
        print(line, file=sys.stderr, flush=True)


def _failures(output: str) -> List[Failure]:
    """ninja prints `FAILED: [code=N] output`, the command, then what the command said, up to its next status line."""
    failures: List[Failure] = []
    said: List[str] = []
    target = ""
    for line in [*output.splitlines(), "[1/1] end"]:
        failed = re.match(r"FAILED: (?:\[code=-?\d+\] )?(\S+)", line)
        if failed or _PROGRESS.match(line) or line.startswith("ninja: "):
            if target:
                failures.append(Failure(target, "\n".join(said[1:]) or "\n".join(said)))
            target, said = (failed[1], []) if failed else ("", [])
        elif target:
            said.append(line)
    return failures


def explain(finished: Finished, failures: Sequence[Failure], names: Mapping[str, str]) -> BuildError:
    """One error for a failed run. `names`: for each output, the first build that wanted it."""
    if not failures:
        hint = hint_for(finished.output, finished.returncode)
        return BuildError(
            f"ninja stopped: {first_error(finished.output)}", hint or f"the whole log is in {LOGS / 'build.log'}"
        )
    first = failures[0]
    name = names.get(first.output, "unknown")
    more = f"; {len(failures) - 1} more failed" if len(failures) > 1 else ""
    message = f"{name}: `{first.output}` could not be made{more}: {first_error(first.said)}"
    hint = hint_for(first.said, 1) or "the log shows the whole command and all that it said"
    return BuildError(message, f"{hint}; the whole log: {LOGS / (name + '.log')}")

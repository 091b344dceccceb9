"""From a checkout to a proven install: build the wheel that fits this machine, index it, install it, check it.

Every step is a command that a maintainer or a user would type; the table at the end says where each minute went.
"""

from __future__ import annotations

import argparse
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator, Mapping, Optional, Sequence

from farm.cli import read_project
from scripts.readme import example

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = """\
examples:
  nox -s quickstart                       build, install beside torch 2.13.0, check
  nox -s quickstart -- --torch 2.9.1      the same beside another torch
  nox -s quickstart -- --no-cuda          leave the CUDA kernels out although an nvcc is here
  nox -s quickstart -- --keep my-env      keep the environment that was made
"""


class StepError(Exception):
    """A step's command ended with an error; the command has said why."""


class Stopwatch:
    """Runs the steps, says which one is under way, and remembers how long each took."""

    def __init__(self) -> None:
        self.laps: list[tuple[str, float]] = []

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        print(f"\n== {name}", file=sys.stderr, flush=True)
        start = time.monotonic()
        try:
            yield
        finally:
            self.laps.append((name, time.monotonic() - start))

    def report(self) -> str:
        total = sum(seconds for _, seconds in self.laps)
        rows = [*self.laps, ("in all", total)]
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {seconds:7.1f} s" for name, seconds in rows)


def run(
    command: Sequence[str],
    shown: Optional[str] = None,
    folder: Path = ROOT,
    environment: Optional[Mapping[str, str]] = None,
) -> None:
    """Run one visible command, from the checkout unless told otherwise, with further variables in its environment.

    StepError when it does not end with 0.
    """
    text = shown or shlex.join(command)
    print(f"+ {text}", file=sys.stderr, flush=True)
    code = subprocess.run(command, cwd=folder, env={**os.environ, **(environment or {})}).returncode
    if code != 0:
        raise StepError(f"`{text}` ended with exit code {code}")


def builds_for_this_machine(cuda: Optional[bool]) -> list[str]:
    """The universal builds that this machine can make: CPU, and CUDA where a toolkit is found (cuda=None) or asked for (True)."""
    universal = [
        build for build in read_project().builds if build.kind == "universal" and build.machine == platform.machine()
    ]
    here = [build for build in universal if build.reason is None and (cuda is not False or build.accelerator == "cpu")]
    if not here:
        raise StepError(f"nothing can be built here: {universal[0].reason if universal else 'no row for this machine'}")
    if cuda and all(build.accelerator == "cpu" for build in here):
        why = next((build.reason for build in universal if build.accelerator != "cpu"), "no row for this machine")
        raise StepError(f"CUDA kernels were asked for and cannot be built: {why}\nhint: leave --cuda out")
    return [build.identifier for build in here]


def quickstart(torch: str, cuda: Optional[bool], environment: Path, watch: Stopwatch) -> None:
    """The whole way, step by step."""
    python = str(environment / "bin" / "python")
    farm = [sys.executable, "-m", "farm"]
    installer = [sys.executable, "-m", "mamba_install"]
    wheelhouse = ROOT / "wheelhouse"
    with watch.step("build the wheels that fit this machine"):
        only = [word for build in builds_for_this_machine(cuda) for word in ("--only", build)]
        run([*farm, "build", *only, "--output", str(wheelhouse)])
    with watch.step("check and index them"):
        run([*farm, "check", *map(str, sorted(wheelhouse.glob("mamba_ssm-*.whl")))])
        run([*farm, "index", str(wheelhouse)])
    with watch.step(f"make a fresh environment with torch {torch}"):
        run([sys.executable, "-m", "venv", str(environment)])
        run([python, "-m", "pip", "install", "--quiet", f"torch=={torch}", "numpy"])
    with watch.step("install with mamba_install, which proves it against float64"):
        run([*installer, "install", "--index", str(wheelhouse / "simple"), "--python", python])
    with watch.step("run the example of README.md"):
        # Away from the checkout, so that the installed package is imported.
        run([python, "-c", example()], shown=f"{python} -c (the example of README.md)", folder=environment)


def parse(argv: Optional[Sequence[str]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="quickstart", description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--torch", default="2.13.0", metavar="VERSION", help="torch of the fresh environment [%(default)s]"
    )
    parser.add_argument("--cuda", action="store_true", default=None, help="insist on CUDA kernels")
    parser.add_argument("--no-cuda", dest="cuda", action="store_false", help="build CPU kernels only")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="make the environment here and keep it")
    return parser.parse_args(argv)


def main(argv: Optional[Sequence[str]] = None) -> int:
    arguments = parse(argv)
    watch = Stopwatch()
    folder = Path(tempfile.mkdtemp(prefix="mamba-quickstart-"))
    try:
        quickstart(arguments.torch, arguments.cuda, (arguments.keep or folder / "environment").resolve(), watch)
    except StepError as error:
        print(f"quickstart stopped: {error}", file=sys.stderr)
        return 8
    except KeyboardInterrupt:
        print("quickstart interrupted; finished steps are kept in build/ and wheelhouse/", file=sys.stderr)
        return 130
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if watch.laps:
            print("\n" + watch.report())
    print("the wheel is built, installed and proven; it lies in wheelhouse/")
    return 0


if __name__ == "__main__":
    sys.exit(main())

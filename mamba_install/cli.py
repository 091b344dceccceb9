"""The command line: reads the arguments, follows the pipeline, prints, and turns errors into exit codes."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence

from mamba_install import __version__, report
from mamba_install.errors import (
    EXIT_DONE,
    EXIT_INTERRUPTED,
    InstallerError,
    NothingFitsError,
    SelfCheckError,
    UsageError,
)

EXAMPLES = """\
examples:
  python -m mamba_install --index wheelhouse                  install from a folder of wheels
  python -m mamba_install --index URL --dry-run               show the choice and every rejection, change nothing
  python -m mamba_install --python .venv/bin/python           install into another environment
  python -m mamba_install --environment FACTS.json --json     what would be chosen for a reported environment
  python -m mamba_install list --index URL                    every wheel, with "fits" or why not
  python -m mamba_install verify                              prove by numbers what is installed
  python -m mamba_install doctor --json > report.json         facts and decision, for a bug report
  python -m mamba_install doctor --log build.log --lang zh    what an error means and what cures it

exit codes: 0 done; 2 usage; 3 nothing fits; 4 only a build from source would help; 5 network; 6 a file failed its check; 7 the self-check failed;
  10 the environment does not let us install; 130 interrupted
"""


# of a longer log the end is read, where a failed build says why
LOG_BYTES = 1 << 20


class Console:
    """The only place that prints: data to stdout, everything else to stderr, colour only where it is seen."""

    def __init__(self, as_json: bool = False, quiet: bool = False) -> None:
        self.as_json = as_json
        self.quiet = quiet
        self.is_terminal = sys.stderr.isatty()
        self.colour = self.is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self._last_step = -1

    def data(self, text: str) -> None:
        if text:
            print(text, flush=True)

    def object(self, value: Mapping[str, Any]) -> None:
        print(json.dumps(value, indent=2), flush=True)

    def log(self, text: str) -> None:
        if not self.quiet:
            print(text, file=sys.stderr, flush=True)

    def error(self, error: InstallerError) -> None:
        head = "\033[31merror:\033[0m" if self.colour else "error:"
        print(f"{head} {error.message}", file=sys.stderr)
        if error.code:
            print(f"code: {error.code}", file=sys.stderr)
        if isinstance(error, NothingFitsError) and error.decision.command:
            print(f"try: {error.decision.command}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr, flush=True)

    def progress(self, done: int, total: Optional[int]) -> None:
        """A bar on a terminal; elsewhere a line at the start and at the end."""
        if self.quiet:
            return
        if self.is_terminal:
            step = 100 * done // total if total else done >> 20
            finished = total is not None and done >= total
            if step != self._last_step or finished:
                self._last_step = step
                print(
                    "\r" + report.progress_bar(done, total), end="\n" if finished else "", file=sys.stderr, flush=True
                )
        elif done == 0:
            print(f"fetching {total / 1e6:.1f} MB" if total else "fetching", file=sys.stderr, flush=True)
        elif total is not None and done >= total:
            print(f"fetched {done / 1e6:.1f} MB", file=sys.stderr, flush=True)


@contextlib.contextmanager
def _tools(console: Console) -> Iterator[Any]:
    from mamba_install.client import Client
    from mamba_install.pipeline import Tools

    work = Path(tempfile.mkdtemp(prefix="mamba-install-"))
    try:
        yield Tools(Client(log=console.log), work, console.log, console.progress)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _request(arguments: argparse.Namespace, needs_index: bool = True) -> Any:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    from mamba_install.records import Policy, Request
    from mamba_install.sources import INDEX_VARIABLE, choose_indexes

    version = arguments.version_wanted
    if version is not None:
        version = version if version[:1] in "<>=!~" else f"=={version}"
        try:
            SpecifierSet(version)
        except InvalidSpecifier as error:
            raise UsageError(f"not a version: `{arguments.version_wanted}`", "like `2.4.0` or `>=2.4,<3`") from error
    variable = os.environ.get(INDEX_VARIABLE)
    indexes = choose_indexes(arguments.index, variable) if needs_index or arguments.index or variable else ()
    policy = Policy(arguments.package, version, arguments.prefer_classic, arguments.accept_cpu)
    return Request(policy, indexes, arguments.python, arguments.environment, getattr(arguments, "dry_run", False))


def run_install(arguments: argparse.Namespace, console: Console) -> int:
    """Facts, decision, download, check, install, proof; `--dry-run` stops at the decision."""
    from mamba_install.pipeline import DECIDING, INSTALLING, follow

    request = _request(arguments)
    replayed = request.facts_file is not None
    if replayed and not request.dry_run:
        console.log("the facts come from a file: nothing will be installed")
    deciding_only = request.dry_run or replayed
    with _tools(console) as tools:
        run = follow(DECIDING if deciding_only else INSTALLING, request, tools)
    decision = run.decision
    if decision is None:
        raise AssertionError("`decide` is a step of both")
    if console.as_json:
        answer: Dict[str, Any] = dict(decision.as_dict())
        if run.installed is not None:
            answer["previous"] = run.installed.previous
            answer["torch"] = run.installed.torch
            answer["selfcheck"] = dict(run.installed.selfcheck.report)
        console.object(answer)
        return EXIT_DONE
    console.data(report.joined(report.decision_lines(decision)))
    if run.installed is not None:
        from mamba_install.verify import table

        console.data(report.joined(report.installed_lines(run.installed)))
        console.data(report.joined(table(run.installed.selfcheck.report)))
        console.data(f"self-check: {run.installed.selfcheck.message}")
    return EXIT_DONE


def run_list(arguments: argparse.Namespace, console: Console) -> int:
    """Every wheel of the package, with "fits" or why not."""
    from mamba_install.pipeline import collect_candidates, follow, gather_facts
    from mamba_install.resolve import resolve

    request = _request(arguments)
    with _tools(console) as tools:
        run = follow((gather_facts, collect_candidates), request, tools)
    decision = resolve(run.environment, run.candidates, request.policy)
    if console.as_json:
        fitting = [{"wheel": one.filename, "source": one.source} for one in decision.fitting]
        console.object({"fitting": fitting, "rejected": decision.as_dict()["rejected"]})
    else:
        console.data(report.joined(report.list_lines(run.candidates, decision)))
    return EXIT_DONE


def run_verify(arguments: argparse.Namespace, console: Console) -> int:
    """The self-check of what is installed: one table, one verdict."""
    from mamba_install.verify import table, verify

    python = str(Path(arguments.python).absolute()) if os.sep in arguments.python else arguments.python
    selfcheck = verify(python, arguments.package, console.log)
    if console.as_json:
        console.object({"ok": selfcheck.ok, "message": selfcheck.message, "report": dict(selfcheck.report)})
    else:
        console.data(report.joined(table(selfcheck.report)))
        console.data(f"verdict: {'ok' if selfcheck.ok else 'FAILED'}, {selfcheck.message}")
    return EXIT_DONE if selfcheck.ok else SelfCheckError.exit_code


def run_doctor(arguments: argparse.Namespace, console: Console) -> int:
    """Facts, the decision with its reasons, and the cause of an error (`--log`, `--text`) with the commands that cure it."""
    from mamba_install.pipeline import collect_candidates, follow, gather_facts
    from mamba_install.resolve import resolve

    request = _request(arguments, needs_index=False)
    text = _error_text(arguments)
    decision, trouble = None, None
    with _tools(console) as tools:
        run = follow((gather_facts,), request, tools)
        if request.indexes:
            try:
                run = collect_candidates(run, tools)
                decision = resolve(run.environment, run.candidates, request.policy)
            except InstallerError as error:
                trouble = error
    from mamba_install.doctor import conclude, conclusion_lines

    conclusion = conclude(run.environment, text, request.policy.package, decision, arguments.lang)
    if console.as_json:
        console.object(
            {
                "version": __version__,
                **conclusion.as_dict(),
                "facts": run.environment.as_dict(),
                "decision": decision.as_dict() if decision else None,
                "error": trouble.message if trouble else None,
            }
        )
        return EXIT_DONE
    if not text:
        console.data(report.joined(report.fact_lines(run.environment)))
    if text or (decision is None and conclusion.code):
        console.data(report.joined(["", *conclusion_lines(conclusion, arguments.lang)]).lstrip("\n"))
    elif decision is not None and decision.candidate is not None:
        console.data(report.joined(["", *report.decision_lines(decision)]))
    elif decision is not None:
        lines = [f"\nnothing fits: {decision.message}", f"code: {decision.code}", f"try: {decision.command}"]
        console.data(report.joined([*lines, f"hint: {decision.hint}", *report.diagnosis_lines(decision)]))
    if trouble is not None:
        console.data(f"\nno decision: {trouble.message}")
    elif decision is None:
        console.data("\nno decision: no index is named (`--index`)")
    return EXIT_DONE


def _error_text(arguments: argparse.Namespace) -> str:
    """What `--text` says and the end of what `--log` holds; `-` is stdin."""
    parts = list(arguments.text)
    for name in arguments.log:
        try:
            if name == "-":
                parts.append(sys.stdin.read(LOG_BYTES))
                continue
            with Path(name).open("rb") as log:
                size = log.seek(0, os.SEEK_END)
                log.seek(max(0, size - LOG_BYTES))
                parts.append(log.read(LOG_BYTES).decode("utf-8", errors="replace"))
        except OSError as error:
            raise UsageError(f"the log cannot be read: `{name}` ({error.strerror})") from error
    return "\n".join(parts)


COMMANDS: Dict[str, Callable[[argparse.Namespace, Console], int]] = {
    "install": run_install,
    "list": run_list,
    "verify": run_verify,
    "doctor": run_doctor,
}


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mamba_install",
        description="Finds the wheel of mamba_ssm or causal_conv1d that fits an environment, or says exactly why none does.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"mamba-install {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, function in COMMANDS.items():
        summary = (function.__doc__ or "").strip()
        command = commands.add_parser(
            name,
            help=summary,
            description=summary,
            epilog=EXAMPLES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        _add_options(command)
        if name == "install":
            command.add_argument("--dry-run", action="store_true", help="stop at the decision; nothing is changed")
        if name == "doctor":
            add = command.add_argument
            add(
                "--log",
                action="append",
                default=[],
                metavar="FILE",
                help="a log with the error; `-` is stdin; repeatable",
            )
            add("--text", action="append", default=[], metavar="ERROR", help="the error itself; repeatable")
            add("--lang", choices=("en", "zh"), default="en", help="language of the answer [%(default)s]")
    return parser


def _add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--index",
        action="append",
        default=[],
        metavar="X",
        help="folder, simple index, release listing or list of names; repeatable",
    )
    add("--python", default=sys.executable, metavar="EXE", help="interpreter of the target environment [this one]")
    add("--environment", type=Path, metavar="FACTS.json", help="take the facts from a file and probe nothing")
    add("--package", default="mamba_ssm", metavar="NAME", help="distribution to install [%(default)s]")
    add("--version", dest="version_wanted", metavar="SPEC", help="`2.4.0` or `>=2.4,<3` [the newest that fits]")
    add("--prefer-classic", action="store_true", help="a wheel for exactly this torch before a universal one")
    add("--accept-cpu", action="store_true", help="a wheel with CPU kernels only, even if torch could use a GPU")
    add("--json", action="store_true", help="one object on stdout")


def with_command(argv: Sequence[str]) -> List[str]:
    """`install` is what is meant where no command stands first."""
    if argv and (argv[0] in COMMANDS or argv[0] in ("-h", "--help") or list(argv) == ["--version"]):
        return list(argv)
    if argv and not argv[0].startswith("-"):
        return list(argv)  # argparse says which commands there are
    return ["install", *argv]


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run one command; the return value is the exit code."""
    arguments = build_parser().parse_args(with_command(sys.argv[1:] if argv is None else argv))
    console = Console(as_json=arguments.json)
    try:
        return COMMANDS[arguments.command](arguments, console)
    except InstallerError as error:
        if console.as_json:
            if isinstance(error, NothingFitsError):
                console.object(error.decision.as_dict())
            else:
                console.object(report.error_object(error.message, error.hint, error.code))
        elif isinstance(error, NothingFitsError):
            console.data(report.joined(report.diagnosis_lines(error.decision)))
        console.error(error)
        return error.exit_code
    except KeyboardInterrupt:
        console.log("\ninterrupted: what was under way is undone")
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # whoever read our output has gone; Python must not try to write the rest at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_DONE

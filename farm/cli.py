"""The command line of the farm: parses, calls, prints. Data goes to stdout, everything else to stderr."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

from farm.actions import Binding, Graph, add_build
from farm.archs import ArchError, parse_archs
from farm.builder import build_all, wanted_bindings
from farm.check import check_wheel
from farm.errors import BuildError, CheckError, FarmError, UsageError
from farm.facts import Facts, read_facts
from farm.headers import Headers, cached_headers
from farm.index import PAGES, channel_of, write_index
from farm.matrix import Matrix, read_matrix
from farm.pack import requires
from farm.plan import Build, override_archs, plan, read_version, select
from farm.settings import VARIABLES, Settings
from farm.toolchains import find_toolchains, host_compiler_major

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = """\
examples:
  python -m farm plan                                        every build, and what this machine cannot build
  python -m farm build --only "universal-cpu-*"              one wheel for every torch, CPU kernels
  python -m farm build --only torch2.13-cu130-cp311-abi1-x86_64 --archs "8.0;9.0"
  python -m farm check wheelhouse/*.whl
  python -m farm index wheelhouse                            then: pip install mamba-ssm --index-url .../simple/universal/cpu/
  python -m farm explain universal-cpu-x86_64                every command of one build, and why

exit codes: 0 done; 2 usage; 5 network; 6 a file failed its check; 8 the build failed; 9 the matrix is invalid; 130 interrupted
"""


@dataclass(frozen=True)
class Project:
    """The checkout, its matrix and what this machine has."""

    facts: Facts
    matrix: Matrix
    builds: Tuple[Build, ...]


def read_project() -> Project:
    facts = read_facts(ROOT / "facts.yaml")
    matrix = read_matrix(ROOT / "matrix.yaml", facts)
    compiler = host_compiler_major() is not None
    try:
        toolchains = find_toolchains()
    except BuildError as error:
        # A broken nvcc that merely lies about is no reason not to build for the CPU; one that was named is.
        if os.environ.get("CUDA_HOME", "").strip():
            raise
        toolchains = ()
        print(f"farm: without CUDA: {error}", file=sys.stderr)
    builds = plan(matrix, facts, toolchains, platform.machine(), read_version(ROOT), compiler)
    return Project(facts, matrix, builds)


def run_plan(arguments: argparse.Namespace) -> int:
    builds, _ = select(read_project().builds, arguments.only)
    if arguments.json:
        print(json.dumps({"builds": [build.as_json() for build in builds]}, indent=1))
        return 0
    # The same reason for a hundred builds is said once.
    reasons: List[str] = []
    for build in builds:
        mark = ""
        if build.reason is not None:
            if build.reason not in reasons:
                reasons.append(build.reason)
            mark = f"  not here [{reasons.index(build.reason) + 1}]"
        print(build.identifier + mark + "".join(f"\n    {note}" for note in build.notes))
    here = sum(build.reason is None for build in builds)
    print(f"\n{len(builds)} builds, {here} of them can be built on this machine")
    for number, reason in enumerate(reasons, 1):
        print(f"[{number}] {reason}")
    return 0


def choose_builds(project: Project, only: Sequence[str], archs: Optional[str]) -> Tuple[Build, ...]:
    """What is asked for and can be built here. A build asked for by its own name that cannot is an error."""
    chosen, exact = select(project.builds, only)
    for build in chosen:
        if build.reason is not None and build.identifier in exact:
            raise BuildError(f"{build.identifier} cannot be built on this machine: {build.reason}")
    buildable = tuple(build for build in chosen if build.reason is None)
    left_out = len(chosen) - len(buildable)
    if left_out:
        print(
            f"left out: {left_out} builds that this machine cannot build; `python -m farm plan` says why",
            file=sys.stderr,
        )
    if not buildable:
        raise BuildError(f"nothing to build: {chosen[0].reason}")
    if archs is None:
        return buildable
    try:
        wanted = parse_archs(archs)
    except ArchError as error:
        raise UsageError(f"--archs: {error}", "for example --archs '8.0;9.0+PTX'") from error
    if any(build.toolchain is None for build in buildable):
        raise UsageError("--archs is for CUDA builds, and a CPU build is among those chosen", "narrow --only")
    return tuple(override_archs(build, wanted) for build in buildable)


def run_build(arguments: argparse.Namespace) -> int:
    settings = Settings.from_environment()
    project = read_project()
    builds = choose_builds(project, arguments.only, arguments.archs)
    for name, value in (
        ("TORCH_CUDA_ARCH_LIST", settings.torch_arch_list),
        ("MAMBA_CUDA_ARCHITECTURES", settings.mamba_archs),
    ):
        if value is not None:
            print(f"{name} is ignored: in the farm the row decides; --archs overrides it", file=sys.stderr)
    for build in builds:
        for note in build.notes:
            print(f"{build.identifier}: {note}", file=sys.stderr)
    wheels = build_all(ROOT, builds, project.facts, settings, arguments.output)
    if arguments.json:
        rows = [{"identifier": wheel.build.identifier, "wheel": str(wheel.path)} for wheel in wheels]
        print(json.dumps({"wheels": rows}, indent=1))
    else:
        for wheel in wheels:
            print(wheel.path)
    return 0


def run_check(arguments: argparse.Namespace) -> int:
    if not arguments.wheels:
        project = read_project()
        print(f"matrix.yaml agrees with facts.yaml: {len(project.matrix.rows)} rows, {len(project.builds)} builds")
        return 0
    results = []
    failed: List[CheckError] = []
    for path in arguments.wheels:
        try:
            checked = check_wheel(path)
            results.append({"wheel": path.name, "ok": True, "findings": [], "notes": list(checked.notes)})
        except CheckError as error:
            failed.append(error)
            results.append(
                {"wheel": path.name, "ok": False, "findings": list(error.findings) or [str(error)], "notes": []}
            )
            print(f"farm: {error}", file=sys.stderr)
    if arguments.json:
        print(json.dumps({"wheels": results}, indent=1))
    else:
        for result in results:
            notes = "".join(f"\n    {note}" for note in result["notes"])
            print(f"{'ok    ' if result['ok'] else 'FAILED'} {result['wheel']}{notes}")
    return CheckError.exit_code if failed else 0


def run_index(arguments: argparse.Namespace) -> int:
    entries = write_index(arguments.folder)
    channels = sorted({channel for channel in (channel_of(entry.name) for entry in entries) if channel is not None})
    if arguments.json:
        print(json.dumps({"wheels": [entry.filename for entry in entries], "channels": channels}, indent=1))
        return 0
    print(f"{len(entries)} wheels in {len(channels)} channels below {arguments.folder / PAGES}:")
    for channel in channels:
        print(f"  {channel}/")
    return 0


def run_explain(arguments: argparse.Namespace) -> int:
    settings = Settings.from_environment()
    project = read_project()
    builds, _ = select(project.builds, [arguments.identifier])
    explained = [explain_build(build, project.facts, settings) for build in builds]
    if arguments.json:
        print(json.dumps({"builds": explained}, indent=1))
        return 0
    for each in explained:
        print(each["identifier"])
        print(f"  row: rows[{each['row']}] of matrix.yaml")
        print(f"  needs: {', '.join(each['requires'])}")
        print(f"  here: {each['reason'] or 'can be built'}")
        for action in each["actions"]:
            print(
                f"  {action['output']}\n    from {', '.join(action['inputs']) or 'nothing'}\n    + {action['command']}"
            )
    return 0


def explain_build(build: Build, facts: Facts, settings: Settings) -> dict[str, Any]:
    """Every command, its inputs, and where the build stands in the matrix. Nothing is fetched or run."""
    graph = Graph()
    bindings = []
    for torch, abi in wanted_bindings(build, facts) if build.reason is None else ():
        release = facts.torch[torch].release if torch else facts.stable_release
        expected = Headers(release, str(settings.cache / "headers" / f"{release}-aarch64" / "include"), "cache")
        bindings.append(Binding(cached_headers(release, settings.cache) or expected, torch, abi))
    if build.reason is None:
        add_build(graph, build, bindings, facts)
    actions = [
        {"output": action.output, "inputs": list(action.inputs), "command": shlex.join(action.command)}
        for action in sorted(graph.actions.values(), key=lambda action: action.output)
    ]
    needs = requires(build, facts) if not build.accelerator.startswith("rocm") else []
    return {**build.as_json(), "requires": needs, "actions": actions}


def parser() -> argparse.ArgumentParser:
    variables = "environment variables:\n" + "\n".join(f"  {name:<26} {text}" for name, text in VARIABLES.items())
    raw = argparse.RawDescriptionHelpFormatter
    root = argparse.ArgumentParser("farm", description=__doc__, epilog=EXAMPLES, formatter_class=raw)
    commands = root.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, run: Any, text: str, epilog: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text, epilog=epilog, formatter_class=raw)
        command.add_argument("--json", action="store_true", help="print one JSON object")
        command.set_defaults(run=run)
        return command

    only: Dict[str, Any] = {
        "action": "append",
        "default": [],
        "metavar": "ID",
        "help": "an identifier or a pattern; may be repeated; `mamba_ssm-` may be left out",
    }
    plan_command = add(
        "plan",
        run_plan,
        "list the builds of matrix.yaml, and what this machine cannot build, with the reason",
        'example: python -m farm plan --only "*-cu130-*"',
    )
    plan_command.add_argument("--only", **only)
    build_command = add(
        "build", run_build, "build wheels", f'example: python -m farm build --only "universal-cpu-*"\n\n{variables}'
    )
    build_command.add_argument("--only", **only)
    build_command.add_argument(
        "--output", type=Path, default=Path("wheelhouse"), metavar="FOLDER", help="where the wheels go [%(default)s]"
    )
    build_command.add_argument(
        "--archs", metavar="LIST", help="other architectures than the row's, as in TORCH_CUDA_ARCH_LIST"
    )
    check_command = add(
        "check",
        run_check,
        "open wheels and hold them against their names; without wheels, hold the matrix against the facts",
        "example: python -m farm check wheelhouse/*.whl",
    )
    check_command.add_argument("wheels", nargs="*", type=Path, metavar="WHEEL")
    index_command = add(
        "index",
        run_index,
        "write a static simple index over a folder of wheels",
        "example: python -m farm index wheelhouse",
    )
    index_command.add_argument("folder", type=Path, metavar="FOLDER")
    explain_command = add(
        "explain",
        run_explain,
        "show every command and input of a build",
        "example: python -m farm explain universal-cpu-x86_64",
    )
    explain_command.add_argument("identifier", metavar="ID")
    return root


def main(argv: Optional[Sequence[str]] = None) -> int:
    arguments = parser().parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except FarmError as error:
        print(f"farm: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("farm: interrupted; what is finished is kept, and the next run goes on from there", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # `farm plan | head`: the reader has seen enough.
        sys.stderr.close()
        return 0
    except OSError as error:
        where = f": `{error.filename}`" if error.filename else ""
        print(
            f"farm: a file could not be read or written: {error.strerror or error}{where}\n"
            "hint: is the disk full, or the folder not ours?",
            file=sys.stderr,
        )
        return BuildError.exit_code

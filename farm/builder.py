"""The way of a build: settle the bindings, lay out the actions, run ninja once for all, pack each wheel."""

from __future__ import annotations

import shlex
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Dict, Iterator, List, Sequence, Set, Tuple

from farm import ninja
from farm.actions import Binding, Graph, Native, add_build
from farm.errors import BuildError
from farm.facts import Facts
from farm.headers import Headers, cached_headers, get_headers
from farm.pack import BuiltWheel, pack
from farm.plan import Build
from farm.process import end_running, first_error
from farm.settings import Settings
from farm.toolchains import check_host_compiler

DOWNLOADS_AT_ONCE = 2  # each holds a wheel of 100 to 200 MB on disk for a moment


def wanted_bindings(build: Build, facts: Facts) -> List[Tuple[str, bool]]:
    """(minor, ABI) of each classic binding of a farm build, and ("", True) for the stable one."""
    if build.kind == "classic":
        assert build.torch is not None
        return [("", True)] if facts.is_stable(build.torch) else [(build.torch, bool(build.cxx11abi))]
    found = facts.classic_bindings(build.machine, build.accelerator)
    return [*found, ("", True)] if facts.meets_stable(build.machine, build.accelerator) else found


def headers_for(torches: Set[str], facts: Facts, settings: Settings, root: Path) -> Dict[str, Headers]:
    """The headers of each minor ("" for the stable binding), from the cache or by download."""
    releases = {torch: facts.torch[torch].release if torch else facts.stable_release for torch in torches}
    found: Dict[str, Headers] = {}
    missing: Dict[str, str] = {}
    for torch, release in sorted(releases.items()):
        headers = cached_headers(release, settings.cache)
        if headers is None:
            missing[torch] = release
        else:
            found[torch] = headers
    if missing:
        print(f"torch headers: {len(found)} in the cache, {len(missing)} to fetch", file=sys.stderr, flush=True)

    def fetch(item: Tuple[str, str]) -> Tuple[str, Headers]:
        torch, release = item
        return torch, get_headers(release, settings.cache, root / ninja.LOGS / f"headers-{release}.log")

    with ThreadPoolExecutor(DOWNLOADS_AT_ONCE) as pool:
        try:
            found.update(pool.map(fetch, missing.items()))
        except BaseException:
            # Leaving the block waits for the threads: let them have nothing to wait for.
            pool.shutdown(wait=False, cancel_futures=True)
            end_running()
            raise
    return found


@contextmanager
def only_one(root: Path) -> Iterator[None]:
    """Two builds in one checkout would write the same files: the second waits. The system frees the lock of a killed one."""
    import fcntl  # not on Windows, where nothing is compiled

    (root / "build").mkdir(exist_ok=True)
    with (root / "build" / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("another build is under way in this checkout: waiting for it", file=sys.stderr, flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def make(
    root: Path, wanted: Sequence[Tuple[Build, Sequence[Binding]]], facts: Facts, settings: Settings
) -> Tuple[Dict[str, Native], Dict[str, str]]:
    """Compile and link for all builds at once. The native files of each build that succeeded, and the error of each other."""
    graph = Graph()
    natives = {build.identifier: add_build(graph, build, bindings, facts) for build, bindings in wanted}
    targets = sorted({path for native in natives.values() for path in native.files.values()})
    finished, failures = ninja.execute(root, graph, targets, settings)
    errors: Dict[str, str] = {}
    owners: Dict[str, str] = {}
    closures = {name: set(graph.closure(list(native.files.values()))) for name, native in natives.items()}
    for name, outputs in closures.items():
        for output in outputs:
            owners.setdefault(output, name)
        mine = [failure for failure in failures if failure.output in outputs]
        _write_log(root, name, graph, outputs, [failure.said for failure in mine])
        if mine:
            errors[name] = first_error(mine[0].said)
    if finished.returncode != 0:
        error = ninja.explain(finished, failures, owners)
        if len(errors) in (0, len(natives)):
            raise error
        print(f"farm: {error}", file=sys.stderr)
    return {name: native for name, native in natives.items() if name not in errors}, errors


def _write_log(root: Path, name: str, graph: Graph, outputs: Set[str], said: Sequence[str]) -> None:
    """The log of one build: each of its commands, and what those that failed said."""
    lines = [f"+ {shlex.join(graph.actions[output].command)}" for output in sorted(outputs)]
    path = root / ninja.LOGS / f"{name}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*lines, *said]) + "\n", encoding="utf-8")


def build_all(root: Path, builds: Sequence[Build], facts: Facts, settings: Settings, folder: Path) -> List[BuiltWheel]:
    """Build and pack. A failed build does not stop the others; BuildError at the end names those that are missing."""
    for build in builds:
        if build.toolchain is not None:
            check_host_compiler(build.toolchain, facts)
    choices = {build.identifier: wanted_bindings(build, facts) for build in builds}
    torches = {torch for choice in choices.values() for torch, _ in choice}
    headers = headers_for(torches, facts, settings, root)
    wanted = [
        (build, [Binding(headers[torch], torch, abi) for torch, abi in choices[build.identifier]]) for build in builds
    ]
    wheels = []
    with only_one(root):
        start = time.monotonic()
        natives, errors = make(root, wanted, facts, settings)
        compiled = time.monotonic()
        for build in builds:
            if build.identifier in natives:
                wheels.append(pack(root, build, natives[build.identifier], facts, settings, folder))
    ended = time.monotonic()
    print(f"compiled in {compiled - start:.1f} s, packed in {ended - compiled:.1f} s", file=sys.stderr, flush=True)
    if errors:
        lines = [f"{name}: {error}" for name, error in errors.items()]
        raise BuildError(
            "\n".join([f"{len(errors)} of {len(builds)} builds failed:", *lines]),
            f"what was built ({len(wheels)}) is in {folder}; logs are in build/logs",
        )
    return wheels

"""The whole way of an install, as a tuple of functions: read it from top to bottom."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Callable, Optional, Tuple

from mamba_install.client import Client
from mamba_install.environment import Environment, probe_environment, read_facts
from mamba_install.errors import BuildNeededError, NothingFitsError
from mamba_install.fetch import Progress
from mamba_install.process import Log
from mamba_install.records import Candidate, CheckedWheel, Decision, Installed, Request
from mamba_install.report import describe_environment
from mamba_install.resolve import resolve
from mamba_install.rules import objections
from mamba_install.sources import collect


@dataclass(frozen=True)
class Tools:
    """What the steps need from outside: a client, a folder for files under way, and somebody to tell."""

    client: Client
    work: Path
    log: Log
    progress: Progress


@dataclass(frozen=True)
class Run:
    """How far an install has come; each step fills in one more value."""

    request: Request
    environment: Environment = field(default_factory=Environment)
    candidates: Tuple[Candidate, ...] = ()
    decision: Optional[Decision] = None
    checked: Optional[CheckedWheel] = None
    installed: Optional[Installed] = None


Step = Callable[[Run, Tools], Run]


def gather_facts(run: Run, tools: Tools) -> Run:
    """Request -> Environment."""
    request = run.request
    facts = read_facts(request.facts_file) if request.facts_file else probe_environment(request.python)
    tools.log(f"environment: {describe_environment(facts)}")
    return replace(run, environment=facts)


def collect_candidates(run: Run, tools: Tools) -> Run:
    """Indexes -> Candidates."""
    return replace(run, candidates=tuple(collect(run.request.indexes, run.request.policy.package, tools.client)))


def decide(run: Run, tools: Tools) -> Run:
    """(Environment, Candidates, Policy) -> Decision; an error where no wheel comes of it."""
    decision = resolve(run.environment, run.candidates, run.request.policy)
    if decision.candidate is None:
        raise BuildNeededError(decision) if decision.outcome == "build" else NothingFitsError(decision)
    tools.log(f"chosen: {decision.candidate.filename} ({len(decision.rejected)} rejected)")
    return replace(run, decision=decision)


def check_target(run: Run, tools: Tools) -> Run:
    """Whether the environment lets us install, before anything is downloaded."""
    from mamba_install import install

    if run.environment.target is not None:
        install.check_target(run.environment.target)
    return run


def fetch_and_check(run: Run, tools: Tools) -> Run:
    """Decision -> Download -> CheckedWheel. A wheel that turns out not to serve this torch makes room for the next."""
    from mamba_install.fetch import fetch
    from mamba_install.wheelfile import check_wheel

    while run.decision is not None and run.decision.candidate is not None:
        candidate = run.decision.candidate
        checked = check_wheel(fetch(candidate, tools.work, tools.client, tools.progress))
        known = replace(candidate, contents=checked.contents)
        reasons = objections(run.environment, known, run.request.policy)
        if not reasons:
            return replace(run, checked=checked)
        tools.log(f"`{candidate.filename}` does not fit after all: {reasons[0].text}")
        others = tuple(known if one is candidate else one for one in run.candidates)
        run = decide(replace(run, candidates=others), tools)
    raise AssertionError("`decide` comes before and leaves a candidate")


def install_and_prove(run: Run, tools: Tools) -> Run:
    """CheckedWheel -> Installed, or the previous state and an error."""
    from mamba_install import process
    from mamba_install.install import install
    from mamba_install.verify import verify

    target, checked = run.environment.target, run.checked
    if target is None or checked is None:
        raise AssertionError("`gather_facts` and `fetch_and_check` come before")
    package = checked.download.candidate.name.distribution
    has_kernels = checked.contents is not None and bool(checked.contents.bindings)
    installed = install(
        checked,
        run.environment,
        tools.work,
        prove=lambda: verify(target.executable, package, tools.log, needs_binding=has_kernels),
        run=lambda command: process.run(command, tools.log, cwd=tools.work),
        log=tools.log,
    )
    return replace(run, installed=installed)


DECIDING: Tuple[Step, ...] = (gather_facts, collect_candidates, decide)
INSTALLING: Tuple[Step, ...] = (*DECIDING, check_target, fetch_and_check, install_and_prove)


def follow(steps: Tuple[Step, ...], request: Request, tools: Tools) -> Run:
    """Take the steps in their order."""
    run = Run(request)
    for step in steps:
        run = step(run, tools)
    return run

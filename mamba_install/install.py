"""Puts a checked wheel into the target environment by its own pip or uv, with torch held where it is, and undoes it on failure."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Callable, Dict, List, Mapping, Tuple

from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion

from mamba_install.environment import Environment, Target
from mamba_install.errors import CheckError, InstallRefusedError, NothingFitsError, SelfCheckError
from mamba_install.probes import list_installed, read_torch
from mamba_install.process import Finished, Log, Runner
from mamba_install.records import CheckedWheel, Decision, Installed, SelfCheck
from mamba_install.snapshot import Snapshot, take_snapshot

_SYSTEM_NAMES = {"linux": "Linux", "windows": "Windows", "macos": "Darwin"}
_SYS_PLATFORMS = {"linux": "linux", "windows": "win32", "macos": "darwin"}


def check_target(target: Target) -> None:
    """Whether anything may be installed there at all; asked before a byte is downloaded."""
    if target.externally_managed is not None and os.environ.get("PIP_BREAK_SYSTEM_PACKAGES") != "1":
        raise InstallRefusedError(
            f"this Python belongs to the operating system, which keeps pip out: `{target.externally_managed}` (PEP 668)",
            f"make an environment of your own: `{target.executable} -m venv --system-site-packages .venv`, "
            "then `--python .venv/bin/python`",
        )
    if target.virtual and not os.access(target.purelib, os.W_OK):
        raise InstallRefusedError(
            f"the environment is read-only for this user: `{target.purelib}`", "install as its owner, or make another"
        )
    choose_tool(target)


def choose_tool(target: Target) -> Tuple[str, ...]:
    """The beginning of an install command: pip of the target, or uv where there is no pip."""
    if "pip" in target.installed:
        return (target.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-input")
    uv = shutil.which("uv")
    if uv is not None:
        return (uv, "pip", "install", "--python", target.executable)
    raise InstallRefusedError(
        f"the target environment has no pip, and uv is not here: `{target.executable}`",
        f"`{target.executable} -m ensurepip`, or install uv",
    )


def unmet_requirements(checked: CheckedWheel, environment: Environment) -> List[str]:
    """The wheel's requirements that the environment does not meet; NothingFitsError where torch would have to change."""
    target = environment.target
    installed = target.installed if target is not None else {}
    unmet = []
    for text in checked.requires_dist:
        requirement = _parse_requirement(text, checked)
        if requirement.marker is not None:
            try:
                if not requirement.marker.evaluate(dict(marker_environment(environment))):
                    continue
            except (UndefinedComparison, UndefinedEnvironmentName, InvalidVersion) as error:
                raise CheckError(f"METADATA has a marker that cannot be evaluated: `{text}`") from error
        name = str(canonicalize_name(requirement.name))
        version = installed.get(name)
        if name == "torch":
            version = version or (environment.torch or "").partition("+")[0]
        if version and _contains(requirement, version):
            continue
        if name == "torch":
            raise NothingFitsError(_would_replace_torch(checked, environment, text))
        unmet.append(text)
    return unmet


def _parse_requirement(text: str, checked: CheckedWheel) -> Requirement:
    try:
        return Requirement(text)
    except InvalidRequirement as error:
        raise CheckError(
            f"METADATA of `{checked.download.path.name}` has a requirement that is none: `{text}`"
        ) from error


def _contains(requirement: Requirement, version: str) -> bool:
    try:
        return requirement.specifier.contains(version, prereleases=True)
    except InvalidVersion:
        return False


def _would_replace_torch(checked: CheckedWheel, environment: Environment, requirement: str) -> Decision:
    name = checked.download.path.name
    return Decision(
        outcome="diagnosis",
        code="WOULD_REPLACE_TORCH",
        candidate=None,
        command="python -m mamba_install list",
        message=f"`{name}` requires `{requirement}`, and torch {environment.torch} is installed: torch would be replaced",
        hint="choose another wheel with `--version`; this installer never changes torch",
        rejected=(),
    )


def marker_environment(environment: Environment) -> Mapping[str, str]:
    """The values of environment markers for the target. https://packaging.python.org/en/latest/specifications/dependency-specifiers/"""
    full = environment.python or "3.9.0"
    system = environment.system or "linux"
    return {
        "python_version": ".".join(full.split(".")[:2]),
        "python_full_version": full,
        "sys_platform": _SYS_PLATFORMS[system],
        "platform_system": _SYSTEM_NAMES[system],
        "platform_machine": environment.machine or "",
        "os_name": "nt" if system == "windows" else "posix",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "extra": "",
    }


def install(
    checked: CheckedWheel, environment: Environment, work: Path, prove: Callable[[], SelfCheck], run: Runner, log: Log
) -> Installed:
    """Install, compare torch, run the self-check. On any failure the previous state is put back."""
    target = environment.target
    if target is None:
        raise AssertionError("an install needs a probed environment")
    tool = choose_tool(target)
    unmet = unmet_requirements(checked, environment)
    before = torch_state(target)
    name = checked.download.candidate.name
    snapshot = take_snapshot(target, name.canonical_name, work / "previous")
    try:
        if unmet:
            _install_requirements(tool, unmet, target, work, run)
        _must_succeed(run([*tool, *_exactly_this_file(tool), str(checked.download.path)]), f"install `{name.filename}`")
        after = torch_state(target)
        if after != before:
            raise SelfCheckError(
                f"torch changed while the wheel was installed: {before} before, {after} now",
                "restore it with your own package manager, and report this: it must not happen",
            )
        selfcheck = prove()
        if not selfcheck.ok:
            raise SelfCheckError(f"installed, but the self-check failed: {selfcheck.message}", _undone(snapshot))
    except BaseException:
        log("putting the previous state back")
        snapshot.restore()
        raise
    return Installed(name.filename, snapshot.version, before.get("torch", ""), selfcheck)


def torch_state(target: Target) -> Dict[str, str]:
    """Everything by which a changed torch would show."""
    facts = read_torch(target.site_packages, {})
    state = {key: str(value) for key, value in facts.items()}
    state["metadata"] = list_installed(target.site_packages).get("torch", "")
    return state


def _exactly_this_file(tool: Tuple[str, ...]) -> Tuple[str, ...]:
    if "--python" in tool:  # uv
        return ("--no-deps", "--no-index", "--reinstall")
    return ("--no-deps", "--no-index", "--force-reinstall")


def _install_requirements(tool: Tuple[str, ...], unmet: List[str], target: Target, work: Path, run: Runner) -> None:
    """What the wheel needs beside torch, with torch pinned to what is there."""
    constraints = work / "constraints.txt"
    torch = target.installed.get("torch")
    constraints.write_text(f"torch=={torch}\n" if torch else "", encoding="utf-8")
    _must_succeed(
        run([*tool, "--constraint", str(constraints), *unmet]), f"install what the wheel requires, {', '.join(unmet)}"
    )


def _must_succeed(done: Finished, what: str) -> None:
    if done.code != 0:
        raise InstallRefusedError(
            f"could not {what}: {done.first_error}", f"everything that was said is in `{done.keep()}`"
        )


def _undone(snapshot: Snapshot) -> str:
    if snapshot.version is None:
        return "the wheel was removed again; `python -m mamba_install doctor --json` is a complete bug report"
    return f"version {snapshot.version} is back; `python -m mamba_install doctor --json` is a complete bug report"

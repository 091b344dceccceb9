"""The maintainers' commands. Each session's docstring is its help text; the work is done by importable code."""

from __future__ import annotations

import nox

nox.needs_version = ">=2024.4.15"
nox.options.sessions = ["quickstart"]
nox.options.reuse_existing_virtualenvs = True
nox.options.error_on_missing_interpreters = True

PROJECT = nox.project.load_toml("pyproject.toml")
TORCH = "torch==2.13.0"
TYPED = ("farm", "mamba_install", "mamba_ssm", "scripts", "tests", "noxfile.py")


def install_groups(session: nox.Session, *groups: str) -> None:
    """Install the named dependency groups of pyproject.toml."""
    session.install(*nox.project.dependency_groups(PROJECT, *groups))


@nox.session
def quickstart(session: nox.Session) -> None:
    """Build the wheel that fits this machine, index it, install it into a fresh environment, prove it (-- --help)."""
    install_groups(session, "farm", "installer")
    session.run("python", "-m", "scripts.quickstart", *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """All checks: linters, types, units, kernels, real builds, the ring of torch releases (-- --no-ring leaves that out)."""
    install_groups(session, "farm", "installer", "test")
    session.install(TORCH)
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy", *TYPED)
    session.run("python", "-m", "scripts.run_tests", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """Measure compile cost and CPU speed on this machine, and write docs/benchmarks.md (-- --help)."""
    install_groups(session, "farm", "installer")
    session.install(TORCH, "numpy")
    session.run("python", "-m", "scripts.bench", *session.posargs)


@nox.session(python=False)
def gpu(session: nox.Session) -> None:
    """On a machine with a GPU, with the torch of the python on PATH: a wheel's kernels against float64, and their speed (-- --help)."""
    session.run("python", "-m", "scripts.gpu_grid", *session.posargs)

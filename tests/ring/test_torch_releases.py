"""One universal wheel beside every torch minor that a binding of its own serves, and beside the ends of the stable one's range.

For each: a fresh environment, the installer, torch untouched, the self-check against float64, the README's example.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from pathlib import Path

import pytest

from scripts.readme import example
from tests.ring.environments import ROOT, Environment, fresh_environment

# release -> the binding that must have been chosen
RELEASES = {
    "1.13.1": "binding_torch1.13_abi0.so",
    "2.0.1": "binding_torch2.0_abi0.so",
    "2.1.2": "binding_torch2.1_abi0.so",
    "2.2.2": "binding_torch2.2_abi0.so",
    "2.3.1": "binding_torch2.3_abi0.so",
    "2.4.1": "binding_torch2.4_abi0.so",
    "2.5.1": "binding_torch2.5_abi0.so",
    "2.6.0": "binding_torch2.6_abi0.so",
    "2.7.1": "binding_torch2.7_abi1.so",
    "2.8.0": "binding_torch2.8_abi1.so",
    "2.9.1": "binding_stable.so",
    "2.13.0": "binding_stable.so",
    "2.14.1": "binding_stable.so",
}
# the whole op suite runs beside the oldest, the last with the old ABI, and both ends of the stable range
WHOLE_SUITE = {"1.13.1", "2.6.0", "2.9.1", "2.14.1"}
FACTS = """
import json, torch, mamba_ssm
print(json.dumps({"torch": torch.__version__, "cuda": torch.version.cuda, "info": mamba_ssm.backend_info().as_dict(),
                  "file": mamba_ssm.__file__}))
"""

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64" or sys.version_info[:2] != (3, 11),
    reason="the list is of x86_64 releases, and 3.11 is the one Python that all of them have",
)


def install(environment: Environment) -> None:
    before = environment.snapshot()
    assert any(name.startswith("torch-") for name in before)
    outcome = environment.installer("install", "--index", str(environment.wheelhouse / "simple"), "--json")
    assert outcome.code == 0, outcome.stderr + outcome.stdout
    decision = outcome.json()
    assert decision["outcome"] == "wheel"
    assert "universal" in decision["message"] or "+c" in decision["wheel"]
    assert environment.snapshot() == before, "installing changed another distribution"


def prove(environment: Environment, binding: str) -> None:
    verdict = environment.installer("verify", "--json")
    assert verdict.code == 0, verdict.stderr + verdict.stdout
    facts = environment.run("-c", FACTS)
    assert facts.code == 0, facts.stderr
    answer = facts.json()
    assert str(environment.folder) in answer["file"]
    assert binding in str(answer["info"]), answer
    shown = environment.run("-c", example())
    assert shown.code == 0, shown.stderr
    if answer["cuda"] is not None and answer["cuda"].startswith("13."):
        assert "no CUDA device" in str(answer["info"]), answer


def run_op_suite(environment: Environment) -> None:
    pip = environment.run("-m", "pip", "install", "--quiet", "pytest", "numpy<2")
    assert pip.code == 0, pip.stderr
    # A copy without the checkout around it, so that the tests import the installed package.
    folder = environment.folder / "suite"
    shutil.copytree(ROOT / "tests" / "ops", folder / "tests" / "ops")
    suite = environment.run("-m", "pytest", "-q", "--import-mode=importlib", "-c", os.devnull, "tests/ops", cwd=folder)
    assert suite.code == 0, suite.stdout[-8000:] + suite.stderr


@pytest.mark.parametrize("release", list(RELEASES))
def test_the_universal_wheel_beside(release: str, wheelhouse: Path, tmp_path: Path) -> None:
    with fresh_environment(tmp_path / "environment", wheelhouse, release) as environment:
        install(environment)
        prove(environment, RELEASES[release])
        if release in WHOLE_SUITE:
            run_op_suite(environment)

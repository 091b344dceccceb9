"""What the names of public wheels cannot say: device code, false labels, partners; chosen by the same resolver as our own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Dict, Optional

import pytest

from mamba_install import public_wheels
from mamba_install.environment import Environment, Gpu
from mamba_install.records import Candidate, Decision, Policy
from mamba_install.resolve import resolve
from mamba_install.wheel_names import WheelName

HERE = Environment(
    python="3.10.12",
    platform="linux",
    machine="x86_64",
    glibc="2.35",
    torch="2.6.0+cu124",
    torch_cuda="12.4",
    cxx11abi=False,
    gpus=(Gpu("NVIDIA A100", "8.0"),),
    probed=True,
)


def one(name: str) -> Candidate:
    return Candidate(WheelName.parse(name), None, "a list")


def decide(environment: Environment, *names: str, package: str = "mamba_ssm") -> Decision:
    return resolve(environment, [one(name) for name in names], Policy(package))


def wheel(version: str, label: str, python: str = "310", package: str = "mamba_ssm", machine: str = "x86_64") -> str:
    return f"{package}-{version}+{label}-cp{python}-cp{python}-linux_{machine}.whl"


@pytest.mark.parametrize(
    ("version", "accelerator", "has", "lacks"),
    [
        ("1.0.1", "cu118", "9.0", "5.3"),
        ("2.2.2", "cu122", "8.7", "10.0"),
        ("2.2.4", "cu12", "5.3", "10.0"),
        ("2.2.5", "cu12", "10.0", "12.0"),
        ("2.2.6.post3", "cu11", "7.2", "10.0"),
        ("2.2.6.post3", "cu12", "12.0", "10.3"),
        ("2.3.1", "cu13", "10.3", "7.0"),
        ("2.3.2", "cu12", "7.5", "7.0"),
    ],
)
def test_the_device_code_of_public_files(version: str, accelerator: str, has: str, lacks: str) -> None:
    archs = public_wheels.public_archs(one(wheel(version, f"{accelerator}torch2.6cxx11abiTRUE")))
    assert archs is not None
    assert has in archs
    assert lacks not in archs


def test_our_own_wheels_and_strangers_are_not_in_the_tables() -> None:
    for name in (
        wheel("2.4.0", "cu12torch2.6cxx11abiFALSE"),
        wheel("2.8.3", "cu12torch2.6cxx11abiTRUE", package="flash_attn"),
        wheel("1.0", "cu12torch2.6cxx11abiFALSE", package="other"),
    ):
        assert public_wheels.public_archs(one(name)) is None
    assert not public_wheels.is_public(one(wheel("2.4.0", "cu12torch2.6cxx11abiFALSE")))
    assert public_wheels.asset_url(one(wheel("2.4.0", "cu12"))) is None


@pytest.mark.parametrize(
    ("capability", "fits"),
    [
        ("6.1", None),
        ("7.5", "2.3.2"),
        ("7.0", "2.2.4"),
        ("8.9", "2.3.2"),
        ("10.3", "2.3.2"),
        ("12.1", "2.3.2"),
        ("11.0", None),
    ],
)
def test_the_newest_file_that_the_gpu_runs(capability: str, fits: Optional[str]) -> None:
    environment = replace(HERE, torch="2.6.0+cu126", cxx11abi=True, gpus=(Gpu("a GPU", capability),))
    decision = decide(environment, *(wheel(version, "cu12torch2.6cxx11abiTRUE") for version in ("2.2.4", "2.3.2")))
    assert (decision.candidate.name.version if decision.candidate else None) == fits
    if fits is None:
        assert (decision.outcome, decision.code) == ("diagnosis", "ARCH_NOT_IN_FATBIN")


def test_false_labels_are_refused_with_the_reason() -> None:
    names = [wheel(version, "cu12torch2.6cxx11abiFALSE") for version in ("2.2.4", "2.2.5", "2.3.2.post1")]
    decision = decide(HERE, *names)
    assert decision.candidate is not None
    assert decision.candidate.name.version == "2.2.4"
    assert {one.reasons[0].code for one in decision.rejected} == {"FARM_WRONG_ABI_LABEL"}
    assert any("pre-release of torch 2.6" in note for note in decision.notes)
    assert decide(HERE, names[1]).code == "FARM_WRONG_ABI_LABEL"
    # cu11 was built with 2.6+cu118, whose ABI is 0
    old = replace(HERE, torch="2.6.0+cu118", torch_cuda="11.8")
    assert decide(old, wheel("2.2.5", "cu11torch2.6cxx11abiFALSE")).outcome == "wheel"


@pytest.mark.parametrize(
    ("version", "partner"),
    [("1.0.1", ">=1.0.0,<1.1.0"), ("1.1.4", ">=1.1.0,<1.2.0"), ("2.2.4", ">=1.2.0,<1.5.1"), ("2.3.2", ">=1.5.1")],
)
def test_the_partner_of_each_era(version: str, partner: str) -> None:
    assert public_wheels.partner(one(wheel(version, "cu12torch2.6cxx11abiTRUE"))) == partner


def test_causal_conv1d_that_python_39_cannot_read() -> None:
    name = wheel("1.5.2", "cu12torch2.6cxx11abiTRUE", python="39", package="causal_conv1d")
    environment = replace(HERE, python="3.9.21", torch="2.6.0+cu126", cxx11abi=True)
    assert decide(environment, name, package="causal_conv1d").code == "NO_WHEEL_FOR_PYTHON"
    older = wheel("1.5.0.post8", "cu12torch2.6cxx11abiTRUE", python="39", package="causal_conv1d")
    decision = decide(environment, name, older, package="causal_conv1d")
    assert decision.candidate is not None
    assert decision.candidate.name.version == "1.5.0.post8"


@pytest.mark.parametrize(
    ("changes", "outcome", "code"),
    [
        ({"torch": "2.11.0+cu128", "torch_cuda": "12.8", "cxx11abi": True}, "build", "NO_WHEEL_FOR_TORCH"),
        ({"torch": "2.13.0+cu130", "torch_cuda": "13.0", "cxx11abi": True}, "diagnosis", "NO_WHEEL_FOR_TORCH"),
        ({"torch": "2.9.0a0+145a3a7bda.nv25.09", "torch_cuda": None, "probed": False}, "build", "NGC_CONTAINER"),
        ({"torch": "2.9.0.dev20250801", "torch_cuda": None, "probed": False}, "build", "TORCH_PRERELEASE_UNMATCHED"),
        ({"python": "3.14.0", "torch": "2.6.0+cu126", "cxx11abi": True}, "build", "NO_WHEEL_FOR_PYTHON"),
        (
            {"python": "3.13.0", "free_threaded": True, "torch": "2.6.0+cu126", "cxx11abi": True},
            "diagnosis",
            "NO_WHEEL_FOR_PYTHON",
        ),
        ({"machine": "aarch64", "cxx11abi": True}, "build", "MACHINE_MISMATCH"),
        ({"glibc": "2.17", "torch": "2.6.0+cu126", "cxx11abi": True}, "diagnosis", "GLIBC_TOO_OLD"),
        ({"platform": "windows 11"}, "diagnosis", "PLATFORM_UNSUPPORTED"),
        ({"torch": "2.6.0+rocm6.2.4", "torch_cuda": None}, "build", "TORCH_ROCM"),
        ({"torch": "2.6.0+cpu", "torch_cuda": None}, "diagnosis", "TORCH_NO_CUDA"),
    ],
)
def test_a_build_is_advised_where_it_would_serve(changes: Dict[str, Any], outcome: str, code: str) -> None:
    decision = decide(replace(HERE, **changes), wheel("2.3.2", "cu12torch2.6cxx11abiTRUE"))
    assert (decision.outcome, decision.code) == (outcome, code)
    if outcome == "build":
        assert decision.command is not None
        assert "--no-build-isolation --no-deps" in decision.command


def test_an_old_container_is_known_by_its_name() -> None:
    environment = replace(HERE, torch="2.2.0a0+81ea7a4", container="NGC 23.12", cxx11abi=True)
    assert environment.torch_version is not None
    assert environment.torch_version.build == "vendor"
    assert decide(environment, wheel("2.2.4", "cu12torch2.2cxx11abiTRUE")).code == "NGC_CONTAINER"
    assert decide(environment, wheel("2.2.4", "cu12torch23.12cxx11abiTRUE")).outcome == "wheel"

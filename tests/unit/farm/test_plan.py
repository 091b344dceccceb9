"""Identifiers, selection, and why a build is not for this machine."""

from __future__ import annotations

import pytest

from farm.archs import parse_archs, spell
from farm.errors import UsageError
from farm.matrix import parse_matrix
from farm.pack import requires
from farm.plan import Build, override_archs, plan, read_version, select
from farm.toolchains import Toolchain
from tests.unit.farm.samples import CUDA_12_4, CUDA_13, matrix, real_facts, real_matrix, row

FACTS = real_facts()


def planned(*toolchains: Toolchain, machine: str = "x86_64", compiler: bool = True) -> dict[str, Build]:
    builds = plan(real_matrix(), FACTS, toolchains, machine, "2.4.0", compiler)
    return {build.identifier: build for build in builds}


def test_identifiers_are_unique_and_spelled_as_the_design_says() -> None:
    builds = planned()
    assert len(builds) == len(plan(real_matrix(), FACTS, (), "x86_64", "2.4.0"))
    for name in (
        "mamba_ssm-torch2.8-cu128-cp312-abi1-x86_64",
        "mamba_ssm-universal-cu12-x86_64",
        "mamba_ssm-universal-cpu-aarch64",
        "mamba_ssm-torch2.13-cpu-cp311-abi1-x86_64",
        "mamba_ssm-torch2.6-cu124-cp39-abi0-x86_64",
        "mamba_ssm-torch2.6-cu126-cp39-abi1-x86_64",
    ):
        assert name in builds


def test_what_this_machine_cannot_build_says_why() -> None:
    builds = planned(CUDA_13)
    assert builds["mamba_ssm-universal-cu13-x86_64"].reason is None
    assert builds["mamba_ssm-universal-cpu-x86_64"].reason is None
    assert "this machine is x86_64" in (builds["mamba_ssm-universal-cpu-aarch64"].reason or "")
    missing = builds["mamba_ssm-universal-cu12-x86_64"].reason or ""
    assert missing.startswith("needs CUDA 12.8 or 12.4, found here: 13.0; to get it: CUDA 12.8:")
    assert "no HIP build" in (builds["mamba_ssm-torch2.13-rocm7.2-cp312-abi1-x86_64"].reason or "")
    assert "no g++ here" in (planned(CUDA_13, compiler=False)["mamba_ssm-universal-cpu-x86_64"].reason or "")


def test_a_local_toolkit_stands_in_and_says_what_it_leaves_out() -> None:
    build = planned(CUDA_12_4)["mamba_ssm-universal-cu12-x86_64"]
    assert build.reason is None
    assert spell(build.archs) == "7.0;8.0;9.0+PTX"
    assert build.notes[0] == "built with CUDA 12.4 instead of 12.8"
    assert "10.0;12.0+PTX" in build.notes[1]


def test_an_nvcc_that_knows_less_than_the_facts_is_not_used() -> None:
    poor = Toolchain("13.0", "13.0.1", "system", "/cuda", ("8.0", "9.0"))
    assert "against facts.yaml" in (planned(poor)["mamba_ssm-universal-cu13-x86_64"].reason or "")


def test_a_retired_row_is_not_planned() -> None:
    rows = parse_matrix(matrix(row(until="2.3.9"), row(pythons=["3.12"], until="2.4.0")), FACTS)
    assert [build.python for build in plan(rows, FACTS, (), "x86_64", "2.4.0")] == ["3.12"]


def test_selection() -> None:
    builds = tuple(planned().values())
    assert len(select(builds, [])[0]) == len(builds)
    chosen, exact = select(builds, ["universal-cpu-x86_64", "mamba_ssm-universal-cu1*-aarch64"])
    assert [build.identifier for build in chosen] == [
        "mamba_ssm-universal-cpu-x86_64",
        "mamba_ssm-universal-cu12-aarch64",
        "mamba_ssm-universal-cu13-aarch64",
    ]
    assert exact == ("mamba_ssm-universal-cpu-x86_64",)
    with pytest.raises(UsageError, match="hint: the nearest are mamba_ssm-universal-cu13-x86_64"):
        select(builds, ["universal-cu14-x86_64"])
    with pytest.raises(UsageError, match="lists them all"):
        select(builds, ["???"])


def test_other_archs_mark_the_identifier() -> None:
    build = planned(CUDA_13)["mamba_ssm-universal-cu13-x86_64"]
    other = override_archs(build, parse_archs("8.0;9.0+PTX"))
    assert other.identifier == "mamba_ssm-universal-cu13-x86_64-sm80-sm90ptx"
    with pytest.raises(UsageError, match=r"CUDA 13\.0 does not know: 7\.0"):
        override_archs(build, parse_archs("7.0"))


@pytest.mark.parametrize(
    "identifier, needs, tags",
    [
        ("torch2.8-cu128-cp312-abi1-x86_64", "torch==2.8.*", ("cp312", "cp312")),
        ("universal-cpu-x86_64", "torch>=1.13", ("py3", "none")),
        ("universal-cu12-x86_64", "torch>=2.1", ("py3", "none")),
        ("universal-cu12-aarch64", "torch>=2.6", ("py3", "none")),
        ("universal-cu13-x86_64", "torch>=2.9", ("py3", "none")),
        ("universal-cu11-x86_64", "torch>=1.13,<2.8", ("py3", "none")),
    ],
)
def test_what_a_wheel_requires(identifier: str, needs: str, tags: tuple[str, str]) -> None:
    build = planned()[f"mamba_ssm-{identifier}"]
    assert requires(build, FACTS) == [needs]
    assert build.python_tags == tags


def test_a_free_threaded_python_has_its_own_abi_tag() -> None:
    assert Build("x", "classic", "cpu", "x86_64", "2.13", "3.14t", True).python_tags == ("cp314", "cp314t")


def test_a_checkout_without_a_version(tmp_path: object) -> None:
    from pathlib import Path

    folder = Path(str(tmp_path))
    (folder / "mamba_ssm").mkdir()
    (folder / "mamba_ssm" / "__init__.py").write_text("")
    with pytest.raises(UsageError, match="no `__version__`"):
        read_version(folder)

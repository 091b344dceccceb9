"""The installer and the loader of `mamba_ssm` answer the same question, does this wheel serve this torch, with the same answer."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, Dict, List

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mamba_install.environment import Environment
from mamba_install.records import Binding, Candidate, Contents, Policy
from mamba_install.rules import objections
from mamba_install.torch_versions import TorchVersion
from mamba_install.wheel_names import WheelName

CHOICE = Path(__file__).resolve().parents[3] / "mamba_ssm" / "_native" / "choice.py"
UNIVERSAL = WheelName.parse("mamba_ssm-2.4.0+cpu-py3-none-manylinux_2_17_x86_64.whl")
TABLE: List[Dict[str, Any]] = [
    {"file": "a.so", "kind": "classic", "torch": "1.13", "cxx11abi": False},
    {"file": "b.so", "kind": "classic", "torch": "2.6", "cxx11abi": False},
    {"file": "c.so", "kind": "classic", "torch": "2.6", "cxx11abi": True},
    {"file": "d.so", "kind": "classic", "torch": "2.8", "cxx11abi": True},
    {"file": "e.so", "kind": "stable", "torch_floor": "2.9", "torch_tested": "2.14"},
]
CONTENTS = Contents(
    tuple(Binding(row["kind"], row.get("torch") or row["torch_floor"], row.get("cxx11abi")) for row in TABLE),
    tested="2.14",
)
RELEASES = ["1.12.1", "1.13.1", "2.0.0", "2.6.0", "2.8.0", "2.9.0", "2.9.1", "2.10.0", "2.14.1", "2.15.0", "3.0.0"]
LABELS = [
    "",
    "+cpu",
    "+cpu.cxx11.abi",
    "+cu126",
    "+cu117.with.pypi.cudnn",
    "+xpu",
    "+rocm6.2.4",
    "+mine",
    "+git12ab34c",
]
BUILDS = ["", "a0", "rc1", ".dev20260101", ".post1"]
VENDOR = ["2.10.0a0+b4e4ee8.nv25.12", "2.9.0a0+145a3a7bda.nv25.09", "2.5.0a0+e000cf0ad9.nv24.10"]


@pytest.fixture(scope="module")
def choice() -> ModuleType:
    """The loader's pure part by its path: its package imports torch."""
    spec = importlib.util.spec_from_file_location("loader_choice_under_test", CHOICE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@given(
    st.tuples(st.sampled_from(RELEASES), st.sampled_from(BUILDS), st.sampled_from(LABELS)).map("".join)
    | st.sampled_from(VENDOR),
    st.booleans(),
)
def test_both_say_the_same(choice: ModuleType, torch: str, abi: bool) -> None:
    loaded = choice.choose_binding(TABLE, choice.TorchBuild(torch, abi)).file is not None
    environment = Environment(
        python="3.12", platform="linux", machine="x86_64", glibc="2.36", torch=torch, cxx11abi=abi, gpus=(), probed=True
    )
    version = TorchVersion.parse(torch)
    assert version is not None
    assert (version.build == "release") == choice.TorchBuild(torch, abi).is_release
    found = objections(environment, Candidate(UNIVERSAL, None, "here", contents=CONTENTS), Policy(accept_cpu=True))
    assert (found == ()) == loaded, found


def test_a_wheel_without_the_stable_binding(choice: ModuleType) -> None:
    contents = replace(CONTENTS, bindings=CONTENTS.bindings[:-1])
    for torch in (*RELEASES, *VENDOR):
        environment = Environment(python="3.12", torch=torch, cxx11abi=True, gpus=(), probed=True)
        found = objections(environment, Candidate(UNIVERSAL, None, "here", contents=contents), Policy())
        assert (found == ()) == (choice.choose_binding(TABLE[:-1], choice.TorchBuild(torch, True)).file is not None)

"""The action graph: what builds share, what an added architecture or torch costs, and that nothing in it names this machine."""

from __future__ import annotations

import re
from typing import List

import pytest

from farm import ninja, recipe
from farm.actions import Action, Binding, Graph, add_build
from farm.archs import parse_archs
from farm.errors import BuildError
from farm.headers import Headers
from farm.plan import Build
from tests.unit.farm.samples import CUDA_13, real_facts

FACTS = real_facts()
STABLE = Binding(Headers("2.10.0", "/cache/2.10.0/include", "cache"))
OLD = Binding(Headers("2.6.0", "/cache/2.6.0/include", "cache"), "2.6", False)


def build(archs: str = "", identifier: str = "x", machine: str = "x86_64") -> Build:
    wanted = parse_archs(archs) if archs else ()
    return Build(
        identifier, "universal", "cu13" if archs else "cpu", machine, archs=wanted, toolchain=CUDA_13 if archs else None
    )


def outputs(*builds: tuple[Build, List[Binding]]) -> set[str]:
    graph = Graph()
    for each, bindings in builds:
        add_build(graph, each, bindings, FACTS)
    return set(graph.actions)


def test_a_second_python_compiles_nothing() -> None:
    one = outputs((build("8.0", "a"), [STABLE]))
    assert outputs((build("8.0", "a"), [STABLE]), (build("8.0", "b"), [STABLE])) == one


def test_an_added_torch_compiles_one_binding() -> None:
    added = outputs((build(), [STABLE, OLD])) - outputs((build(), [STABLE]))
    assert {path.rsplit("/", 1)[-1] for path in added} == {"binding.o", "floor-abi0.o", "binding_torch2.6_abi0.so"}


def test_an_added_arch_compiles_only_that_arch() -> None:
    added = outputs((build("8.0;9.0"), [])) - outputs((build("8.0"), []))
    compiled = {path.rsplit("/", 1)[-1] for path in added if path.endswith((".cubin", ".ptx"))}
    assert compiled == {f"{unit}.sm_90.cubin" for unit in recipe.CUDA_UNITS}


def test_every_arch_is_a_cubin_per_unit_and_ptx_comes_beside_its_cubin() -> None:
    graph = Graph()
    add_build(graph, build("8.0;9.0+PTX"), [], FACTS)
    (merge,) = [a for a in graph.actions.values() if a.output.endswith("selective_scan-80_90ptx.fatbin")]
    folder = "build/objects/cuda-13.0.88"
    assert merge.inputs == (
        f"{folder}/selective_scan.sm_80.cubin",
        f"{folder}/selective_scan.sm_90.cubin",
        f"{folder}/selective_scan.compute_90.ptx",
    )
    assert f"--image3=kind=ptx,sm=90,file={folder}/selective_scan.compute_90.ptx" in merge.command


def test_the_table_says_what_is_in_the_wheel() -> None:
    graph = Graph()
    native = add_build(graph, build("8.0;9.0+PTX"), [OLD, STABLE], FACTS)
    assert native.table == {
        "format": 1,
        "kernels_abi": 1,
        "cpu": {"file": "libmamba_cpu.so"},
        "cuda": {
            "file": "libmamba_cuda.so",
            "toolkit": "13.0",
            "archs": ["8.0", "9.0+PTX"],
            "minimum_driver": "580.65.06",
        },
        "bindings": [
            {"file": "binding_torch2.6_abi0.so", "kind": "classic", "torch": "2.6", "cxx11abi": False},
            {"file": "binding_stable.so", "kind": "stable", "torch_floor": "2.9", "torch_tested": "2.14"},
        ],
    }
    assert sorted(native.files) == [
        "binding_stable.so",
        "binding_torch2.6_abi0.so",
        "libmamba_cpu.so",
        "libmamba_cuda.so",
    ]


def test_the_table_says_which_binding_was_never_run() -> None:
    new_abi = Binding(OLD.headers, "2.6", True)
    table = add_build(Graph(), build("8.0"), [OLD, new_abi], FACTS).table
    assert ["not_run" in entry for entry in table["bindings"]] == [False, True]


def test_paths_are_relative_and_headers_paths_are_mapped() -> None:
    graph = Graph()
    add_build(graph, build("8.0"), [OLD, STABLE], FACTS)
    for action in graph.actions.values():
        assert action.output.startswith("build/objects/")
        assert all(not path.startswith("/") for path in action.inputs)
        if "-isystem" in action.command:
            assert any(word.startswith("-ffile-prefix-map=/cache/") for word in action.command)
    device = [a for a in graph.actions.values() if a.output.endswith(".cubin")]
    assert device and all("-objtemp" in action.command for action in device)


def test_aarch64_has_its_own_instruction_sets() -> None:
    made = outputs((build(machine="aarch64"), []))
    assert {path for path in made if "kernels." in path} == {"build/objects/cpu-aarch64/kernels.baseline.o"}


def test_two_actions_for_one_file_are_an_error() -> None:
    graph = Graph()
    graph.add(Action("a.o", (), ("g++", "-O1")))
    with pytest.raises(BuildError, match="two different actions"):
        graph.add(Action("a.o", (), ("g++", "-O2")))


def test_headers_of_an_installed_torch_make_another_object() -> None:
    mine = Binding(Headers("2.6.0", "/venv/torch/include", "installed"), "2.6", False)
    assert len(outputs((build(), [OLD, STABLE])) ^ outputs((build(), [mine, STABLE]))) == 4


def test_torch_from_2_13_on_needs_cxx20() -> None:
    assert Headers("2.13.0", "", "cache").standard == "-std=c++20"
    assert Headers("2.9.1", "", "cache").standard == "-std=c++17"


def test_closure() -> None:
    graph = Graph()
    native = add_build(graph, build("8.0"), [STABLE], FACTS)
    assert set(graph.closure(list(native.files.values()))) == set(graph.actions)


def test_the_ninja_file_is_the_same_whatever_the_order() -> None:
    first, second = Graph(), Graph()
    for each in (build("8.0"), build()):
        add_build(first, each, [STABLE], FACTS)
    for each in (build(), build("8.0")):
        add_build(second, each, [STABLE], FACTS)
    assert ninja.render(first) == ninja.render(second)


def test_what_the_shell_and_ninja_would_misread_is_escaped() -> None:
    graph = Graph()
    graph.add(Action("a b:$.o", ("c d.cpp",), ("g++", '-DX="a b"', "$HOME", "c d.cpp"), depfile=True))
    text = ninja.render(graph)
    assert "build a$ b$:$$.o: compile c$ d.cpp" in text
    assert """cmd = g++ '-DX="a b"' '$$HOME' 'c d.cpp'""" in text


def test_sources_of_the_recipe_exist() -> None:
    from tests.unit.farm.samples import ROOT

    sources = [*recipe.CUDA_HOST_SOURCES, *recipe.CUDA_UNITS.values(), recipe.CUDA_EMBED, recipe.CUDA_DESCRIBED]
    sources += [recipe.CPU_DISPATCH, recipe.CPU_KERNELS, recipe.BINDING_CLASSIC, recipe.BINDING_STABLE]
    sources += [recipe.BINDING_FLOOR, recipe.BINDING_EXPORTS]
    assert [path for path in sources if not (ROOT / path).is_file()] == []
    header = (ROOT / "csrc/include/mamba_kernels.h").read_text(encoding="utf-8")
    assert f"#define MAMBA_KERNELS_ABI_VERSION {recipe.KERNELS_ABI}\n" in header


def test_builder_and_loader_speak_of_the_same_interface() -> None:
    """The loader cannot import the farm, nor the farm the loader, so both spell the two numbers."""
    from tests.unit.farm.samples import ROOT

    loader = (ROOT / "mamba_ssm/_native/load.py").read_text(encoding="utf-8")
    assert f"\nKERNELS_ABI_VERSION = {recipe.KERNELS_ABI}\n" in loader
    assert f"\nTABLE_FORMAT = {recipe.TABLE_FORMAT}\n" in loader


def test_contributing_names_files_and_keys_that_are_there() -> None:
    from tests.unit.farm.samples import ROOT

    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    paths = re.findall(r"`((?:csrc|farm|mamba_ssm|tests)/[\w./-]+)`", text)
    assert len(paths) > 8
    assert [path for path in paths if not (ROOT / path).exists()] == []
    assert "`newest_tested`" in text
    assert "  newest_tested: " in (ROOT / "facts.yaml").read_text(encoding="utf-8")

"""matrix.yaml against facts.yaml: what is impossible is refused by the fact that forbids it."""

from __future__ import annotations

import re
from typing import Any, Dict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.archs import spell
from farm.errors import MatrixError
from farm.facts import pair
from farm.matrix import parse_matrix
from tests.unit.farm.samples import ROOT, matrix, real_facts, real_matrix, row

FACTS = real_facts()
# what facts/torch_and_cuda.md lists for x86_64, by hand
PUBLISHED = {
    "1.13": "116 117",
    "2.0": "117 118",
    "2.1": "118 121",
    "2.2": "118 121",
    "2.3": "118 121",
    "2.4": "118 121 124",
    "2.5": "118 121 124",
    "2.6": "118 124 126",
    "2.7": "118 126 128",
    "2.8": "126 128 129",
    "2.9": "126 128 129 130",
    "2.10": "126 128 129 130",
    "2.11": "126 128 129 130",
    "2.12": "126 130 132",
    "2.13": "126 130 132",
    "2.14": "126 130 132",
    "2.15": "130 132",
}


def refusal(text: str) -> str:
    with pytest.raises(MatrixError) as caught:
        parse_matrix(text, FACTS)
    assert caught.value.exit_code == 9
    return str(caught.value)


def test_the_matrix_has_every_published_pair_and_every_torch_for_the_cpu() -> None:
    rows = [r for r in real_matrix().rows if r.kind == "classic" and "x86_64" in r.machines]
    found: Dict[str, set[str]] = {}
    for each in rows:
        if not each.accelerator.startswith("rocm"):
            found.setdefault(each.torch or "", set()).add(each.accelerator)
    assert found == {torch: {"cpu", *(f"cu{n}" for n in numbers.split())} for torch, numbers in PUBLISHED.items()}


def test_toolchains_are_of_the_flavours_major_and_abis_are_the_facts() -> None:
    for each in real_matrix().rows:
        if each.toolchain is None:
            continue
        assert (
            each.toolchain
            == {"11": "11.8", "12": "12.8", "13": "13.2" if each.accelerator == "cu132" else "13.0"}[
                each.accelerator[2:4]
            ]
        )
    abis = {(r.accelerator, r.machines): r.cxx11abi for r in real_matrix().rows if r.torch == "2.6"}
    assert abis["cu126", ("x86_64", "aarch64")] == (True,)
    assert abis["cu124", ("x86_64",)] == (False,)
    assert abis["cpu", ("aarch64",)] == (True,)


def test_every_key_of_a_row_is_explained_at_the_top_of_the_file() -> None:
    text = (ROOT / "matrix.yaml").read_text(encoding="utf-8")
    comment = text[: text.index("\nrows:")]
    used = set(re.findall(r"^ {4}(\w+):|^  - (\w+):", text, re.MULTILINE))
    for name in {a or b for a, b in used}:
        assert re.search(rf"^#   {name} ", comment, re.MULTILINE) or f"{name}," in comment or name in comment, name


def test_a_good_row() -> None:
    (only,) = parse_matrix(matrix(row()), FACTS).rows
    assert (only.torch, only.accelerator, only.line) == ("2.13", "cu130", 2)
    assert spell(only.archs["x86_64"]) == "8.0;9.0+PTX"


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"torch": "2.99"}, "Not in facts.yaml: torch `2.99` in 'rows[0].torch'"),
        (
            {"cuda": "cu117", "toolchain": "11.8", "archs": {"x86_64": "8.0"}},
            "Impossible: torch 2.13 has no `cu117` on x86_64",
        ),
        ({"cxx11abi": [False]}, "has the C++11 ABI `true` (facts.yaml: torch 2.13) in 'rows[0].cxx11abi[0]'"),
        ({"pythons": ["3.9"]}, "Impossible: torch 2.13 has no wheel for Python `3.9`"),
        ({"torch": "1.13", "pythons": ["3.8"]}, "mamba_ssm needs Python 3.9 or newer: `3.8` in 'rows[0].pythons[0]'"),
        (
            {
                "torch": "2.5",
                "cuda": None,
                "cpu": True,
                "toolchain": None,
                "archs": None,
                "pythons": ["3.13"],
                "cxx11abi": [False],
                "machines": ["x86_64", "aarch64"],
            },
            "torch 2.5 has no wheel for Python `3.13` on aarch64",
        ),
        ({"toolchain": "12.8"}, "Impossible: CUDA 12.8 cannot build for `cu130`, another CUDA major"),
        ({"toolchain": "13.9"}, "Not in facts.yaml: CUDA toolkit `13.9`"),
        ({"archs": {"x86_64": "7.0;8.0"}}, "Impossible: CUDA 13.0 does not know 7.0 (facts.yaml: toolkit 13.0)"),
        (
            {"archs": {"x86_64": "Ampere"}},
            "expected a number such as 8.0 or 9.0+PTX: `Ampere` in 'rows[0].archs.x86_64'",
        ),
        ({"archs": {"aarch64": "8.0"}}, "Architectures for a machine that the row does not list"),
        ({"archs": None}, "Missing `archs` for machine `x86_64` in 'rows[0]'"),
        ({"toolchain": None}, "Missing key `toolchain`"),
        ({"cpu": True}, "Expected exactly one of `cuda`, `cpu`, `rocm`, found cuda, cpu"),
        ({"cuda": None}, "found none"),
        ({"cuda": None, "cpu": False}, "leave the key out otherwise"),
        ({"cuda": None, "cpu": True}, "Only a CUDA row has architectures"),
        ({"cuda": "cu13"}, "A classic wheel names torch's whole flavour"),
        ({"torch": None}, "Missing key `torch`"),
        ({"kind": "universal"}, "A universal wheel serves many: it has no `torch`"),
        ({"kind": "clasic"}, "did you mean `classic`?"),
        ({"cuda": None, "rocm": "7.2", "toolchain": None, "archs": None}, "needs a `reason`"),
        ({"machines": ["arm64"]}, "expected x86_64, aarch64"),
        ({"until": "soon"}, "Not a version of mamba_ssm: `soon`"),
        ({"colour": "red"}, "Unknown key in 'rows[0].colour'"),
        ({"archss": {}}, "Unknown key, did you mean `archs`?"),
    ],
)
def test_a_bad_row_is_refused_by_its_fact(changes: Dict[str, Any], message: str) -> None:
    assert message in refusal(matrix(row(**changes)))


def test_the_trap_of_2_6_is_caught() -> None:
    changes = {"torch": "2.6", "toolchain": "12.8", "archs": {"x86_64": "8.0"}}
    assert "has the C++11 ABI `true`" in refusal(matrix(row(cuda="cu126", cxx11abi=[False], **changes)))
    assert "has the C++11 ABI `false`" in refusal(matrix(row(cuda="cu124", cxx11abi=[True], **changes)))


def test_a_repeated_build_names_both_rows() -> None:
    message = refusal(matrix(row(pythons=["3.11", "3.12"]), row(pythons=["3.12"], reason="again")))
    assert "matrix.yaml:3: Repeats a build of 'rows[0]': `torch 2.13 cu130, Python 3.12" in message
    assert "in 'rows[1]'" in message


def test_faults_of_all_rows_come_at_once_and_keep_their_numbers() -> None:
    message = refusal(matrix(row(color=1), row(pythons=["3.12"]), row(torch="9.9"), row(pythons=["3.9"])))
    assert message.startswith("matrix.yaml has 3 faults:")
    assert "'rows[0].color'" in message
    assert "matrix.yaml:4: Not in facts.yaml: torch `9.9` in 'rows[2].torch'" in message
    assert "'rows[3].pythons[0]'" in message


@given(
    st.sampled_from(sorted(FACTS.torch)),
    st.sampled_from(["cu116", "cu118", "cu121", "cu124", "cu126", "cu128", "cu130", "cu132"]),
    st.booleans(),
    st.sampled_from(["3.8", "3.9", "3.11", "3.13", "3.15"]),
    st.sampled_from(sorted(FACTS.toolkits)),
    st.sampled_from(["x86_64", "aarch64"]),
)
def test_a_row_passes_exactly_when_the_facts_allow_it(
    torch: str, cuda: str, abi: bool, python: str, toolkit: str, machine: str
) -> None:
    text = matrix(
        row(
            torch=torch,
            cuda=cuda,
            cxx11abi=[abi],
            pythons=[python],
            toolchain=toolkit,
            machines=[machine],
            archs={machine: "8.0"},
        )
    )
    facts = FACTS.torch[torch]
    possible = (
        facts.cxx11abi[machine].get(cuda) == abi
        and facts.has_python(python, machine)
        and pair(python) >= (3, 9)
        and toolkit.split(".")[0] == cuda[2:4]
    )
    if possible:
        parse_matrix(text, FACTS)
    else:
        refusal(text)

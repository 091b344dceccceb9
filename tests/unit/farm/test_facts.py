"""facts.yaml: what it says, and what it refuses to say."""

from __future__ import annotations

import pytest

from farm.errors import MatrixError
from farm.facts import pair, parse_facts
from farm.recipe import STABLE_FILE, classic_file
from tests.ring.test_torch_releases import RELEASES
from tests.unit.farm.samples import ROOT, facts_with, real_facts


def test_bindings_that_a_wheel_needs_follow_from_the_facts() -> None:
    facts = real_facts()
    every = [(m, False) for m in ["1.13", "2.0", "2.1", "2.2", "2.3", "2.4", "2.5", "2.6"]] + [
        ("2.6", True),
        ("2.7", True),
        ("2.8", True),
    ]
    assert facts.classic_bindings("x86_64", "cpu") == every
    assert facts.classic_bindings("x86_64", "cu11")[-1] == ("2.7", True)
    assert facts.classic_bindings("x86_64", "cu12")[0] == ("2.1", False)
    assert facts.classic_bindings("aarch64", "cu12") == [("2.6", True), ("2.7", True), ("2.8", True)]
    assert facts.classic_bindings("x86_64", "cu13") == []
    assert facts.classic_bindings("x86_64", "cpu", python="3.13") == [("2.5", False), *every[-4:]]
    assert facts.meets_stable("x86_64", "cu13")
    assert not facts.meets_stable("x86_64", "cu11")


def test_every_binding_that_counts_as_run_is_in_the_ring() -> None:
    facts = real_facts()
    run = {
        classic_file(minor, abi)
        for minor, abi in facts.classic_bindings("x86_64", "cpu")
        if facts.was_run(minor, abi, "x86_64")
    }
    assert run | {STABLE_FILE} == set(RELEASES.values())
    stable = sorted((pair(release) for release, file in RELEASES.items() if file == STABLE_FILE))
    assert (stable[0], stable[-1]) == (pair(facts.stable_floor), pair(facts.newest_tested))


def test_minors_are_ordered_as_numbers() -> None:
    assert real_facts().minors("x86_64", "cu13") == ["2.9", "2.10", "2.11", "2.12", "2.13", "2.14", "2.15"]


def test_every_fact_has_its_source() -> None:
    text = (ROOT / "facts.yaml").read_text(encoding="utf-8")
    facts = real_facts()
    assert text.count("source: ") == len(facts.torch) + len(facts.toolkits)


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("format: 1", "format: 2", "Unexpected format (expected 1): `2`"),
        ('release: "2.6.0"', 'release: "2.7.0"', "A release of another minor: `2.7.0`"),
        ("cu126: 1", "cu126: 3", "Unexpected value (expected 0 or 1): `3`"),
        ("x86_64: {cpu: 0", "x86_32: {cpu: 0", "Unknown machine"),
        ("cu118: 0", "cuda118: 0", "Unknown flavour"),
        ('version: "2.14"', 'version: "2.13"', "Repeated version: `2.13`"),
        ("max_gcc: 15", 'max_gcc: "15"', "Unexpected type str (expected int)"),
        ('release: "2.6.0"', 'relase: "2.6.0"', "did you mean `release`?"),
    ],
)
def test_wrong_facts_are_refused(old: str, new: str, message: str) -> None:
    with pytest.raises(MatrixError, match=r"facts\.yaml has") as caught:
        facts_with(old, new)
    assert message in str(caught.value)


def test_text_that_is_no_mapping() -> None:
    with pytest.raises(MatrixError, match="expected mapping"):
        parse_facts("- a\n")

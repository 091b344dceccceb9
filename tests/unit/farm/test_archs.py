"""TORCH_CUDA_ARCH_LIST as everybody spells it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.archs import ArchError, fit, parse_archs, spell


@pytest.mark.parametrize("text", ["8.0;9.0+PTX", "8.0 9.0+PTX", "9.0+PTX, 8.0", " 9.0+PTX;8.0;8.0;", "9.0;9.0+PTX;8.0"])
def test_spellings_of_one_list(text: str) -> None:
    assert spell(parse_archs(text)) == "8.0;9.0+PTX"


def test_numbers_sort_as_numbers() -> None:
    assert spell(parse_archs("12.0 9.0 10.0 7.5")) == "7.5;9.0;10.0;12.0"
    assert [arch.digits for arch in parse_archs("9.0;10.0")] == ["90", "100"]


@pytest.mark.parametrize("text, instead", [("9.0a", "9.0"), ("8.0;12.0f+PTX", r"12\.0\+PTX")])
def test_an_architecture_for_one_gpu_is_refused_with_what_to_write(text: str, instead: str) -> None:
    with pytest.raises(ArchError, match=f"write `{instead}`"):
        parse_archs(text)


@pytest.mark.parametrize("text", ["", " ; ", "Ampere", "80", "sm_80", "8.0+ptx", "8.0PTX", "8.00", "8", "-8.0"])
def test_what_is_no_list(text: str) -> None:
    with pytest.raises(ArchError):
        parse_archs(text)


def test_a_name_is_refused_with_the_reason() -> None:
    with pytest.raises(ArchError, match="names such as `Ampere`"):
        parse_archs("Ampere")


def test_what_a_toolkit_does_not_know_is_split_off_and_ptx_moves() -> None:
    kept, dropped = fit(parse_archs("7.0;8.0;9.0;10.0;12.0+PTX"), ("7.0", "8.0", "9.0"))
    assert (spell(kept), spell(dropped)) == ("7.0;8.0;9.0+PTX", "10.0;12.0+PTX")
    assert fit(parse_archs("12.0"), ("8.0",)) == ((), parse_archs("12.0"))


ARCHS = st.lists(
    st.tuples(st.integers(1, 30), st.integers(0, 9), st.booleans()),
    min_size=1,
    max_size=8,
)


@given(ARCHS)
def test_reading_what_was_spelled_gives_the_same(parts: list[tuple[int, int, bool]]) -> None:
    archs = parse_archs(";".join(f"{a}.{b}{'+PTX' if ptx else ''}" for a, b, ptx in parts))
    assert parse_archs(spell(archs)) == archs
    assert list(archs) == sorted(archs, key=lambda arch: arch.order)

"""The strict reader: exact types, unknown and repeated keys, paths and lines, everything at once, never a crash."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.errors import MatrixError
from farm.reader import MISSING, Key, boolean, integer, list_of, one_of, read, record, string, table_of

PARSER = record(
    {
        "name": Key(string),
        "count": Key(integer, required=False, default=0),
        "flag": Key(boolean, required=False, default=False),
        "kinds": Key(list_of(one_of("classic", "universal")), required=False, default=()),
        "table": Key(table_of(string), required=False, default={}),
    }
)


def faults_of(text: str) -> str:
    _value, faults = read(text, "f.yaml", PARSER)
    with pytest.raises(MatrixError) as caught:
        faults.raise_if_any()
    return str(caught.value)


def test_a_good_document() -> None:
    value, faults = read("name: a\ncount: 3\nflag: true\nkinds: [classic]\ntable: {a: b}\n", "f.yaml", PARSER)
    faults.raise_if_any()
    assert value == {"name": "a", "count": 3, "flag": True, "kinds": ("classic",), "table": {"a": "b"}}


@pytest.mark.parametrize(
    "text, message",
    [
        ("name: 2.8", "f.yaml:1: Unexpected type float (expected str; put it in quotes) in 'name'"),
        ("name: 3", "Unexpected type int (expected str; put it in quotes) in 'name'"),
        ("name: true", "Unexpected type bool (expected str; put it in quotes) in 'name'"),
        ("name: 2026-01-01", "Unexpected type date"),
        ("name:", "Unexpected type null (expected str) in 'name'"),
        ('name: ""', "Empty string in 'name'"),
        ("name: [a]", "Unexpected type list (expected str) in 'name'"),
        ("name: a\ncount: true", "f.yaml:2: Unexpected type bool (expected int) in 'count'"),
        ("name: a\ncount: 0x1F", "Unexpected spelling of an integer: `0x1F` in 'count'"),
        ("name: a\ncount: '3'", "Unexpected type str (expected int) in 'count'"),
        ("name: a\nflag: yes", "Unexpected spelling of a boolean (expected true or false): `yes` in 'flag'"),
        ("name: a\nkinds: [classic, universl]", "did you mean `universal`?): `universl` in 'kinds[1]'"),
        ("name: a\nkinds: [classic, classic]", "Repeated value: `classic` in 'kinds[1]'"),
        ("name: a\nkinds: []", "Empty list in 'kinds'"),
        ("name: a\nkinds: classic", "Unexpected type str (expected list) in 'kinds'"),
        ("name: a\nnmae: b", "f.yaml:2: Unknown key, did you mean `name`? in 'nmae'"),
        ("name: a\nname: b", "f.yaml:2: Repeated key, first on line 1 in 'name'"),
        ("count: 1", "Missing key `name`"),
        ("name: a\n3: b", "Unexpected key of type int (expected str; put it in quotes)"),
        ("[]", "Unexpected type list (expected mapping)"),
        ("name: a\ntable: {b: 1}", "in 'table.b'"),
        ("", "the file is empty"),
        ("name: [", "not YAML"),
        ("name: !!python/object:os.system x", "Unexpected type tag:yaml.org,2002:python/object:os.system"),
        ("name: \x00", "not YAML"),
    ],
)
def test_a_fault_is_named(text: str, message: str) -> None:
    assert message in faults_of(text)


def test_all_faults_come_at_once_in_the_order_of_lines() -> None:
    text = "kinds: [x]\nname: 1\ncolour: red\ncount: no\n"
    lines = faults_of(text).splitlines()
    assert lines[0] == "f.yaml has 4 faults:"
    assert [line.split(":")[1] for line in lines[1:]] == ["1", "2", "3", "4"]


def test_an_alias_is_read_like_what_it_stands_for() -> None:
    value, faults = read("name: &a x\ntable: {b: *a}\n", "f.yaml", PARSER)
    faults.raise_if_any()
    assert value["table"] == {"b": "x"}


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    value, faults = read(text, "f.yaml", PARSER)
    assert (value is MISSING) <= bool(faults.found)


SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.text(alphabet="abc:- ", max_size=5))
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["name", "count", "flag", "kinds", "table", "x"]), inner, max_size=4),
    ),
    max_leaves=12,
)


@given(DOCUMENTS)
def test_a_value_comes_out_only_if_it_is_what_was_written(document: Any) -> None:
    import yaml

    value, faults = read(yaml.safe_dump(document), "f.yaml", PARSER)
    if faults.found:
        return
    assert isinstance(document, dict)
    assert set(document) <= {"name", "count", "flag", "kinds", "table"}
    for name, written in document.items():
        assert value[name] == (tuple(written) if isinstance(written, list) else written)
        assert type(value[name]) is (tuple if isinstance(written, list) else type(written))

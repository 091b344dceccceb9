"""A strict reader for YAML: exact types, no coercion, unknown and repeated keys refused, every fault with path and line.

A parser takes a node and returns a value, or MISSING after it has noted a fault; all faults of a file are reported at once.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import yaml

from farm.errors import MatrixError

_TYPES = {
    "tag:yaml.org,2002:str": "str",
    "tag:yaml.org,2002:int": "int",
    "tag:yaml.org,2002:float": "float",
    "tag:yaml.org,2002:bool": "bool",
    "tag:yaml.org,2002:null": "null",
    "tag:yaml.org,2002:timestamp": "date",
    "tag:yaml.org,2002:map": "mapping",
    "tag:yaml.org,2002:seq": "list",
}


class Missing:
    """What a parser returns when there is no usable value."""


MISSING = Missing()


@dataclass
class Faults:
    """Collects what is wrong in one file, and remembers the line of every path that was read."""

    file: str
    found: List[Tuple[int, str]] = field(default_factory=list)
    lines: Dict[str, int] = field(default_factory=dict)

    def add(self, path: str, message: str, line: Optional[int] = None) -> None:
        if line is None:
            line = self.line_of(path)
        self.found.append(
            (line, f"{self.file}:{line}: {message} in '{path}'" if path else f"{self.file}:{line}: {message}")
        )

    def line_of(self, path: str) -> int:
        """The line of a path, or of the nearest thing around it that has one."""
        while path and path not in self.lines:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return self.lines.get(path, 1)

    def raise_if_any(self) -> None:
        if self.found:
            count = "1 fault" if len(self.found) == 1 else f"{len(self.found)} faults"
            lines = [text for _, text in sorted(self.found, key=lambda fault: fault[0])]
            raise MatrixError("\n".join([f"{self.file} has {count}:", *lines]))


Parser = Callable[[Faults, yaml.Node, str], Any]


@dataclass(frozen=True)
class Key:
    """One key of a record."""

    parser: Parser
    required: bool = True
    default: Any = None


def read(text: str, file: str, parser: Parser) -> Tuple[Any, Faults]:
    """Parse a document. The value may hold MISSING where the faults say so."""
    faults = Faults(file)
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        faults.add("", f"not YAML: {error.problem}", (mark.line + 1) if mark else 1)
        return MISSING, faults
    except (yaml.YAMLError, RecursionError) as error:
        faults.add("", f"not YAML: {' '.join(str(error).split())}", 1)
        return MISSING, faults
    if node is None:
        faults.add("", "the file is empty", 1)
        return MISSING, faults
    return parser(faults, node, ""), faults


def _scalar(faults: Faults, node: yaml.Node, path: str, expected: str) -> Any:
    faults.lines[path] = node.start_mark.line + 1
    found = _TYPES.get(node.tag, node.tag)
    if found != expected or not isinstance(node, yaml.ScalarNode):
        remedy = "; put it in quotes" if expected == "str" and found in ("int", "float", "bool", "date") else ""
        faults.add(path, f"Unexpected type {found} (expected {expected}{remedy})")
        return MISSING
    return node.value


def string(faults: Faults, node: yaml.Node, path: str) -> Any:
    value = _scalar(faults, node, path, "str")
    if value == "":
        faults.add(path, "Empty string")
        return MISSING
    return value


def integer(faults: Faults, node: yaml.Node, path: str) -> Any:
    value = _scalar(faults, node, path, "int")
    if value is MISSING:
        return value
    if not re.fullmatch(r"-?(0|[1-9][0-9]*)", value):
        faults.add(path, f"Unexpected spelling of an integer: `{value}`")
        return MISSING
    return int(value)


def boolean(faults: Faults, node: yaml.Node, path: str) -> Any:
    value = _scalar(faults, node, path, "bool")
    if value is MISSING:
        return value
    if value not in ("true", "false"):
        faults.add(path, f"Unexpected spelling of a boolean (expected true or false): `{value}`")
        return MISSING
    return value == "true"


def one_of(*values: str) -> Parser:
    """A string out of a closed set."""

    def parse(faults: Faults, node: yaml.Node, path: str) -> Any:
        value = string(faults, node, path)
        if value is MISSING or value in values:
            return value
        faults.add(path, f"Unexpected value (expected {', '.join(values)}{did_you_mean(value, values)}): `{value}`")
        return MISSING

    return parse


def matching(pattern: str, what: str) -> Parser:
    """A string of a certain form."""

    def parse(faults: Faults, node: yaml.Node, path: str) -> Any:
        value = string(faults, node, path)
        if value is MISSING or re.fullmatch(pattern, value):
            return value
        faults.add(path, f"Unexpected value (expected {what}): `{value}`")
        return MISSING

    return parse


def list_of(item: Parser, empty: bool = False) -> Parser:
    """A list without repetitions. Items that are wrong are left out of the value."""

    def parse(faults: Faults, node: yaml.Node, path: str) -> Any:
        faults.lines[path] = node.start_mark.line + 1
        if not isinstance(node, yaml.SequenceNode) or node.tag != "tag:yaml.org,2002:seq":
            faults.add(path, f"Unexpected type {_TYPES.get(node.tag, node.tag)} (expected list)")
            return MISSING
        if not node.value and not empty:
            faults.add(path, "Empty list")
        values: List[Any] = []
        for index, child in enumerate(node.value):
            value = item(faults, child, f"{path}[{index}]")
            if value is MISSING:
                continue
            if not isinstance(value, dict) and value in values:
                faults.add(f"{path}[{index}]", f"Repeated value: `{value}`")
                continue
            values.append(value)
        return tuple(values)

    return parse


def _pairs(faults: Faults, node: yaml.Node, path: str) -> Optional[List[Tuple[str, yaml.Node]]]:
    faults.lines[path] = node.start_mark.line + 1
    if not isinstance(node, yaml.MappingNode) or node.tag != "tag:yaml.org,2002:map":
        faults.add(path, f"Unexpected type {_TYPES.get(node.tag, node.tag)} (expected mapping)")
        return None
    pairs: List[Tuple[str, yaml.Node]] = []
    seen: Dict[str, int] = {}
    for key, value in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode) or key.tag != "tag:yaml.org,2002:str":
            faults.add(
                path, f"Unexpected key of type {_TYPES.get(key.tag, key.tag)} (expected str; put it in quotes)", line
            )
        elif key.value in seen:
            faults.add(_join(path, key.value), f"Repeated key, first on line {seen[key.value]}", line)
        else:
            seen[key.value] = line
            pairs.append((key.value, value))
    return pairs


def table_of(item: Parser, keys: Parser = string) -> Parser:
    """A mapping whose keys are data."""

    def parse(faults: Faults, node: yaml.Node, path: str) -> Any:
        pairs = _pairs(faults, node, path)
        if pairs is None:
            return MISSING
        table: Dict[str, Any] = {}
        for name, child in pairs:
            value = item(faults, child, _join(path, name))
            if value is not MISSING:
                table[name] = value
        return table

    return parse


def record(keys: Mapping[str, Key]) -> Parser:
    """A mapping with a fixed set of keys. MISSING when a required one is absent or wrong."""

    def parse(faults: Faults, node: yaml.Node, path: str) -> Any:
        pairs = _pairs(faults, node, path)
        if pairs is None:
            return MISSING
        values: Dict[str, Any] = {name: key.default for name, key in keys.items() if not key.required}
        whole = True
        for name, child in pairs:
            if name not in keys:
                line = child.start_mark.line + 1
                faults.add(_join(path, name), f"Unknown key{did_you_mean(name, tuple(keys))}", line)
                continue
            value = keys[name].parser(faults, child, _join(path, name))
            if value is MISSING:
                whole = False
            values[name] = value
        for name in keys:
            if name not in values:
                whole = False
                faults.add(path, f"Missing key `{name}`")
        return values if whole else MISSING

    return parse


def did_you_mean(word: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f", did you mean `{near[0]}`?" if near else ""


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name

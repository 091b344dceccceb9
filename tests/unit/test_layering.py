"""The one-way street of the design: who may import whom, and which sources may include torch."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Iterator

import pytest

ROOT = Path(__file__).resolve().parents[2]

# room -> first-party and heavy packages that its files must not import
FORBIDDEN = {
    "mamba_ssm": {"farm", "mamba_install", "scripts", "tests"},
    "causal_conv1d": {"farm", "mamba_install", "scripts", "tests"},
    "mamba_install": {"farm", "mamba_ssm", "causal_conv1d", "torch", "scripts", "tests"},
    "farm": {"mamba_ssm", "causal_conv1d", "torch", "scripts", "tests"},
    "scripts": {"tests"},
}
# what the farm may take from the installer: the vocabulary of wheel names, and environment facts
FARM_MAY_IMPORT = {
    "mamba_install.wheel_names",
    "mamba_install.environment",
    "mamba_install.probes",
    "mamba_install.rules",
    "mamba_install.torch_versions",
}
TORCH_INCLUDE = re.compile(r'^\s*#\s*include\s*[<"](torch|ATen|c10)/', re.MULTILINE)


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module
            for alias in node.names:
                yield f"{node.module}.{alias.name}"


def sources(room: str) -> list[Path]:
    return sorted((ROOT / room).rglob("*.py"))


@pytest.mark.parametrize("room", sorted(FORBIDDEN))
def test_imports_go_one_way(room: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sources(room)
        for name in imports(path)
        if name.split(".")[0] in FORBIDDEN[room]
    ]
    assert wrong == []


def test_the_farm_takes_only_the_vocabulary_from_the_installer() -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sources("farm")
        for name in imports(path)
        if name.split(".")[0] == "mamba_install"
        and name != "mamba_install"
        and not any(name == allowed or name.startswith(allowed + ".") for allowed in FARM_MAY_IMPORT)
    ]
    assert wrong == []


def test_only_the_bindings_include_torch() -> None:
    wrong = [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "csrc").rglob("*"))
        if path.suffix in {".h", ".cuh", ".cu", ".cpp", ".S"}
        and "bindings" not in path.parts
        and TORCH_INCLUDE.search(path.read_text(encoding="utf-8"))
    ]
    assert wrong == []


def test_the_c_abi_includes_nothing_but_cstdint() -> None:
    for header in sorted((ROOT / "csrc" / "include").rglob("*.h")):
        included = re.findall(r"^\s*#\s*include\s*(\S+)", header.read_text(encoding="utf-8"), re.MULTILINE)
        assert included == ["<cstdint>"], header.name

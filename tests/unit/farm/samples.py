"""Small facts, matrices and wheels that the farm's tests share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, Optional, Sequence, Union

from farm.facts import Facts, parse_facts, read_facts
from farm.matrix import Matrix, read_matrix
from farm.toolchains import Toolchain
from farm.wheel import metadata_file, wheel_file, write_wheel

ROOT = Path(__file__).resolve().parents[3]
EPOCH = 315532800
CUDA_13 = Toolchain("13.0", "13.0.88", "system", "/cuda", ("7.5", "8.0", "8.6", "9.0", "10.0", "12.0", "12.1"))
CUDA_12_4 = Toolchain("12.4", "12.4.131", "system", "/cuda", ("5.0", "7.0", "7.5", "8.0", "8.6", "9.0"))


def real_facts() -> Facts:
    return read_facts(ROOT / "facts.yaml")


def real_matrix() -> Matrix:
    return read_matrix(ROOT / "matrix.yaml", real_facts())


def facts_with(old: str, new: str) -> Facts:
    text = (ROOT / "facts.yaml").read_text(encoding="utf-8")
    assert old in text
    return parse_facts(text.replace(old, new, 1))


def row(**changes: Any) -> str:
    """One good classic row as YAML, with changes; None leaves a key out."""
    values: Dict[str, Any] = {
        "kind": "classic",
        "torch": "2.13",
        "cuda": "cu130",
        "toolchain": "13.0",
        "machines": ["x86_64"],
        "pythons": ["3.11"],
        "cxx11abi": [True],
        "archs": {"x86_64": "8.0;9.0+PTX"},
    }
    values.update(changes)
    kept = {name: value for name, value in values.items() if value is not None}
    return "  - " + json.dumps(kept) + "\n"


def matrix(*rows: str) -> str:
    return "rows:\n" + "".join(rows)


def make_wheel(
    folder: Path,
    filename: str = "mamba_ssm-2.4.0+cpu-py3-none-any.whl",
    version: str = "2.4.0+cpu",
    name: str = "mamba_ssm",
    tags: Optional[Sequence[str]] = None,
    requires: Sequence[str] = ("torch>=1.13",),
    content: Optional[Dict[str, Union[bytes, Path]]] = None,
    dist_info: Optional[str] = None,
) -> Path:
    """A wheel with a module in it; the arguments let it disagree with its own name."""
    info = dist_info or f"{name}-{version}.dist-info"
    files: Dict[str, Union[bytes, Path]] = {"mamba_ssm/__init__.py": b'__version__ = "2.4.0"\n'}
    files.update(content or {})
    files[f"{info}/METADATA"] = metadata_file(name, version, "s", ">=3.9", requires)
    parts = filename[: -len(".whl")].split("-")
    files[f"{info}/WHEEL"] = wheel_file(tags or ["-".join(parts[-3:])], pure=True)
    write_wheel(folder / filename, files, info, EPOCH)
    return folder / filename

"""Small wheels that are whole and right, made to be broken in one place by a test."""

from __future__ import annotations

import base64
import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Sequence

from packaging.tags import parse_tag

from mamba_install.wheel_names import WheelName

ELF_X86_64 = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\x00\x3e\x00" + bytes(44)
ELF_AARCH64 = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\x00\xb7\x00" + bytes(44)
STABLE = {"file": "binding_stable.so", "kind": "stable", "torch_floor": "2.9", "torch_tested": "2.14"}
CLASSIC_2_6 = {"file": "binding_torch2.6_abi0.so", "kind": "classic", "torch": "2.6", "cxx11abi": False}
UNIVERSAL_CPU = "mamba_ssm-2.4.0+cpu-py3-none-manylinux_2_17_x86_64.whl"
# what the installer runs after an install; the report says what a real one would
SELFCHECK = """
import json, sys
check = {"name": "selective_scan", "backend": "cpu", "device": "cpu", "dtype": "float32", "max_error": 1e-6,
         "threshold": 1e-4, "ok": OK, "message": ""}
print(json.dumps({"ok": OK, "torch": "2.13.0", "backend_info": {}, "checks": [check], "peak_memory_mb": 12.0}))
sys.exit(0 if OK else 7)
"""


def bindings(*rows: Mapping[str, Any], cuda: Optional[Mapping[str, Any]] = None) -> bytes:
    table = {"format": 1, "kernels_abi": 1, "cpu": {"file": "libmamba_cpu.so"}, "cuda": cuda, "bindings": list(rows)}
    return json.dumps(table).encode()


def make_wheel(
    folder: Path,
    filename: str = UNIVERSAL_CPU,
    *,
    requires: Sequence[str] = ("torch>=2.0",),
    files: Optional[Mapping[str, bytes]] = None,
    rows: Sequence[Mapping[str, Any]] = (STABLE, CLASSIC_2_6),
    cuda: Optional[Mapping[str, Any]] = None,
    selfcheck_ok: bool = True,
    metadata_version: Optional[str] = None,
    tags: Optional[str] = None,
    record: Optional[Mapping[str, str]] = None,
) -> Path:
    """Write a wheel; every keyword breaks or bends one thing."""
    name = WheelName.parse(filename)
    info = f"{name.distribution}-{name.full_version}.dist-info"
    version = metadata_version or name.full_version
    content: Dict[str, bytes] = {
        f"{name.distribution}/__init__.py": f'__version__ = "{name.version}"\n'.encode(),
        f"{name.distribution}/selfcheck.py": SELFCHECK.replace("OK", str(selfcheck_ok)).encode(),
    }
    if name.label is not None and name.label.kind == "universal":
        content["mamba_ssm/_native/bindings.json"] = bindings(*rows, cuda=cuda)
        content["mamba_ssm/_native/libmamba_cpu.so"] = ELF_AARCH64 if "aarch64" in filename else ELF_X86_64
    content.update(files or {})
    requirements = "".join(f"Requires-Dist: {text}\n" for text in requires)
    content[f"{info}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: {name.distribution}\nVersion: {version}\n{requirements}".encode()
    )
    spelled = tags or f"{name.python}-{name.abi}-{name.platform}"
    listed = "".join(f"Tag: {tag}\n" for tag in sorted(map(str, parse_tag(spelled))))
    content[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\n{listed}".encode()
    lines = [f"{path},sha256={_digest(data)},{len(data)}" for path, data in content.items()]
    lines += [f"{path},{digest}," for path, digest in (record or {}).items()]
    content[f"{info}/RECORD"] = "\n".join([*lines, f"{info}/RECORD,,", ""]).encode()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / filename
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, data in content.items():
            archive.writestr(member, data)
    return path


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()

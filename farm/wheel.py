"""Writes a wheel file: sorted, with fixed time stamps, so that equal content makes equal bytes.

https://packaging.python.org/en/latest/specifications/binary-distribution-format/
"""

from __future__ import annotations

import base64
import hashlib
import os
import struct
import time
import zipfile
import zlib
from contextlib import suppress
from pathlib import Path
from typing import List, Mapping, Optional, Sequence, Tuple, Union

from farm.errors import BuildError

Content = Mapping[str, Union[bytes, Path]]
GENERATOR = "mamba-farm"
# what zipfile raises on a file that is no whole archive, or one that it cannot unpack
BROKEN_ARCHIVE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, struct.error, ValueError)


def urlsafe_digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode("ascii")


def wheel_file(tags: Sequence[str], pure: bool) -> bytes:
    lines = ["Wheel-Version: 1.0", f"Generator: {GENERATOR}", f"Root-Is-Purelib: {str(pure).lower()}"]
    return "\n".join([*lines, *(f"Tag: {tag}" for tag in tags), ""]).encode("ascii")


def metadata_file(
    name: str,
    version: str,
    summary: str,
    requires_python: str,
    requires: Sequence[str],
    description: Optional[str] = None,
    license_expression: str = "MIT",
) -> bytes:
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {name}",
        f"Version: {version}",
        f"Summary: {summary}",
        f"License-Expression: {license_expression}",
        "License-File: LICENSE",
        f"Requires-Python: {requires_python}",
        *(f"Requires-Dist: {requirement}" for requirement in requires),
    ]
    if description is None:
        return ("\n".join(lines) + "\n").encode("utf-8")
    lines.append("Description-Content-Type: text/markdown")
    return ("\n".join(lines) + "\n\n" + description).encode("utf-8")


def write_wheel(path: Path, content: Content, dist_info: str, epoch: int) -> None:
    """Write the archive and its RECORD; under another name first, so that a half-written wheel is never seen."""
    stamp = time.gmtime(epoch)[:6]
    record: List[str] = []
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(temporary, "w") as archive:
            for name in sorted(content, key=lambda name: (name.startswith(dist_info), name)):
                data = _read(content[name])
                record.append(f"{_csv(name)},sha256={urlsafe_digest(data)},{len(data)}")
                _add(archive, name, data, stamp)
            record.append(f"{dist_info}/RECORD,,")
            _add(archive, f"{dist_info}/RECORD", ("\n".join(record) + "\n").encode("utf-8"), stamp)
        temporary.replace(path)
    except OSError as error:
        raise BuildError(f"cannot write the wheel: {error}", "is the disk full, or the folder not ours?") from error
    finally:
        with suppress(OSError):  # where the folder is none, there is nothing to remove
            temporary.unlink(missing_ok=True)


def _read(value: Union[bytes, Path]) -> bytes:
    return value if isinstance(value, bytes) else value.read_bytes()


def _csv(name: str) -> str:
    return f'"{name}"' if "," in name else name


def _add(archive: zipfile.ZipFile, name: str, data: bytes, stamp: Tuple[int, ...]) -> None:
    info = zipfile.ZipInfo(name, stamp[:6])  # type: ignore[arg-type]  # exactly six numbers
    info.compress_type = zipfile.ZIP_DEFLATED
    info.create_system = 3  # Unix, whatever wrote it: permissions follow
    info.external_attr = (0o100755 if name.endswith(".so") else 0o100644) << 16
    archive.writestr(info, data, compresslevel=6)  # 9 takes six times as long for 2 %

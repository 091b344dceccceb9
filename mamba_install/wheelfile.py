"""Opens a wheel without running anything of it, and holds it against its own name, records and machine.

Format: https://packaging.python.org/en/latest/specifications/binary-distribution-format/
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import re
import struct
import zipfile
import zlib
from email.parser import HeaderParser
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from packaging.tags import parse_tag
from packaging.version import InvalidVersion, Version

from mamba_install.errors import CheckError
from mamba_install.records import Binding, CheckedWheel, Contents, Download
from mamba_install.wheel_names import WheelName

MEMBERS = 20_000
UNPACKED_BYTES = 8 << 30
# deflate reaches about 1030:1 on zeros; device code and libraries stay below 50:1
RATIO = 300
METADATA_BYTES = 4 << 20
BINDINGS_FILE = "mamba_ssm/_native/bindings.json"
ELF_MACHINES = {62: "x86_64", 183: "aarch64", 3: "i686", 21: "ppc64le"}

_BROKEN = (zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, EOFError, OSError, NotImplementedError, struct.error)
_HINT = "delete the file and fetch it again; if it stays so, the index is at fault: report it to whoever runs it"


def check_wheel(download: Download) -> CheckedWheel:
    """Everything that can be known of a wheel before it is installed; CheckError says what is wrong."""
    name = download.candidate.name
    try:
        with zipfile.ZipFile(download.path) as archive:
            _check_members(archive, name)
            _check_record(archive, name)
            metadata = _read_headers(archive, name, "METADATA")
            _check_identity(metadata, name)
            _check_tags(_read_headers(archive, name, "WHEEL"), name)
            _check_machines(archive, name)
            contents = _parse_contents(archive)
    except _BROKEN as error:
        raise _fault(name, f"it is no intact zip archive ({_short(error)})") from error
    except (ValueError, KeyError, RuntimeError, RecursionError) as error:  # what zipfile and email raise on nonsense
        raise _fault(name, f"it cannot be read ({_short(error)})") from error
    requires = tuple(value for key, value in metadata if key == "requires-dist")
    return CheckedWheel(download, requires, contents)


def read_contents(path: Path) -> Optional[Contents]:
    """The choice table of a wheel that lies here; None where there is none to be read."""
    try:
        with zipfile.ZipFile(path) as archive:
            return _parse_contents(archive)
    except (*_BROKEN, ValueError, KeyError, RuntimeError, RecursionError):
        return None


def _fault(name: WheelName, what: str) -> CheckError:
    return CheckError(f"the wheel is not what it should be: `{name.filename}`: {what}", _HINT)


def _short(error: BaseException) -> str:
    return " ".join(str(error).split())[:160] or type(error).__name__


def _check_members(archive: zipfile.ZipFile, name: WheelName) -> None:
    members = archive.infolist()
    if len(members) > MEMBERS:
        raise _fault(name, f"it holds {len(members)} files, more than {MEMBERS}")
    seen, unpacked = set(), 0
    for member in members:
        path = member.filename
        if (
            path.startswith(("/", "\\"))
            or "\\" in path
            or ":" in path.split("/")[0]
            or ".." in path.split("/")
            or "\0" in path
        ):
            raise _fault(name, f"a file would be written outside the environment: `{path}`")
        if (member.external_attr >> 16) & 0o170000 == 0o120000:
            raise _fault(name, f"it holds a symbolic link: `{path}`")
        if path in seen:
            raise _fault(name, f"it holds two files of one name: `{path}`")
        seen.add(path)
        unpacked += member.file_size
        if member.file_size > 1 << 20 and member.file_size > RATIO * max(member.compress_size, 1):
            raise _fault(name, f"`{path}` unpacks to {member.file_size >> 20} MB from {member.compress_size} bytes")
    if unpacked > UNPACKED_BYTES:
        raise _fault(name, f"it unpacks to {unpacked >> 20} MB")


def _dist_info(archive: zipfile.ZipFile, name: WheelName) -> str:
    found = {path.split("/")[0] for path in archive.namelist() if path.split("/")[0].endswith(".dist-info")}
    if len(found) != 1:
        raise _fault(name, f"it holds {len(found)} .dist-info folders, not one")
    return found.pop()


def _read_small(archive: zipfile.ZipFile, name: WheelName, path: str) -> bytes:
    try:
        member = archive.getinfo(path)
    except KeyError:
        raise _fault(name, f"`{path}` is missing") from None
    if member.file_size > METADATA_BYTES:
        raise _fault(name, f"`{path}` is {member.file_size >> 20} MB")
    return archive.read(member)


def _read_headers(archive: zipfile.ZipFile, name: WheelName, file: str) -> List[Tuple[str, str]]:
    text = _read_small(archive, name, f"{_dist_info(archive, name)}/{file}").decode("utf-8")
    return [(key.lower(), str(value)) for key, value in HeaderParser().parsestr(text).items()]


def _check_record(archive: zipfile.ZipFile, name: WheelName) -> None:
    """Every file is in RECORD with its hash and size, and RECORD holds nothing else."""
    folder = _dist_info(archive, name)
    text = _read_small(archive, name, f"{folder}/RECORD").decode("utf-8")
    record: Dict[str, Tuple[str, str]] = {}
    for row in csv.reader(io.StringIO(text)):
        if row:
            if len(row) != 3:
                raise _fault(name, f"RECORD has a row that is none: `{','.join(row)[:80]}`")
            record[row[0]] = (row[1], row[2])
    unhashed = {f"{folder}/{file}" for file in ("RECORD", "RECORD.jws", "RECORD.p7s")}
    files = [member for member in archive.infolist() if not member.is_dir()]
    for member in files:
        if member.filename in unhashed:
            continue
        if member.filename not in record:
            raise _fault(name, f"`{member.filename}` is not in RECORD")
        digest, size = record[member.filename]
        if (size and size != str(member.file_size)) or digest != _digest(archive, member, digest):
            raise _fault(name, f"`{member.filename}` differs from what RECORD says")
    missing = set(record) - {member.filename for member in files}
    if missing:
        raise _fault(name, f"RECORD lists a file that is not there: `{min(missing)}`")


def _digest(archive: zipfile.ZipFile, member: zipfile.ZipInfo, expected: str) -> str:
    algorithm = expected.partition("=")[0]
    if algorithm not in ("sha256", "sha384", "sha512"):
        return "not a hash that the format allows"
    total = hashlib.new(algorithm)
    with archive.open(member) as stream:
        for chunk in iter(lambda: stream.read(1 << 20), b""):
            total.update(chunk)
    return f"{algorithm}={base64.urlsafe_b64encode(total.digest()).rstrip(b'=').decode('ascii')}"


def _check_identity(metadata: List[Tuple[str, str]], name: WheelName) -> None:
    from packaging.utils import canonicalize_name

    values = dict(reversed(metadata))
    said = values.get("name", "")
    if canonicalize_name(said) != name.canonical_name:
        raise _fault(name, f"METADATA names it `{said}`")
    version = values.get("version", "")
    try:
        same = Version(version) == Version(name.full_version)
    except InvalidVersion:
        same = False
    if not same:
        raise _fault(name, f"METADATA says version `{version}`, the file name says `{name.full_version}`")
    _check_torch_pin(metadata, name)


def _check_torch_pin(metadata: List[Tuple[str, str]], name: WheelName) -> None:
    """A classic wheel that pins torch must pin the torch of its label."""
    from packaging.requirements import InvalidRequirement, Requirement

    if name.label is None or name.label.torch is None:
        return
    for text in (value for key, value in metadata if key == "requires-dist"):
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            raise _fault(name, f"METADATA has a requirement that is none: `{text}`") from None
        minor = name.label.torch
        if requirement.name.lower() == "torch" and not any(
            requirement.specifier.contains(f"{minor}.{patch}") for patch in range(10)
        ):
            raise _fault(name, f"its label says torch {minor}, METADATA requires `{text}`")


def _check_tags(headers: List[Tuple[str, str]], name: WheelName) -> None:
    said = {tag for key, value in headers if key == "tag" for tag in parse_tag(value)}
    if said != parse_tag(f"{name.python}-{name.abi}-{name.platform}"):
        listed = ", ".join(sorted(map(str, said))) or "none"
        raise _fault(name, f"its WHEEL file is tagged `{listed}`")


def _check_machines(archive: zipfile.ZipFile, name: WheelName) -> None:
    """Every shared library is for the machine of the platform tag."""
    for member in archive.infolist():
        if not re.search(r"\.so(\.\d+)*$", member.filename):
            continue
        with archive.open(member) as stream:
            head = stream.read(20)
        if head[:4] != b"\x7fELF" or len(head) < 20:
            raise _fault(name, f"`{member.filename}` is no ELF library")
        (number,) = struct.unpack("<H" if head[5] == 1 else ">H", head[18:20])
        machine = ELF_MACHINES.get(number, f"ELF machine {number}")
        if not name.platform.endswith(machine):
            raise CheckError(
                f"the wheel is not what it should be: `{name.filename}`: `{member.filename}` is for {machine}",
                _HINT,
                code="MACHINE_MISMATCH",
            )


def _parse_contents(archive: zipfile.ZipFile) -> Optional[Contents]:
    try:
        member = archive.getinfo(BINDINGS_FILE)
    except KeyError:
        return None
    if member.file_size > METADATA_BYTES:
        return None
    table = json.loads(archive.read(member).decode("utf-8"))
    if not isinstance(table, dict) or not isinstance(table.get("bindings"), list):
        return None
    rows = [row for row in table["bindings"] if isinstance(row, dict)]
    bindings = tuple(binding for binding in map(_parse_binding, rows) if binding is not None)
    cuda = table.get("cuda")
    archs = cuda.get("archs") if isinstance(cuda, dict) else None
    return Contents(
        bindings,
        tuple(map(str, archs)) if isinstance(archs, list) else None,
        _text(cuda.get("toolkit")) if isinstance(cuda, dict) else None,
        next((_minor(row.get("torch_tested")) for row in rows if row.get("kind") == "stable"), None),
    )


def _parse_binding(row: Dict[str, Any]) -> Optional[Binding]:
    if row.get("kind") == "stable":
        floor = _minor(row.get("torch_floor"))
        return Binding("stable", floor) if floor is not None else None
    minor = _minor(row.get("torch"))
    if minor is None or type(row.get("cxx11abi")) is not bool:
        return None
    return Binding("classic", minor, row["cxx11abi"])


def _minor(value: object) -> Optional[str]:
    return value if isinstance(value, str) and re.fullmatch(r"\d{1,3}\.\d{1,3}", value) else None


def _text(value: object) -> Optional[str]:
    return value if isinstance(value, str) else None

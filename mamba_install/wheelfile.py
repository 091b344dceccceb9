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
from mamba_install.public_wheels import is_public
from mamba_install.records import Binding, Candidate, CheckedWheel, Contents, Download
from mamba_install.wheel_names import WheelName
from mamba_install.world import OWN_VERSIONS

MEMBERS = 20_000
UNPACKED_BYTES = 8 << 30
# deflate reaches about 1030:1 on zeros; device code and libraries stay below 50:1
RATIO = 300
METADATA_BYTES = 4 << 20
BINDINGS_FILE = "mamba_ssm/_native/bindings.json"
ELF_MACHINES = {62: "x86_64", 183: "aarch64", 3: "i686", 21: "ppc64le"}
# what the public packages put beside their package: the compiled modules, and flash_attn a second package
PUBLIC_MODULES: Dict[str, str] = {
    "mamba-ssm": "selective_scan_cuda",
    "causal-conv1d": "causal_conv1d_cuda",
    "flash-attn": "flash_attn_2_cuda",
}
PUBLIC_PACKAGES: Dict[str, Tuple[str, ...]] = {"flash-attn": ("hopper",)}

_BROKEN = (zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, EOFError, OSError, NotImplementedError, struct.error)
# what zipfile, csv, json and email raise on nonsense
_NONSENSE = (ValueError, KeyError, RuntimeError, RecursionError, csv.Error)
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
            _check_torch_pin(metadata, download.candidate)
            _check_places(archive, download.candidate)
            _check_tags(_read_headers(archive, name, "WHEEL"), name)
            _check_machines(archive, name)
            _check_table(archive, name)
            contents = _parse_contents(archive)
    except _BROKEN as error:
        raise _fault(name, f"it is no intact zip archive ({_short(error)})") from error
    except _NONSENSE as error:
        raise _fault(name, f"it cannot be read ({_short(error)})") from error
    requires = tuple(value for key, value in metadata if key == "requires-dist")
    return CheckedWheel(download, requires, contents)


def read_contents(path: Path) -> Optional[Contents]:
    """The choice table of a wheel that lies here; None where there is none to be read."""
    try:
        with zipfile.ZipFile(path) as archive:
            return _parse_contents(archive)
    except (*_BROKEN, *_NONSENSE):
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


def _check_places(archive: zipfile.ZipFile, candidate: Candidate) -> None:
    """Every file lies in the distribution's own package or metadata: a wheel must not write over others or run at start-up."""
    from packaging.utils import canonicalize_name

    name = candidate.name
    folder = _dist_info(archive, name)
    distribution, _, version = folder[: -len(".dist-info")].partition("-")
    if canonicalize_name(distribution) != name.canonical_name or version not in (name.full_version, name.version):
        raise _fault(name, f"its metadata is that of another distribution: `{folder}`")
    public = is_public(candidate)
    packages = {folder, name.canonical_name.replace("-", "_")}
    if public:
        packages.update(PUBLIC_PACKAGES.get(name.canonical_name, ()))
    module = PUBLIC_MODULES.get(name.canonical_name) if public else None
    for path in archive.namelist():
        top, slash, _ = path.partition("/")
        if slash and top in packages:
            continue
        if module is not None and re.fullmatch(rf"{module}(\.[\w-]+)?\.so", path, re.ASCII):
            continue
        raise _fault(name, f"a file lies outside of its own package and could change other packages: `{path}`")


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
    try:
        rows = list(csv.reader(io.StringIO(text)))
    except csv.Error as error:
        raise _fault(name, f"RECORD cannot be read ({_short(error)})") from error
    for row in rows:
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


def _check_torch_pin(metadata: List[Tuple[str, str]], candidate: Candidate) -> None:
    """Our classic wheels pin exactly the torch of their label; a public one may leave it open, but not ask for another."""
    from packaging.requirements import InvalidRequirement, Requirement

    name = candidate.name
    if name.label is None or name.label.torch is None:
        return
    minor = name.label.torch
    pins = []
    for text in (value for key, value in metadata if key == "requires-dist"):
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            raise _fault(name, f"METADATA has a requirement that is none: `{text}`") from None
        if requirement.name.lower() == "torch":
            pins.append((text, requirement))
    if name.canonical_name in OWN_VERSIONS and not is_public(candidate):
        if [str(requirement) for _, requirement in pins] != [f"torch=={minor}.*"]:
            found = ", ".join(f"`{text[:160]}`" for text, _ in pins) or "no torch"
            raise _fault(name, f"its label says torch {minor}, METADATA requires {found} instead of `torch=={minor}.*`")
        return
    for text, requirement in pins:
        allowed = any(requirement.specifier.contains(f"{minor}.{patch}") for patch in range(10))
        if requirement.url is not None or not allowed:
            raise _fault(name, f"its label says torch {minor}, METADATA requires `{text[:160]}`")


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


def _check_table(archive: zipfile.ZipFile, name: WheelName) -> None:
    """The choice table, where there is one, is what the loader can use: it would leave a wrong one aside and run no kernel."""
    if BINDINGS_FILE not in archive.namelist():
        return
    try:
        table = json.loads(_read_small(archive, name, BINDINGS_FILE).decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise _fault(name, f"`{BINDINGS_FILE}` is not JSON ({_short(error)})") from error
    wrong = _wrong_in_table(table)
    if wrong is not None:
        raise _fault(name, f"`{BINDINGS_FILE}` is no table of bindings: {wrong}")


def _wrong_in_table(table: object) -> Optional[str]:
    """The first thing that is not as the packer writes it."""
    if not isinstance(table, dict):
        return _unexpected(table, "object", "the whole")
    for key in ("format", "kernels_abi"):
        if type(table.get(key)) is not int:
            return _unexpected(table.get(key), "int", key)
    for device in ("cpu", "cuda"):
        entry = table.get(device)
        if entry is None:
            continue
        if not isinstance(entry, dict):
            return _unexpected(entry, "object or null", device)
        if not _is_file(entry.get("file")):
            return f"no file name in `{device}.file`"
    cuda = table.get("cuda")
    if cuda is not None:
        archs = cuda.get("archs")
        if not isinstance(archs, list) or not all(isinstance(arch, str) for arch in archs):
            return _unexpected(archs, "list of str", "cuda.archs")
        if not isinstance(cuda.get("toolkit"), str):
            return _unexpected(cuda.get("toolkit"), "str", "cuda.toolkit")
    rows = table.get("bindings")
    if not isinstance(rows, list):
        return _unexpected(rows, "list", "bindings")
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            return _unexpected(row, "object", f"bindings[{number}]")
        if row.get("kind") not in ("classic", "stable") or not _is_file(row.get("file")) or not _parse_binding(row):
            return f"a row that names no binding in `bindings[{number}]`"
    return None


def _unexpected(value: object, expected: str, where: str) -> str:
    return f"Unexpected type {type(value).__name__} (expected {expected}) in `{where}`"


def _is_file(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[\w.+-]{1,200}", value, re.ASCII) is not None


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

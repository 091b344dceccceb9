"""Opens a finished wheel and holds it against its own name: nothing is published unseen. Each finding begins with its code."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import re
import tempfile
import zipfile
from dataclasses import dataclass, field
from email.parser import BytesParser
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from farm import platform_tag
from farm.archs import parse_archs
from farm.cuobjdump import find_cuobjdump, list_device_code
from farm.elf import Library, NotElfError, count_device_code, read_device_code, read_library
from farm.errors import BuildError, CheckError
from farm.recipe import CUDA_UNITS
from farm.wheel import BROKEN_ARCHIVE
from mamba_install.wheel_names import WheelName, WheelNameError

NATIVE = "mamba_ssm/_native/"
TABLE = NATIVE + "bindings.json"
UNPACKED_BYTES = 1 << 30  # all of it is held in memory here; a real wheel unpacks to a tenth
_FOREIGN = re.compile(r"(libtorch|libc10|libcuda|libcudart|libnv|libstdc\+\+|libgcc_s|libgomp)[\w.-]*\.so")


@dataclass(frozen=True)
class CheckedWheel:
    """A wheel that holds what its name says. `notes`: what was not checked, and why."""

    path: Path
    name: WheelName
    notes: Tuple[str, ...] = ()


@dataclass
class Inspection:
    """What is known of one wheel while it is looked at."""

    path: Path
    name: WheelName
    files: Dict[str, bytes] = field(default_factory=dict)
    libraries: Dict[str, Library] = field(default_factory=dict)
    table: Optional[Mapping[str, Any]] = None
    findings: List[str] = field(default_factory=list)
    notes: List[str] = field(default_factory=list)

    def find(self, code: str, message: str) -> None:
        self.findings.append(f"{code}: {message}")

    @property
    def machine(self) -> Optional[str]:
        """The machine of the name's tag, None for a wheel for any."""
        match = re.search(r"(x86_64|aarch64)$", self.name.platform)
        return match[1] if match else None


def check_wheel(path: Path) -> CheckedWheel:
    """Look at everything; CheckError lists all that is wrong."""
    try:
        name = WheelName.parse(path.name)
    except WheelNameError as error:
        raise CheckError(f"{path.name}: {error}", "a wheel is called NAME-VERSION-PYTHON-ABI-PLATFORM.whl") from error
    wheel = Inspection(path, name)
    # An archive that cannot be read leaves nothing for the rest to look at.
    if check_archive(wheel):
        for check in CHECKS:
            check(wheel)
    if wheel.findings:
        findings = "\n".join(f"  {finding}" for finding in wheel.findings)
        raise CheckError(
            f"{path.name} failed its check:\n{findings}", "build it again; do not publish it", wheel.findings
        )
    return CheckedWheel(path, name, tuple(wheel.notes))


def check_archive(wheel: Inspection) -> bool:
    """The file is a whole zip archive with sane names."""
    try:
        with zipfile.ZipFile(wheel.path) as archive:
            names = archive.namelist()
            unpacked = sum(member.file_size for member in archive.infolist())
            if unpacked > UNPACKED_BYTES:
                wheel.find("FARM_ARCHIVE", f"it unpacks to {unpacked >> 20} MB, more than {UNPACKED_BYTES >> 20}")
                return False
            for name in names:
                if name.startswith("/") or ".." in name.split("/") or "\\" in name or ":" in name.split("/")[0]:
                    wheel.find("FARM_ARCHIVE", f"a path that leads out of the wheel: `{name}`")
            if len(names) != len(set(names)):
                wheel.find("FARM_ARCHIVE", "a file is in the archive twice")
            wheel.files = {name: archive.read(name) for name in names if not name.endswith("/")}
    except (OSError, *BROKEN_ARCHIVE) as error:
        wheel.find("FARM_ARCHIVE", f"not a whole zip archive: {error}")
        return False
    return True


def check_record(wheel: Inspection) -> None:
    """RECORD lists every file with its digest and size."""
    dist_info = _dist_info(wheel)
    data = wheel.files.get(f"{dist_info}/RECORD")
    if data is None:
        wheel.find("FARM_RECORD", f"there is no {dist_info}/RECORD")
        return
    listed = {}
    try:
        lines = list(csv.reader(io.StringIO(data.decode("utf-8", errors="replace"))))
    except csv.Error as error:
        wheel.find("FARM_RECORD", f"RECORD cannot be read: {error}")
        return
    for line in lines:
        if len(line) != 3:
            wheel.find("FARM_RECORD", f"a line that is no record: `{','.join(line)}`")
            continue
        listed[line[0]] = (line[1], line[2])
    for name, content in wheel.files.items():
        if name not in listed:
            wheel.find("FARM_RECORD", f"not in RECORD: `{name}`")
        elif not name.endswith("/RECORD"):
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode("ascii")
            if listed[name] != (f"sha256={digest}", str(len(content))):
                wheel.find("FARM_RECORD", f"other content than RECORD says: `{name}`")
    for name in sorted(set(listed) - set(wheel.files)):
        wheel.find("FARM_RECORD", f"in RECORD but not in the wheel: `{name}`")


def _dist_info(wheel: Inspection) -> str:
    found = sorted({name.split("/")[0] for name in wheel.files if name.split("/")[0].endswith(".dist-info")})
    return found[0] if found else f"{wheel.name.distribution}-{wheel.name.full_version}.dist-info"


def check_names(wheel: Inspection) -> None:
    """File name, folder, METADATA and WHEEL say the same."""
    name = wheel.name
    expected = f"{name.distribution}-{name.full_version}.dist-info"
    folder = _dist_info(wheel)
    if folder != expected:
        wheel.find("FARM_METADATA_VERSION", f"the folder is `{folder}`, the file name asks for `{expected}`")
    metadata = BytesParser().parsebytes(wheel.files.get(f"{folder}/METADATA", b""))
    said = f"{metadata['Name']} {metadata['Version']}"
    if said != f"{name.distribution} {name.full_version}":
        wheel.find(
            "FARM_METADATA_VERSION",
            f"METADATA says `{said}`, the file name says `{name.distribution} {name.full_version}`",
        )
    described = BytesParser().parsebytes(wheel.files.get(f"{folder}/WHEEL", b""))
    tags = set(described.get_all("Tag") or [])
    wanted = {
        f"{python}-{abi}-{platform}"
        for python in name.python.split(".")
        for abi in name.abi.split(".")
        for platform in name.platform.split(".")
    }
    if tags != wanted:
        wheel.find("FARM_METADATA_VERSION", f"WHEEL has the tags `{sorted(tags)}`, the file name `{sorted(wanted)}`")
    label = name.label
    if label is not None and label.kind == "classic":
        pins = [word for word in metadata.get_all("Requires-Dist") or [] if word.split("=")[0].strip() == "torch"]
        if pins != [f"torch=={label.torch}.*"]:
            wheel.find("FARM_TORCH_PIN", f"made for torch {label.torch}, but METADATA requires `{pins}`")


def check_table(wheel: Inspection) -> None:
    """bindings.json names exactly the libraries that are there, and they are what the label says."""
    native = sorted(name for name in wheel.files if name.endswith(".so"))
    data = wheel.files.get(TABLE)
    if data is None:
        if native:
            wheel.find("FARM_TABLE", f"native files without {TABLE}")
        return
    try:
        table = json.loads(data)
        named = sorted(NATIVE + file for file in _named_files(table))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        wheel.find("FARM_TABLE", f"{TABLE} cannot be read: {type(error).__name__}: {error}")
        return
    wheel.table = table
    if named != native:
        wheel.find("FARM_TABLE", f"{TABLE} names `{named}`, the wheel holds `{native}`")
    label = wheel.name.label
    if label is None:
        return
    if label.accelerator.startswith("cu") and table["cuda"] is None:
        wheel.find("FARM_NO_DEVICE_CODE", f"called `{label}`, but there are no CUDA kernels in it")
    if (
        label.accelerator.startswith("cu")
        and table["cuda"]
        and table["cuda"]["toolkit"].split(".")[0] != label.accelerator[2:4]
    ):
        wheel.find("FARM_TABLE", f"called `{label}`, but its kernels come from CUDA {table['cuda']['toolkit']}")
    if label.accelerator == "cpu" and table["cuda"] is not None:
        wheel.find("FARM_TABLE", f"called `{label}`, but there are CUDA kernels in it")
    if label.kind == "classic":
        for entry in table["bindings"]:
            if entry["kind"] == "classic" and (entry["torch"], entry["cxx11abi"]) != (label.torch, label.cxx11abi):
                wheel.find("FARM_WRONG_ABI_LABEL", f"called `{label}`, but it holds `{entry['file']}`")


def _named_files(table: Any) -> List[str]:
    """The files that a table names; KeyError, TypeError or ValueError when the loader could not use it."""
    files = []
    for device in ("cpu", "cuda"):
        if table[device] is not None:
            files.append(table[device]["file"])
    if table["cuda"] is not None:
        parse_archs(";".join(table["cuda"]["archs"]))
        if not isinstance(table["cuda"]["toolkit"], str):
            raise TypeError("`toolkit` is no string")
    for entry in table["bindings"]:
        files.append(entry["file"])
        if entry["kind"] not in ("classic", "stable"):
            raise ValueError(f"a binding of unknown kind: `{entry['kind']}`")
        wanted = {"torch": str, "cxx11abi": bool} if entry["kind"] == "classic" else {"torch_floor": str}
        for key, kind in wanted.items():
            if type(entry[key]) is not kind:
                raise TypeError(f"`{key}` is no {kind.__name__}")
    if not all(isinstance(file, str) and "/" not in file for file in files):
        raise TypeError("a file name that is none")
    return files


def check_libraries(wheel: Inspection) -> None:
    """Every library is for the machine of the name, brings nothing that belongs elsewhere, and has the ABI it claims."""
    for name in sorted(wheel.files):
        if not name.endswith(".so") and ".so." not in name:
            continue
        if _FOREIGN.match(name.rsplit("/", 1)[-1]):
            wheel.find("FARM_BUNDLED_LIB", f"this belongs to the system, to torch or to the driver: `{name}`")
        try:
            library = read_library(wheel.files[name])
        except NotElfError as error:
            wheel.find("FARM_ARCHIVE", f"not a shared library: `{name}` ({error})")
            continue
        wheel.libraries[name] = library
        if library.machine != wheel.machine:
            wheel.find("FARM_MACHINE", f"`{name}` is for {library.machine}, the file name says {wheel.name.platform}")
        for needed in library.needed:
            if needed.startswith(("libcudart", "libcuda", "libpython", "libc10", "libtorch_")):
                wheel.find("FARM_BUNDLED_LIB", f"`{name}` needs `{needed}` to load, which not every machine has")
    for entry in (wheel.table or {}).get("bindings", ()):
        linked = wheel.libraries.get(NATIVE + entry["file"])
        if entry["kind"] == "classic" and linked is not None:
            _check_abi(wheel, entry["file"], bool(entry["cxx11abi"]), linked)


def _check_abi(wheel: Inspection, file: str, claimed: bool, library: Library) -> None:
    """torch's functions that take a std::string carry its ABI in their names."""
    torch = [
        symbol for symbol in library.undefined if re.match(r"_ZN[KVR]*\d+(c10|torch|at)", symbol) or "c10" in symbol
    ]
    new = any("__cxx11" in symbol for symbol in torch)
    old = any(re.search(r"RKSs|ESs|Ss[EbRN]|Ss$", symbol) and "__cxx11" not in symbol for symbol in torch)
    if (claimed and old and not new) or (not claimed and new):
        wheel.find(
            "FARM_WRONG_ABI_LABEL", f"`{file}` calls torch by the {'new' if new else 'old'} C++11 ABI, against its name"
        )


def check_platform(wheel: Inspection) -> None:
    """The tag's glibc is one that the files run on, by their symbols and by auditwheel."""
    if not wheel.libraries:
        return
    if wheel.machine is None:
        wheel.find("FARM_MACHINE", f"native files in a wheel for `{wheel.name.platform}`")
        return
    floors = [tuple(map(int, m)) for m in re.findall(r"manylinux_(\d+)_(\d+)_", wheel.name.platform)]
    floors += [
        {"1": (2, 5), "2010": (2, 12), "2014": (2, 17)}[m]
        for m in re.findall(r"manylinux(1|2010|2014)_", wheel.name.platform)
    ]
    if not floors:
        wheel.notes.append(f"the tag `{wheel.name.platform}` promises no glibc")
        return
    promised = min(floors)
    for name, library in wheel.libraries.items():
        if library.glibc > promised:
            needs = ".".join(map(str, library.glibc))
            wheel.find("FARM_GLIBC", f"`{name}` needs glibc {needs}, the tag promises {promised[0]}.{promised[1]}")
    try:
        verdict = platform_tag.judge(wheel.path, wheel.machine)
    except BuildError as error:
        wheel.notes.append(f"not checked by auditwheel: {error}")
        return
    match = re.match(r"manylinux_(\d+)_(\d+)_", verdict)
    if match is None or (int(match[1]), int(match[2])) > promised:
        wheel.find("FARM_GLIBC", f"auditwheel's verdict is `{verdict}`, the tag is `{wheel.name.platform}`")


def check_device_code(wheel: Inspection) -> None:
    """The cubins and PTX images are exactly the declared ones, one of each per unit; counted, not believed."""
    cuda = (wheel.table or {}).get("cuda")
    if not cuda or NATIVE + cuda["file"] not in wheel.files:
        return
    data = wheel.files[NATIVE + cuda["file"]]
    archs = parse_archs(";".join(cuda["archs"]))
    units = len(CUDA_UNITS)
    declared = {("cubin", re.sub("[af]$", "", arch.capability)): units for arch in archs}
    declared.update({("ptx", re.sub("[af]$", "", arch.capability)): units for arch in archs if arch.ptx})
    found = count_device_code(read_device_code(data))
    if not found:
        wheel.find("FARM_NO_DEVICE_CODE", f"`{cuda['file']}` holds no device code")
    elif found != declared:
        wheel.find("FARM_ARCH_GAP", f"`{cuda['file']}` holds {_words(found)}; declared are {_words(declared)}")
    cuobjdump = find_cuobjdump()
    if cuobjdump is None:
        wheel.notes.append(
            "cubins counted by the farm's own reader only: no cuobjdump (pip install nvidia-cuda-cuobjdump)"
        )
        return
    with tempfile.TemporaryDirectory(prefix="mamba-farm-") as folder:
        library = Path(folder) / "library.so"
        library.write_bytes(data)
        listed = list_device_code(cuobjdump, library)
    if listed != declared:
        wheel.find(
            "FARM_ARCH_GAP", f"cuobjdump lists {_words(listed)} in `{cuda['file']}`; declared are {_words(declared)}"
        )


def _words(counts: Mapping[Tuple[str, str], int]) -> str:
    if not counts:
        return "nothing"
    return ", ".join(f"{count} x {kind} {capability}" for (kind, capability), count in sorted(counts.items()))


CHECKS: Tuple[Callable[[Inspection], None], ...] = (
    check_record,
    check_names,
    check_table,
    check_libraries,
    check_platform,
    check_device_code,
)

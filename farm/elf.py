"""What a shared library says of itself: machine, needed libraries, symbol versions and symbols; and the device code inside."""

from __future__ import annotations

import io
import re
import struct
from dataclasses import dataclass
from typing import Dict, List, Tuple

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection
from elftools.elf.sections import SymbolTableSection

_MACHINES = {"EM_X86_64": "x86_64", "EM_AARCH64": "aarch64"}
_FATBIN_MAGIC = 0xBA55ED50
_PTX, _ELF = 1, 2


class NotElfError(Exception):
    """Bytes that are no ELF file, or a damaged one."""


@dataclass(frozen=True)
class Library:
    """The facts of one shared library."""

    machine: str
    needed: Tuple[str, ...]
    versions: Tuple[str, ...]  # GLIBC_2.17, GLIBCXX_3.4.21, ...
    undefined: Tuple[str, ...]

    @property
    def glibc(self) -> Tuple[int, ...]:
        """The newest glibc whose symbols it needs."""
        found = [
            tuple(map(int, m[1].split("."))) for m in (re.fullmatch(r"GLIBC_([\d.]+)", v) for v in self.versions) if m
        ]
        return max(found, default=(2, 0))


@dataclass(frozen=True)
class DeviceCode:
    """One image in a fatbin."""

    kind: str  # cubin or ptx
    capability: str  # 9.0


def read_library(data: bytes) -> Library:
    try:
        elf = ELFFile(io.BytesIO(data))
        needed: List[str] = []
        versions: List[str] = []
        undefined: List[str] = []
        for section in elf.iter_sections():
            if isinstance(section, DynamicSection):
                needed += [tag.needed for tag in section.iter_tags() if tag.entry.d_tag == "DT_NEEDED"]
            elif isinstance(section, GNUVerNeedSection):
                versions += [aux.name for _, auxiliaries in section.iter_versions() for aux in auxiliaries]
            elif isinstance(section, SymbolTableSection) and section.name == ".dynsym":
                undefined += [symbol.name for symbol in section.iter_symbols() if symbol["st_shndx"] == "SHN_UNDEF"]
        machine = str(elf.header["e_machine"])
    except (ELFError, KeyError, ValueError, AttributeError, struct.error, AssertionError) as error:
        raise NotElfError(f"{type(error).__name__}: {error}") from error
    return Library(
        _MACHINES.get(machine, machine), tuple(needed), tuple(sorted(set(versions))), tuple(filter(None, undefined))
    )


def read_device_code(data: bytes) -> Tuple[DeviceCode, ...]:
    """Every cubin and PTX of every fatbin in the file, read from the fatbins' own headers.

    Layout, seen in the output of fatbinary: magic (4), version (2), header size (2), size of what follows (8); then for each
    image kind (2), version (2), header size (4), payload size (8), 12 bytes, compute capability times ten (4).
    """
    found: List[DeviceCode] = []
    magic = struct.pack("<I", _FATBIN_MAGIC)
    position = data.find(magic)
    while position >= 0 and position + 16 <= len(data):
        _, version, header, size = struct.unpack_from("<IHHQ", data, position)
        end = position + header + size
        if version != 1 or header != 16 or end > len(data):
            position = data.find(magic, position + 4)
            continue
        image = position + header
        while image + 32 <= end:
            kind, _, image_header, payload = struct.unpack_from("<HHIQ", data, image)
            (capability,) = struct.unpack_from("<I", data, image + 28)
            if kind not in (_PTX, _ELF) or image_header < 32:
                break
            found.append(DeviceCode("ptx" if kind == _PTX else "cubin", f"{capability // 10}.{capability % 10}"))
            image += image_header + payload
        position = data.find(magic, end)
    return tuple(found)


def count_device_code(code: Tuple[DeviceCode, ...]) -> Dict[Tuple[str, str], int]:
    counts: Dict[Tuple[str, str], int] = {}
    for each in code:
        counts[each.kind, each.capability] = counts.get((each.kind, each.capability), 0) + 1
    return counts

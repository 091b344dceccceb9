"""A wheel that is broken in one way is refused for exactly that."""

from __future__ import annotations

import json
import struct
import zipfile
from pathlib import Path
from typing import Any, Dict, List

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farm import check
from farm.check import check_wheel
from farm.elf import DeviceCode, NotElfError, read_device_code, read_library
from farm.errors import CheckError
from tests.unit.farm.samples import make_wheel

TABLE: Dict[str, Any] = {
    "format": 1,
    "kernels_abi": 1,
    "cpu": {"file": "libmamba_cpu.so"},
    "cuda": None,
    "bindings": [],
}
TABLE_PATH = "mamba_ssm/_native/bindings.json"


def findings(path: Path) -> List[str]:
    with pytest.raises(CheckError) as caught:
        check_wheel(path)
    assert caught.value.exit_code == 6
    return list(caught.value.findings)


def codes(path: Path) -> set[str]:
    return {finding.split(":")[0] for finding in findings(path)}


def rewrite(path: Path, change: Dict[str, bytes], drop: str = "") -> Path:
    """The same archive with other content and an unchanged RECORD."""
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist() if name != drop}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in {**files, **change}.items():
            archive.writestr(name, data)
    return path


def test_a_good_wheel(tmp_path: Path) -> None:
    assert check_wheel(make_wheel(tmp_path)).name.full_version == "2.4.0+cpu"


@pytest.mark.parametrize("cut", [0, 1, 100, -1, -30])
def test_truncated(tmp_path: Path, cut: int) -> None:
    wheel = make_wheel(tmp_path)
    wheel.write_bytes(wheel.read_bytes()[:cut])
    assert codes(wheel) == {"FARM_ARCHIVE"}


def test_a_record_that_cannot_be_read(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path)
    with zipfile.ZipFile(wheel) as archive:
        (record,) = (name for name in archive.namelist() if name.endswith("RECORD"))
    assert codes(rewrite(wheel, {record: b"x" * 200_000 + b",,\n"})) == {"FARM_RECORD"}


def test_an_archive_that_unpacks_to_more_than_memory_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "UNPACKED_BYTES", 4 << 20)
    wheel = rewrite(make_wheel(tmp_path), {"mamba_ssm/zeros": bytes(5 << 20)})
    assert findings(wheel) == ["FARM_ARCHIVE: it unpacks to 5 MB, more than 4"]


def test_absent(tmp_path: Path) -> None:
    assert codes(tmp_path / "mamba_ssm-2.4.0+cpu-py3-none-any.whl") == {"FARM_ARCHIVE"}


def test_a_name_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(CheckError, match="not a wheel's file name"):
        check_wheel(tmp_path / "x.whl")


def test_changed_added_and_missing_files(tmp_path: Path) -> None:
    changed = rewrite(make_wheel(tmp_path), {"mamba_ssm/__init__.py": b"import os\n"})
    assert findings(changed) == ["FARM_RECORD: other content than RECORD says: `mamba_ssm/__init__.py`"]
    added = rewrite(make_wheel(tmp_path), {"mamba_ssm/evil.py": b""})
    assert findings(added) == ["FARM_RECORD: not in RECORD: `mamba_ssm/evil.py`"]
    missing = rewrite(make_wheel(tmp_path), {}, drop="mamba_ssm/__init__.py")
    assert findings(missing) == ["FARM_RECORD: in RECORD but not in the wheel: `mamba_ssm/__init__.py`"]
    without = rewrite(make_wheel(tmp_path), {}, drop="mamba_ssm-2.4.0+cpu.dist-info/RECORD")
    assert codes(without) == {"FARM_RECORD"}


@pytest.mark.parametrize("name", ["../x.py", "/etc/x", "a/../../x"])
def test_a_path_that_leads_out(tmp_path: Path, name: str) -> None:
    assert "FARM_ARCHIVE" in codes(rewrite(make_wheel(tmp_path), {name: b""}))


def test_name_and_metadata_disagree(tmp_path: Path) -> None:
    renamed = make_wheel(tmp_path, "mamba_ssm-2.4.0+cu13-py3-none-any.whl", "2.4.0+cpu")
    assert codes(renamed) == {"FARM_METADATA_VERSION"}
    lowered = make_wheel(tmp_path, "mamba_ssm-2.4.1-py3-none-any.whl", "2.4.0", dist_info="mamba_ssm-2.4.1.dist-info")
    assert findings(lowered) == [
        "FARM_METADATA_VERSION: METADATA says `mamba_ssm 2.4.0`, the file name says `mamba_ssm 2.4.1`"
    ]
    retagged = make_wheel(tmp_path, tags=["py3-none-linux_x86_64"])
    assert codes(retagged) == {"FARM_METADATA_VERSION"}


def test_a_classic_wheel_without_its_pin(tmp_path: Path) -> None:
    version = "2.4.0+cpu" + "torch2.13cxx11abiTRUE"
    name = f"mamba_ssm-{version}-cp311-cp311-any.whl"
    assert codes(make_wheel(tmp_path, name, version)) == {"FARM_TORCH_PIN"}
    check_wheel(make_wheel(tmp_path, name, version, requires=["torch==2.13.*"]))


@pytest.mark.parametrize(
    "table, code",
    [
        (TABLE, "FARM_TABLE"),
        ({**TABLE, "cpu": None, "bindings": [{"file": "b.so"}]}, "FARM_TABLE"),
        ({"format": 1}, "FARM_TABLE"),
        ([], "FARM_TABLE"),
    ],
)
def test_a_table_that_names_what_is_not_there(tmp_path: Path, table: Any, code: str) -> None:
    assert codes(make_wheel(tmp_path, content={TABLE_PATH: json.dumps(table).encode()})) == {code}


def test_a_cuda_label_without_cuda_kernels(tmp_path: Path) -> None:
    table = json.dumps({**TABLE, "cpu": None}).encode()
    wheel = make_wheel(tmp_path, "mamba_ssm-2.4.0+cu13-py3-none-any.whl", "2.4.0+cu13", content={TABLE_PATH: table})
    assert findings(wheel) == ["FARM_NO_DEVICE_CODE: called `cu13`, but there are no CUDA kernels in it"]


def test_a_library_that_is_none_and_one_that_belongs_elsewhere(tmp_path: Path) -> None:
    content: Any = {
        TABLE_PATH: json.dumps(TABLE).encode(),
        "mamba_ssm/_native/libmamba_cpu.so": b"not ELF",
        "mamba_ssm/_native/libcudart.so.13": b"\x7fELF",
    }
    found = findings(make_wheel(tmp_path, content=content))
    assert any(f.startswith("FARM_ARCHIVE: not a shared library: `mamba_ssm/_native/libmamba_cpu.so`") for f in found)
    assert any(f.startswith("FARM_BUNDLED_LIB") and "libcudart.so.13" in f for f in found)


def fatbin(*images: tuple[int, int]) -> bytes:
    body = b"".join(
        struct.pack("<HHIQ12xI", kind, 0x101, 64, 8, capability).ljust(64, b"\0") + b"payload."
        for kind, capability in images
    )
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def test_device_code_is_counted() -> None:
    data = b"junk" + fatbin((2, 80), (2, 90), (1, 90)) + b"\0" * 12 + fatbin((2, 100))
    assert read_device_code(data) == (
        DeviceCode("cubin", "8.0"),
        DeviceCode("cubin", "9.0"),
        DeviceCode("ptx", "9.0"),
        DeviceCode("cubin", "10.0"),
    )


@given(st.binary(max_size=200), st.integers(0, 300))
@settings(max_examples=200)
def test_damaged_files_are_read_or_refused(noise: bytes, cut: int) -> None:
    read_device_code((fatbin((2, 80), (1, 90)) + noise)[:cut])
    read_device_code(noise + fatbin((2, 80))[: cut % 80])
    with pytest.raises(NotElfError):
        read_library(b"\x7fELF" + noise)

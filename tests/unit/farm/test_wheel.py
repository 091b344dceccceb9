"""Wheels are the same bytes for the same content, and whole or absent."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farm import platform_tag
from farm.actions import Native
from farm.check import check_wheel
from farm.errors import BuildError
from farm.pack import pack, python_sources
from farm.plan import Build
from farm.settings import Settings
from farm.wheel import write_wheel
from tests.unit.farm.samples import EPOCH, ROOT, make_wheel, real_facts

NAMES = st.text(alphabet="abc,/.", min_size=1, max_size=8).filter(
    lambda n: all(p not in ("", ".", "..") for p in n.split("/"))
)


@given(st.dictionaries(NAMES, st.binary(max_size=50), max_size=5))
@settings(max_examples=30)
def test_equal_content_makes_equal_bytes_whatever_the_order(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]
) -> None:
    folder = tmp_path_factory.mktemp("w")
    write_wheel(folder / "a.whl", dict(sorted(files.items())), "x.dist-info", EPOCH)
    write_wheel(folder / "b.whl", dict(sorted(files.items(), reverse=True)), "x.dist-info", EPOCH)
    assert (folder / "a.whl").read_bytes() == (folder / "b.whl").read_bytes()
    with zipfile.ZipFile(folder / "a.whl") as archive:
        assert archive.testzip() is None
        assert {name: archive.read(name) for name in files} == files
        assert archive.namelist()[-1] == "x.dist-info/RECORD"


def test_libraries_are_executable_and_times_are_fixed(tmp_path: Path) -> None:
    write_wheel(tmp_path / "a.whl", {"p/a.so": b"", "p/a.py": b""}, "x.dist-info", EPOCH)
    with zipfile.ZipFile(tmp_path / "a.whl") as archive:
        modes = {info.filename: info.external_attr >> 16 for info in archive.infolist()}
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    assert modes["p/a.so"] == 0o100755 and modes["p/a.py"] == 0o100644


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="cannot write the wheel"):
        write_wheel(tmp_path / "a.whl", {"a": tmp_path / "absent"}, "x.dist-info", EPOCH)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_a_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BuildError, match=r"cannot write the wheel: .*\nhint: "):
        write_wheel(tmp_path / "file" / "x.whl", {}, "x-1.dist-info", EPOCH)


def test_a_pure_wheel_of_the_checkout(tmp_path: Path) -> None:
    built = pack(ROOT, Build("local", "local", "local", "x86_64"), None, real_facts(), Settings(1), tmp_path)
    assert built.path.name == "mamba_ssm-2.4.0-py3-none-any.whl"
    check_wheel(built.path)
    with zipfile.ZipFile(built.path) as archive:
        names = set(archive.namelist())
    assert {"mamba_ssm/__init__.py", "mamba_ssm/py.typed", "mamba_ssm-2.4.0.dist-info/licenses/LICENSE"} <= names
    assert not [name for name in names if name.endswith((".so", ".json", ".pyc"))]


def test_the_name_carries_the_verdict_and_the_metadata_says_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("farm.pack.judge_content", lambda content, machine, epoch: f"manylinux_2_24_{machine}")
    library = tmp_path / "libmamba_cpu.so"
    library.write_bytes(b"ELF")
    build = Build("x", "classic", "cu128", "x86_64", "2.8", "3.12", True)
    native = Native({"libmamba_cpu.so": str(library)}, {"format": 1})
    built = pack(ROOT, build, native, real_facts(), Settings(1), tmp_path)
    assert built.path.name == "mamba_ssm-2.4.0+cu128torch2.8cxx11abiTRUE-cp312-cp312-manylinux_2_24_x86_64.whl"
    with zipfile.ZipFile(built.path) as archive:
        metadata = archive.read("mamba_ssm-2.4.0+cu128torch2.8cxx11abiTRUE.dist-info/METADATA").decode()
        tag = archive.read("mamba_ssm-2.4.0+cu128torch2.8cxx11abiTRUE.dist-info/WHEEL").decode()
    assert "Version: 2.4.0+cu128torch2.8cxx11abiTRUE\n" in metadata
    assert "Requires-Dist: torch==2.8.*\n" in metadata and "Requires-Python: >=3.9\n" in metadata
    assert "Tag: cp312-cp312-manylinux_2_24_x86_64\n" in tag and "Root-Is-Purelib: false" in tag


def test_what_auditwheel_cannot_read_is_an_error(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path)
    with pytest.raises(BuildError, match="auditwheel cannot read"):
        platform_tag.judge(wheel, "x86_64")


def test_made_files_beside_the_loader_are_no_sources() -> None:
    assert all(name.endswith((".py", "py.typed")) for name in python_sources(ROOT))

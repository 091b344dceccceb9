"""A wheel is opened and held against its own name and records; each broken one says where it is broken."""

from __future__ import annotations

import json
import re
import struct
import zipfile
from pathlib import Path
from typing import Any, Dict, List

import pytest

from mamba_install.errors import CheckError
from mamba_install.records import Binding, Candidate, CheckedWheel, Download
from mamba_install.wheel_names import WheelName
from mamba_install.wheelfile import check_wheel, read_contents
from tests.unit.mamba_install.wheels import (
    CLASSIC_2_6,
    ELF_AARCH64,
    ELF_X86_64,
    STABLE,
    UNIVERSAL_CPU,
    bindings,
    make_wheel,
    sha256,
)

CLASSIC = "mamba_ssm-2.4.0+cu128torch2.8cxx11abiTRUE-cp312-cp312-manylinux_2_28_x86_64.whl"

PUBLIC = "mamba_ssm-2.3.2+cu12torch2.8cxx11abiTRUE-cp312-cp312-linux_x86_64.whl"
CUDA = {"file": "libmamba_cuda.so", "archs": ["8.0", "9.0+PTX"], "toolkit": "13.0"}
TABLE = "mamba_ssm/_native/bindings.json"


def check(path: Path) -> CheckedWheel:
    candidate = Candidate(WheelName.parse(path.name), str(path), "here")
    return check_wheel(Download(candidate, path, sha256(path), path.stat().st_size))


def test_whole_wheels(tmp_path: Path) -> None:
    universal = check(make_wheel(tmp_path, cuda=CUDA))
    assert universal.requires_dist == ("torch>=2.0",)
    assert universal.contents is not None
    assert universal.contents.bindings == (Binding("stable", "2.9"), Binding("classic", "2.6", False))
    assert universal.contents.archs == ("8.0", "9.0+PTX")
    assert universal.contents.toolkit == "13.0"
    assert check(make_wheel(tmp_path, CLASSIC, requires=["torch==2.8.*"])).contents is None


@pytest.mark.parametrize(
    ("broken", "what"),
    [
        ({"metadata_version": "2.4.0"}, "METADATA says version `2.4.0`, the file name says `2.4.0+cpu`"),
        ({"metadata_version": "nonsense"}, "METADATA says version `nonsense`"),
        ({"tags": "py3-none-any"}, "its WHEEL file is tagged `py3-none-any`"),
        ({"record": {"mamba_ssm/absent.py": "sha256=AA"}}, "RECORD lists a file that is not there"),
        ({"files": {"../outside.py": b""}}, "outside the environment: `../outside.py`"),
        ({"files": {"mamba_ssm/../../outside.py": b""}}, "outside the environment"),
        ({"files": {"/etc/cron.d/x": b""}}, "outside the environment"),
        ({"files": {"C:/x": b""}}, "outside the environment"),
        ({"files": {"mamba_ssm/zeros.bin": bytes(8 << 20)}}, "unpacks to 8 MB"),
        ({"files": {"mamba_ssm/_native/libmamba_cpu.so": b"text"}}, "no ELF library"),
        ({"files": {"mamba_ssm/_native/libmamba_cpu.so": ELF_AARCH64}}, "is for aarch64"),
        ({"files": {"other-1.dist-info/METADATA": b""}}, "2 .dist-info folders"),
    ],
)
def test_broken_in_one_place(broken: Dict[str, Any], what: str, tmp_path: Path) -> None:
    path = make_wheel(tmp_path, **broken)
    with pytest.raises(CheckError) as caught:
        check(path)
    assert what in caught.value.message
    assert path.name in caught.value.message
    assert caught.value.hint


def test_a_classic_wheel_must_pin_the_torch_of_its_label(tmp_path: Path) -> None:
    with pytest.raises(CheckError, match=r"its label says torch 2.8, METADATA requires `torch==2\.9\.\*`"):
        check(make_wheel(tmp_path, CLASSIC, requires=["torch==2.9.*"]))
    with pytest.raises(CheckError, match="a requirement that is none"):
        check(make_wheel(tmp_path, CLASSIC, requires=["torch=="]))


@pytest.mark.parametrize(
    ("requires", "found"),
    [
        ([], "requires no torch"),
        (["numpy"], "requires no torch"),
        (["torch"], "requires `torch`"),
        (["torch>=2.8"], "requires `torch>=2.8`"),
        (["torch @ https://x.test/torch.whl"], "requires `torch @ https://x.test/torch.whl`"),
        (["torch==2.8.*; python_version < '3'"], "requires `torch==2.8.*; python_version < '3'`"),
        (["torch==2.8.*", "torch"], "requires `torch==2.8.*`, `torch`"),
    ],
)
def test_our_classic_wheels_pin_torch_and_nothing_else_will_do(requires: List[str], found: str, tmp_path: Path) -> None:
    with pytest.raises(CheckError) as caught:
        check(make_wheel(tmp_path, CLASSIC, requires=requires))
    assert f"its label says torch 2.8, METADATA {found}" in caught.value.message
    assert caught.value.exit_code == 6


def test_a_public_wheel_may_leave_torch_open(tmp_path: Path) -> None:
    for requires in ([], ["torch"], ["torch>=2.0"], ["torch==2.8.*"]):
        check(make_wheel(tmp_path, PUBLIC, requires=requires))
    for wrong in ("torch==2.9.*", "torch @ https://x.test/torch.whl"):
        with pytest.raises(CheckError, match=r"its label says torch 2\.8, METADATA requires"):
            check(make_wheel(tmp_path, PUBLIC, requires=[wrong]))


@pytest.mark.parametrize(
    "path",
    [
        "torch/__init__.py",
        "evil.pth",
        "sitecustomize.py",
        "mamba_ssm",
        "mamba_ssm.py",
        "./mamba_ssm/extra.py",
        "causal_conv1d/__init__.py",
        "selective_scan_cuda.cpython-312-x86_64-linux-gnu.so",
        "mamba_ssm-2.4.0+cpu.data/data/etc/x",
        "mamba_ssm-2.4.0+cpu.data/scripts/python",
        "mamba_ssm-2.4.0+cpu.data/purelib/torch/__init__.py",
    ],
)
def test_a_wheel_holds_its_own_package_and_nothing_of_others(path: str, tmp_path: Path) -> None:
    with pytest.raises(CheckError) as caught:
        check(make_wheel(tmp_path, files={path: ELF_X86_64}))
    assert f"could change other packages: `{path}`" in caught.value.message
    assert caught.value.exit_code == 6


@pytest.mark.parametrize(
    ("filename", "own", "foreign"),
    [
        (PUBLIC, "selective_scan_cuda.cpython-312-x86_64-linux-gnu.so", "causal_conv1d_cuda.so"),
        (PUBLIC, "selective_scan_cuda.so", "selective_scan_cuda.pth"),
        (
            PUBLIC.replace("mamba_ssm-2.3.2", "causal_conv1d-1.5.2"),
            "causal_conv1d_cuda.cpython-312-x86_64-linux-gnu.so",
            "selective_scan_cuda.cpython-312-x86_64-linux-gnu.so",
        ),
        (
            PUBLIC.replace("mamba_ssm-2.3.2", "flash_attn-2.8.3"),
            "flash_attn_2_cuda.cpython-312-x86_64-linux-gnu.so",
            "flash_attn_2_cuda/__init__.py",
        ),
    ],
)
def test_public_wheels_bring_their_compiled_module(filename: str, own: str, foreign: str, tmp_path: Path) -> None:
    check(make_wheel(tmp_path, filename, requires=["torch"], files={own: ELF_X86_64}))
    with pytest.raises(CheckError, match=re.escape(f"`{foreign}`")):
        check(make_wheel(tmp_path, filename, requires=["torch"], files={own: ELF_X86_64, foreign: ELF_X86_64}))


def test_our_causal_conv1d_and_a_folder_of_another_distribution(tmp_path: Path) -> None:
    check(make_wheel(tmp_path, "causal_conv1d-1.8.0-py3-none-any.whl", requires=["mamba-ssm"]))
    path = make_wheel(tmp_path / "source")
    renamed = tmp_path / path.name
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(renamed, "w") as new:
        for member in old.namelist():
            data = old.read(member).replace(b"mamba_ssm-2.4.0+cpu.dist-info", b"torch-2.4.0+cpu.dist-info")
            new.writestr(member.replace("mamba_ssm-2.4.0+cpu.dist", "torch-2.4.0+cpu.dist"), data)
    with pytest.raises(CheckError, match=re.escape("that of another distribution: `torch-2.4.0+cpu.dist-info`")):
        check(renamed)


def test_a_record_with_an_endless_field(tmp_path: Path) -> None:
    with pytest.raises(CheckError, match="RECORD cannot be read"):
        check(make_wheel(tmp_path, record={"x" * 131_073: "sha256=AA"}))


def test_another_distribution_under_the_name(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, "other-2.4.0+cpu-py3-none-manylinux_2_17_x86_64.whl")
    with pytest.raises(CheckError, match="METADATA names it `other`"):
        check(path.rename(tmp_path / UNIVERSAL_CPU))


def test_a_file_that_recorded_bytes_do_not_match(tmp_path: Path) -> None:
    source = make_wheel(tmp_path / "a")
    path = tmp_path / source.name
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(path, "w") as new:
        for member in old.namelist():
            data = old.read(member)
            new.writestr(member, data.replace(b"2.4.0", b"2.4.9") if member.endswith("__init__.py") else data)
    with pytest.raises(CheckError, match=r"`mamba_ssm/__init__\.py` differs from what RECORD says"):
        check(path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("mamba_ssm/extra.py", "")
    with pytest.raises(CheckError, match="RECORD"):
        check(path)


def test_a_symbolic_link(tmp_path: Path) -> None:
    path = make_wheel(tmp_path)
    with zipfile.ZipFile(path, "a") as archive:
        link = zipfile.ZipInfo("mamba_ssm/link")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(CheckError, match="symbolic link"):
        check(path)


@pytest.mark.parametrize("keep", [0, 1, 100, -1, -30])
def test_truncated_anywhere(keep: int, tmp_path: Path) -> None:
    path = make_wheel(tmp_path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(CheckError, match="no intact zip archive"):
        check(path)


def test_flipped_bytes_never_pass_silently_as_another_error(tmp_path: Path) -> None:
    """Every byte of the archive, one at a time: the wheel is refused with CheckError, or the byte did not matter."""
    whole = make_wheel(tmp_path).read_bytes()
    path = tmp_path / UNIVERSAL_CPU
    for position in range(0, len(whole), 3):
        path.write_bytes(whole[:position] + struct.pack("B", whole[position] ^ 0x41) + whole[position + 1 :])
        try:
            check(path)
        except CheckError:
            continue
        read_contents(path)


@pytest.mark.parametrize(
    "table",
    [b"", b"[]", b"{}", b'{"bindings": 3}', b'{"bindings": [{"kind": "stable", "torch_floor": "x"}, 7]}', b"\xff\xfe"],
)
def test_a_choice_table_that_is_none(table: bytes, tmp_path: Path) -> None:
    contents = read_contents(make_wheel(tmp_path, files={"mamba_ssm/_native/bindings.json": table}))
    assert contents is None or contents.bindings == ()


@pytest.mark.parametrize(
    ("table", "what"),
    [
        (b"", "is not JSON"),
        (b"\xff\xfe", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"null", "Unexpected type NoneType (expected object) in `the whole`"),
        (b"[]", "Unexpected type list (expected object)"),
        (b"3", "Unexpected type int (expected object)"),
        (b"{}", "Unexpected type NoneType (expected int) in `format`"),
        ({"kernels_abi": "1"}, "Unexpected type str (expected int) in `kernels_abi`"),
        ({"cpu": []}, "Unexpected type list (expected object or null) in `cpu`"),
        ({"cpu": {"file": "../x.so"}}, "no file name in `cpu.file`"),
        ({"cuda": {**CUDA, "archs": "8.0"}}, "Unexpected type str (expected list of str) in `cuda.archs`"),
        ({"cuda": {**CUDA, "toolkit": 13.0}}, "Unexpected type float (expected str) in `cuda.toolkit`"),
        ({"bindings": None}, "Unexpected type NoneType (expected list) in `bindings`"),
        ({"bindings": {}}, "Unexpected type dict (expected list) in `bindings`"),
        ({"bindings": [STABLE, 7]}, "Unexpected type int (expected object) in `bindings[1]`"),
        ({"bindings": [{**STABLE, "torch_floor": 2.9}]}, "a row that names no binding in `bindings[0]`"),
        ({"bindings": [{**STABLE, "kind": "other"}]}, "a row that names no binding in `bindings[0]`"),
        ({"bindings": [{**CLASSIC_2_6, "cxx11abi": 0}]}, "a row that names no binding in `bindings[0]`"),
    ],
)
def test_a_wrong_choice_table_is_refused_before_it_is_installed(table: Any, what: str, tmp_path: Path) -> None:
    if isinstance(table, dict):
        table = json.dumps({**json.loads(bindings(STABLE)), **table}).encode()
    with pytest.raises(CheckError) as caught:
        check(make_wheel(tmp_path, files={TABLE: table}))
    assert what in caught.value.message
    assert TABLE in caught.value.message
    assert caught.value.exit_code == 6


def test_rows_of_the_choice_table(tmp_path: Path) -> None:
    contents = read_contents(make_wheel(tmp_path, rows=[STABLE, CLASSIC_2_6, {"kind": "classic", "torch": "2.6"}]))
    assert contents is not None
    assert len(contents.bindings) == 2

"""The index: channels of one kind each, pages that installers read, nothing of others removed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from farm.errors import CheckError, UsageError
from farm.index import channel_of, write_index
from mamba_install.wheel_names import WheelName
from tests.unit.farm.samples import make_wheel

CLASSIC = "mamba_ssm-2.4.0+cu130torch2.13cxx11abiTRUE-cp311-cp311-manylinux_2_28_x86_64.whl"
CLASSIC_VERSION = "2.4.0+cu130torch2.13cxx11abiTRUE"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_wheel(tmp_path)
    make_wheel(tmp_path, CLASSIC, CLASSIC_VERSION, requires=["torch==2.13.*"])
    make_wheel(tmp_path, "mamba_install-0.1.0-py3-none-any.whl", "0.1.0", name="mamba_install")
    return tmp_path


def test_channels() -> None:
    assert channel_of(WheelName.parse(CLASSIC)) == "cu130/torch2.13"
    assert channel_of(WheelName.parse("mamba_ssm-2.4.0+cu13-py3-none-any.whl")) == "universal/cu13"
    assert channel_of(WheelName.parse("mamba_ssm-2.4.0-py3-none-any.whl")) is None


def test_a_channel_is_an_index_of_one_kind(folder: Path) -> None:
    write_index(folder)
    page = (folder / "simple/cu130/torch2.13/mamba-ssm/index.html").read_text()
    wheel = folder / CLASSIC
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    metadata = hashlib.sha256((folder / f"{CLASSIC}.metadata").read_bytes()).hexdigest()
    assert f'href="../../../../{CLASSIC.replace("+", "%2B")}#sha256={digest}"' in page
    assert f'data-core-metadata="sha256={metadata}"' in page
    assert 'data-requires-python="&gt;=3.9"' in page
    assert "cpu" not in page
    root = (folder / "simple/cu130/torch2.13/index.html").read_text()
    assert '<a href="mamba-ssm/">' in root and '<a href="mamba-install/">' in root
    assert (folder / "simple/universal/cpu/mamba-ssm/index.html").resolve().is_file()


def test_links_lead_to_the_files(folder: Path) -> None:
    import re
    from urllib.parse import unquote

    write_index(folder)
    links = 0
    for page in folder.glob("simple/**/index.html"):
        for href in re.findall(r'href="([^"#]+)', page.read_text()):
            target = page.parent / unquote(href)
            assert target.resolve().exists(), (page, href)
            links += 1
    assert links >= 8


def test_json_says_the_same_as_html(folder: Path) -> None:
    write_index(folder)
    data = json.loads((folder / "simple/cu130/torch2.13/mamba-ssm/index.json").read_text())
    assert data["meta"]["api-version"] == "1.1"
    assert (data["name"], data["versions"]) == ("mamba-ssm", [CLASSIC_VERSION])
    (file,) = data["files"]
    assert file["filename"] == CLASSIC
    assert file["size"] == (folder / CLASSIC).stat().st_size
    assert file["hashes"]["sha256"] == hashlib.sha256((folder / CLASSIC).read_bytes()).hexdigest()
    assert file["core-metadata"] == file["dist-info-metadata"]


def test_no_page_mixes_kinds(folder: Path) -> None:
    write_index(folder)
    assert not (folder / "simple/mamba-ssm").exists()


def test_a_second_run_changes_nothing(folder: Path) -> None:
    write_index(folder)
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}
    write_index(folder)
    assert before == {
        path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()
    }


def test_what_is_gone_is_pruned_and_what_is_not_ours_stays(folder: Path) -> None:
    write_index(folder)
    theirs = folder / "simple/cu130/torch2.13/mamba-ssm/notes.html"
    theirs.write_text("hands off")
    foreign = folder / "simple/other/index.html"
    foreign.parent.mkdir()
    foreign.write_text("<html>another index</html>")
    (folder / CLASSIC).unlink()
    write_index(folder)
    assert theirs.read_text() == "hands off"
    assert foreign.is_file()
    assert not (folder / "simple/cu130/torch2.13/mamba-ssm/index.html").exists()
    assert not (folder / f"{CLASSIC}.metadata").exists()
    theirs.unlink()
    write_index(folder)
    assert not (folder / "simple/cu130").exists()
    assert "cu130" not in (folder / "simple/index.html").read_text()


@pytest.mark.parametrize("cut", [0, 10, -30])
def test_a_truncated_wheel_stops_the_index_before_a_page_is_written(folder: Path, cut: int) -> None:
    data = (folder / CLASSIC).read_bytes()
    (folder / CLASSIC).write_bytes(data[:cut])
    with pytest.raises(CheckError, match="cannot be indexed"):
        write_index(folder)
    assert not (folder / "simple").exists()


@pytest.mark.parametrize(
    "field, value", [(8, 1), (10, 99), (6, 255)]
)  # encrypted; unknown compression; zip version 25.5
def test_a_wheel_that_cannot_be_unpacked(folder: Path, field: int, value: int) -> None:
    wheel = folder / CLASSIC
    damaged = bytearray(wheel.read_bytes())
    entry = damaged.find(b"PK\x01\x02")
    while entry >= 0:
        damaged[entry + field] = value
        entry = damaged.find(b"PK\x01\x02", entry + 4)
    wheel.write_bytes(damaged)
    with pytest.raises(CheckError, match=r"cannot be indexed: `mamba_ssm-2\.4\.0"):
        write_index(folder)


def test_a_wheel_whose_metadata_says_another_version(folder: Path) -> None:
    make_wheel(folder, "mamba_ssm-2.4.0+cu13-py3-none-any.whl", "2.4.1", dist_info="mamba_ssm-2.4.0+cu13.dist-info")
    with pytest.raises(CheckError, match=r"says version 2\.4\.1 in its METADATA") as caught:
        write_index(folder)
    assert caught.value.exit_code == 6


def test_a_folder_without_wheels(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there are no wheels"):
        write_index(tmp_path)
    with pytest.raises(UsageError, match="no such folder"):
        write_index(tmp_path / "absent")

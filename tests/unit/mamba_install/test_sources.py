"""Every kind of index on disk, and pages of every kind as text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mamba_install.client import PAGE_BYTES, Client
from mamba_install.errors import UsageError
from mamba_install.sources import choose_indexes, parse_page, read_index
from tests.unit.mamba_install.wheels import UNIVERSAL_CPU, make_wheel, sha256

OFFLINE = Client()
HASH = "a" * 64
NAME = "mamba_ssm-2.3.2+cu12torch2.8cxx11abiTRUE-cp312-cp312-linux_x86_64.whl"
QUOTED = NAME.replace("+", "%2B")


def test_a_folder_of_wheels(tmp_path: Path) -> None:
    path = make_wheel(tmp_path)
    (tmp_path / "notes.whl").write_bytes(b"")
    (found,) = read_index(str(tmp_path), "mamba_ssm", OFFLINE)
    assert found.location == str(path)
    assert found.contents is not None
    assert [row.torch for row in found.contents.bindings] == ["2.9", "2.6"]
    assert found.contents.tested == "2.14"
    assert read_index(path.as_uri(), "mamba_ssm", OFFLINE)[0].location == str(path)


def simple_index(root: Path, wheel: Path, project: str = "mamba-ssm") -> Path:
    page = root / project / "index.html"
    page.parent.mkdir(parents=True)
    page.write_text(
        f'<!DOCTYPE html><html><head><meta name="pypi:repository-version" content="1.1"></head><body>'
        f'<a href="{wheel.resolve().as_uri()}#sha256={sha256(wheel)}">{wheel.name}</a></body></html>'
    )
    return page


@pytest.mark.parametrize("below", ["", "mamba-ssm", "mamba-ssm/index.html"])
def test_a_simple_index_by_its_root_its_project_and_its_page(tmp_path: Path, below: str) -> None:
    wheel = make_wheel(tmp_path / "files")
    simple_index(tmp_path / "simple", wheel)
    (found,) = read_index(str(tmp_path / "simple" / below), "mamba_ssm", OFFLINE)
    assert found.location == str(wheel)
    assert found.sha256 == sha256(wheel)
    assert found.contents is not None


def test_a_root_of_channels(tmp_path: Path) -> None:
    first = make_wheel(tmp_path / "files")
    second = make_wheel(tmp_path / "files", UNIVERSAL_CPU.replace("cpu", "cu13"))
    simple_index(tmp_path / "simple" / "universal" / "cpu", first)
    simple_index(tmp_path / "simple" / "universal" / "cu13", second)
    found = read_index(str(tmp_path / "simple"), "mamba_ssm", OFFLINE)
    assert {one.filename for one in found} == {first.name, second.name}


def test_json_pages_and_release_listings(tmp_path: Path) -> None:
    project = {
        "meta": {"api-version": "1.1"},
        "name": "mamba-ssm",
        "files": [
            {"filename": NAME, "url": f"../../files/{QUOTED}", "hashes": {"sha256": HASH}, "size": 7, "yanked": "bad"},
            {"filename": "mamba_ssm-2.3.2.tar.gz", "url": "mamba_ssm-2.3.2.tar.gz", "hashes": {}},
            {"filename": 3},
            "nonsense",
        ],
    }
    listing = parse_page(json.dumps(project), "https://x.test/simple/mamba-ssm/", "", "mamba_ssm", "x")
    (one,) = listing.wheels
    assert (one.filename, one.sha256, one.size, one.yanked) == (NAME, HASH, 7, "bad")
    assert one.location == f"https://x.test/files/{QUOTED}"
    asset = {"name": NAME, "browser_download_url": f"https://x.test/{QUOTED}", "digest": f"sha256:{HASH}", "size": 9}
    for data in ([{"tag_name": "v2.3.2", "assets": [asset, {}, None]}], {"assets": [asset]}):
        (one,) = parse_page(json.dumps(data), "https://x.test/", "application/json", "mamba_ssm", "x").wheels
        assert (one.filename, one.sha256, one.size) == (NAME, HASH, 9)


def test_a_list_of_names_and_addresses(tmp_path: Path) -> None:
    path = tmp_path / "wheels.txt"
    path.write_text(f"# a comment\n{NAME}\n\nhttps://x.test/{QUOTED}\n")
    first, second = read_index(str(path), "mamba_ssm", OFFLINE)
    assert first.location is None
    assert second.location == f"https://x.test/{QUOTED}"
    assert first.filename == second.filename == NAME


def test_attributes_of_html_links() -> None:
    html = (
        f'<a href="{QUOTED}#sha256={HASH}" data-requires-python="&gt;=3.9" data-yanked="">x</a>'
        '<a href="mamba_ssm-2.3.2.tar.gz">sdist</a><a>no href</a>'
    )
    (one,) = parse_page(html, "https://x.test/simple/mamba-ssm/", "text/html", "mamba_ssm", "x").wheels
    assert (one.requires_python, one.yanked, one.sha256) == (">=3.9", "", HASH)


def test_a_page_of_the_web_may_not_point_at_this_machine() -> None:
    html = f'<a href="file:///etc/{QUOTED}">x</a><a href="javascript:alert()">y</a>'
    assert parse_page(html, "https://x.test/", "text/html", "mamba_ssm", "x").wheels == []


@pytest.mark.parametrize(
    "text",
    [
        "<html><h1>Sign in</h1></html>",
        "{}",
        "[1, 2]",
        '{"message": "API rate limit exceeded"}',
        "{broken",
        "hello there",
        "<!",
        '{"files": [3, {"filename": 3}]}',
        '{"projects": [3, {}]}',
        '[{"assets": [3, {}]}]',
    ],
)
def test_what_is_no_index(text: str, tmp_path: Path) -> None:
    assert not parse_page(text, "https://x.test/", "", "mamba_ssm", "x").is_index
    path = tmp_path / "page"
    path.write_text(text)
    with pytest.raises(UsageError, match="neither a simple index"):
        read_index(str(path), "mamba_ssm", OFFLINE)


def test_folders_that_are_no_index(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such index"):
        read_index(str(tmp_path / "absent"), "mamba_ssm", OFFLINE)
    with pytest.raises(UsageError, match="not an index"):
        read_index(str(tmp_path), "mamba_ssm", OFFLINE)


def test_which_indexes_are_read() -> None:
    assert choose_indexes(["a", "b"], "c") == ("a", "b")
    assert choose_indexes([], "c d") == ("c", "d")
    with pytest.raises(UsageError, match="no index is named"):
        choose_indexes([], None)


@pytest.mark.parametrize("index", ["http://[::1", "//[::1"])
def test_an_address_that_is_none(index: str) -> None:
    with pytest.raises(UsageError, match="not an address") as caught:
        read_index(index, "mamba_ssm", OFFLINE)
    assert caught.value.hint


def test_an_index_of_a_version_to_come(tmp_path: Path) -> None:
    page = {"meta": {"api-version": "99.0"}, "files": [{"filename": NAME, "url": NAME}]}
    path = tmp_path / "index.json"
    path.write_text(json.dumps(page))
    with pytest.raises(UsageError, match=r"no index that this version can read: .*`99.0`") as caught:
        read_index(str(path), "mamba_ssm", OFFLINE)
    assert caught.value.hint
    for version in ("1.0", "1.9", None):
        path.write_text(json.dumps({**page, "meta": {"api-version": version}}))
        assert len(read_index(str(path), "mamba_ssm", OFFLINE)) == 1


def test_an_index_without_files_is_one() -> None:
    for text in ('{"files": []}', '{"projects": []}', "[]", '{"assets": []}'):
        assert parse_page(text, "https://x.test/", "", "mamba_ssm", "x").is_index


def test_a_page_that_is_too_large(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    with path.open("wb") as page:
        page.truncate(PAGE_BYTES + 1)
    with pytest.raises(UsageError, match="larger than 16 MB") as caught:
        read_index(str(path), "mamba_ssm", OFFLINE)
    assert caught.value.hint

"""What an index offers: a folder of wheels, a simple index (HTML or JSON, path or URL), a release listing, or a list of names.

Simple index: https://packaging.python.org/en/latest/specifications/simple-repository-api/
"""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from packaging.utils import canonicalize_name

from mamba_install.client import PAGE_BYTES, Client, Page
from mamba_install.errors import NetworkError, UsageError
from mamba_install.records import Candidate
from mamba_install.wheel_names import WheelName, WheelNameError
from mamba_install.wheelfile import read_contents

# no index is published yet; until one is, `--index` or MAMBA_INSTALL_INDEX (several, space-separated) names it
DEFAULT_INDEXES: Tuple[str, ...] = ()
INDEX_VARIABLE = "MAMBA_INSTALL_INDEX"
# a root may hold channels (`universal/cu12/`, `cu128/torch2.8/`), each an index of its own
CHANNEL_DEPTH = 3
CHANNEL_PAGES = 400
PARALLEL_PAGES = 8
API_MAJOR = "1"


class Link(NamedTuple):
    """One link of a page, its attributes unescaped."""

    href: str
    attributes: Mapping[str, Optional[str]]


class Listing(NamedTuple):
    """What one page holds: wheels, and links to pages below it."""

    wheels: List[Candidate]
    below: List[str]
    is_index: bool
    # an index, but of a version that is not known here
    version: Optional[str] = None


def choose_indexes(named: Sequence[str], variable: Optional[str]) -> Tuple[str, ...]:
    """The indexes to read: those of the command line, else of the environment variable, else the default."""
    indexes = tuple(named) or tuple((variable or "").split()) or DEFAULT_INDEXES
    if not indexes:
        raise UsageError(
            "no index is named, and none is published yet", f"give one with `--index`, or set {INDEX_VARIABLE}"
        )
    return indexes


def collect(indexes: Iterable[str], package: str, client: Client) -> List[Candidate]:
    """Every wheel that the indexes offer, each once, in the order of the indexes."""
    found: Dict[Tuple[str, Optional[str]], Candidate] = {}
    for index in indexes:
        for candidate in read_index(index, package, client):
            found.setdefault((candidate.filename, candidate.sha256 or candidate.location), candidate)
    return list(found.values())


def read_index(index: str, package: str, client: Client) -> List[Candidate]:
    """The wheels of one index, whatever kind it is."""
    try:
        scheme = urlsplit(index).scheme
    except ValueError as error:
        raise UsageError(
            f"not an address: `{index}` ({error})",
            "check its spelling; an IPv6 host stands in brackets: `http://[::1]/`",
        ) from error
    if scheme in ("http", "https"):
        return _read_url(index, package, client)
    path = Path(unquote(urlsplit(index).path)) if index.startswith("file:") else Path(index).expanduser()
    try:
        if path.is_dir():
            return _read_folder(path.absolute(), package)
        if path.is_file():
            return _read_file(path.absolute(), package)
    except OSError as error:
        raise UsageError(f"the index cannot be read: `{index}` ({error.strerror})") from error
    raise UsageError(
        f"no such index: `{index}`",
        "give a folder of wheels, a simple index, a release listing, or a text file of names",
    )


# on this machine


def _read_folder(folder: Path, package: str) -> List[Candidate]:
    wheels = sorted(folder.glob("*.whl"))
    if wheels:
        return [one for one in (_local_candidate(path, str(folder)) for path in wheels) if one is not None]
    pages = _project_pages(folder, package)
    if not pages and not any(_page_of(below) for below in (folder, *folder.iterdir()) if below.is_dir()):
        raise UsageError(
            f"not an index: `{folder}` (it holds neither wheels nor pages of a simple index)",
            "name the folder of the wheels, or build the index first",
        )
    found = []
    for page in pages:
        found += _read_file(page, package)
    return found


def _page_of(folder: Path) -> Optional[Path]:
    return next((folder / name for name in ("index.json", "index.html") if (folder / name).is_file()), None)


def _project_pages(folder: Path, package: str) -> List[Path]:
    """The package's page here or, where this is a root of channels, in each channel."""
    project = str(canonicalize_name(package))
    if canonicalize_name(folder.name) == project:
        own = _page_of(folder)
        if own is not None:
            return [own]
    level = [folder]
    for _ in range(CHANNEL_DEPTH):
        pages = [page for page in (_page_of(below / project) for below in level) if page is not None]
        if pages:
            return pages
        level = [below for parent in level for below in sorted(parent.iterdir()) if below.is_dir()][:CHANNEL_PAGES]
    return []


def _read_file(path: Path, package: str) -> List[Candidate]:
    if path.suffix == ".whl":
        candidate = _local_candidate(path, str(path.parent))
        return [candidate] if candidate is not None else []
    if path.stat().st_size > PAGE_BYTES:
        raise UsageError(
            f"the index page is larger than {PAGE_BYTES >> 20} MB: `{path}`",
            "is it an index at all? name the folder of the wheels, or the package's own page",
        )
    text = path.read_text(encoding="utf-8", errors="replace")
    listing = parse_page(text, path.as_uri(), "", package, str(path))
    if listing.version is not None:
        raise UsageError(*_unknown_version(str(path), listing.version))
    if not listing.is_index:
        raise UsageError(f"neither a simple index, a release listing nor a list of wheel names: `{path}`")
    return [with_local_contents(candidate) for candidate in listing.wheels]


def _local_candidate(path: Path, source: str) -> Optional[Candidate]:
    try:
        name = WheelName.parse(path.name)
    except WheelNameError:
        return None
    return with_local_contents(Candidate(name, str(path), source, size=path.stat().st_size))


def with_local_contents(candidate: Candidate) -> Candidate:
    """A universal wheel that lies here can be asked at once which torch builds it serves."""
    location, label = candidate.location, candidate.name.label
    if location is None or "://" in location or label is None or label.kind != "universal":
        return candidate
    contents = read_contents(Path(location))
    return candidate if contents is None else _replace(candidate, contents=contents)


def _replace(candidate: Candidate, **changes: Any) -> Candidate:
    from dataclasses import replace

    return replace(candidate, **changes)


# over the network


def _read_url(url: str, package: str, client: Client) -> List[Candidate]:
    project = str(canonicalize_name(package))
    if urlsplit(url).path.endswith((".json", ".txt", ".html")) or _last_name(url) == project:
        return _listing_of(client.get_page(url), package).wheels
    root = url if url.endswith("/") else url + "/"
    page = client.find_page(urljoin(root, project + "/"))
    if page is not None:
        return _listing_of(page, package).wheels
    page = client.find_page(root) or client.get_page(url)
    listing = _listing_of(page, package)
    return listing.wheels or _descend(listing.below, root, package, client)


def _listing_of(page: Page, package: str) -> Listing:
    listing = parse_page(page.text, page.url, page.content_type, package, page.url)
    if listing.version is not None:
        raise NetworkError(*_unknown_version(page.url, listing.version))
    if not listing.is_index:
        raise NetworkError(
            f"the server answered with something that is no index that this version can read: `{page.url}` "
            f"(it begins with `{_beginning(page.text)}`)",
            "open the address in a browser: a proxy or a login page may stand before the index",
        )
    return listing


def _unknown_version(where: str, version: str) -> Tuple[str, str]:
    return (
        f"no index that this version can read: `{where}` (its API version is `{version}`, known is {API_MAJOR}.x)",
        "a newer mamba-install may read it; or give another index with `--index`",
    )


def _beginning(text: str) -> str:
    return re.sub(r"\s+", " ", text.strip())[:60]


def _descend(below: List[str], root: str, package: str, client: Client) -> List[Candidate]:
    """Follow a root's links to its channels; never out of the root, never deeper than the channels go."""
    project = str(canonicalize_name(package))
    from concurrent.futures import ThreadPoolExecutor

    found: List[Candidate] = []
    seen, level = {root}, below
    with ThreadPoolExecutor(max_workers=PARALLEL_PAGES) as pool:
        for _ in range(CHANNEL_DEPTH):
            urls = [url for url in dict.fromkeys(level) if url not in seen and url.startswith(root)]
            urls = [url for url in urls if not _is_other_project(_last_name(url), project)][: CHANNEL_PAGES - len(seen)]
            seen.update(urls)
            level = []
            for page in pool.map(client.find_page, urls):
                if page is not None:
                    listing = _listing_of(page, package)
                    found += listing.wheels
                    level += listing.below
    return found


def _last_name(url: str) -> str:
    return str(canonicalize_name(urlsplit(url).path.rstrip("/").rpartition("/")[2] or "-"))


def _is_other_project(name: str, project: str) -> bool:
    """A folder that is no channel: channels are named after accelerators, torch and `universal`."""
    return (
        name != project and re.fullmatch(r"simple|universal|cpu|cu\d+|rocm[\d.-]*|torch[\d.-]+|[\d.-]+", name) is None
    )


# pages


class _Anchors(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.links: List[Link] = []
        self.is_simple = False

    def handle_starttag(self, tag: str, attrs: List[Tuple[str, Optional[str]]]) -> None:
        attributes = dict(attrs)
        if tag == "a" and attributes.get("href"):
            self.links.append(Link(str(attributes["href"]), attributes))
        if tag == "meta" and attributes.get("name") == "pypi:repository-version":
            self.is_simple = True


def parse_page(text: str, base: str, content_type: str, package: str, source: str) -> Listing:
    """Read a page of any kind; the content decides where the type does not."""
    start = text.lstrip("\ufeff \t\r\n")[:1]
    if "json" in content_type or start in ("{", "["):
        try:
            return _parse_json(json.loads(text), base, source)
        except (ValueError, RecursionError):
            return Listing([], [], False)
    if start == "<" or "html" in content_type:
        return _parse_html(text, base, package, source)
    return _parse_names(text, base, source)


def _parse_html(text: str, base: str, package: str, source: str) -> Listing:
    parser = _Anchors()
    try:
        parser.feed(text)
        parser.close()
    except (AssertionError, NotImplementedError, ValueError):  # html.parser on unfinished declarations, by its age
        return Listing([], [], False)
    wheels, below = [], []
    for href, attributes in parser.links:
        url = _join(base, href)
        if url is None:
            continue
        candidate = _candidate(url, source)
        if candidate is not None:
            yanked = attributes.get("data-yanked")
            if "data-yanked" in attributes:
                candidate = _replace(candidate, yanked=yanked or "")
            wheels.append(_replace(candidate, requires_python=attributes.get("data-requires-python")))
        elif urldefrag(url)[0].endswith("/"):
            below.append(urldefrag(url)[0])
    return Listing(wheels, below, parser.is_simple or bool(wheels) or any(url.startswith(base) for url in below))


def _parse_json(data: Any, base: str, source: str) -> Listing:
    meta = data.get("meta") if isinstance(data, dict) else None
    version = meta.get("api-version") if isinstance(meta, dict) else None
    if version is not None and str(version).partition(".")[0] != API_MAJOR:
        return Listing([], [], False, _beginning(str(version)))
    if isinstance(data, dict) and isinstance(data.get("files"), list):
        files = [_json_file(entry, base, source) for entry in data["files"]]
        sound = [entry for entry in data["files"] if isinstance(entry, dict) and isinstance(entry.get("url"), str)]
        return Listing([one for one in files if one is not None], [], bool(sound) or not data["files"])
    if isinstance(data, dict) and isinstance(data.get("projects"), list):
        names = [entry.get("name") if isinstance(entry, dict) else None for entry in data["projects"]]
        below = [_join(base, f"{canonicalize_name(name)}/") for name in names if isinstance(name, str)]
        return Listing([], [url for url in below if url is not None], bool(below) or not names)
    releases = data if isinstance(data, list) else [data]
    if not all(isinstance(release, dict) and isinstance(release.get("assets"), list) for release in releases):
        return Listing([], [], False)
    assets = [_release_asset(entry, base, source) for release in releases for entry in release["assets"]]
    sound = [one for release in releases for one in release["assets"] if isinstance(one, dict) and "name" in one]
    return Listing([one for one in assets if one is not None], [], bool(sound) or not assets)


def _json_file(entry: Any, base: str, source: str) -> Optional[Candidate]:
    if not isinstance(entry, dict) or not isinstance(entry.get("url"), str):
        return None
    url = _join(base, entry["url"])
    candidate = _candidate(url, source, entry.get("filename")) if url is not None else None
    if candidate is None:
        return None
    hashes, yanked = entry.get("hashes"), entry.get("yanked")
    sha256 = hashes.get("sha256") if isinstance(hashes, dict) else None
    return _replace(
        candidate,
        sha256=_sha256(sha256) or candidate.sha256,
        size=entry["size"] if type(entry.get("size")) is int else None,
        requires_python=entry["requires-python"] if isinstance(entry.get("requires-python"), str) else None,
        yanked=yanked if isinstance(yanked, str) else ("" if yanked is True else None),
    )


def _release_asset(entry: Any, base: str, source: str) -> Optional[Candidate]:
    """One asset of a release listing. https://docs.github.com/en/rest/releases/releases"""
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        return None
    url = entry.get("browser_download_url")
    joined = _join(base, url) if isinstance(url, str) else None
    digest = entry.get("digest")
    algorithm, _, value = digest.partition(":") if isinstance(digest, str) else ("", "", "")
    candidate = _candidate(joined, source, entry["name"])
    if candidate is None:
        return None
    return _replace(
        candidate,
        sha256=_sha256(value) if algorithm == "sha256" else None,
        size=entry["size"] if type(entry.get("size")) is int else None,
    )


def _parse_names(text: str, base: str, source: str) -> Listing:
    """A name or an address per line; `#` begins a comment."""
    wheels, lines = [], 0
    for line in text.splitlines():
        word = line.strip()
        if not word or word.startswith("#"):
            continue
        lines += 1
        url = word if "://" in word else None
        candidate = _candidate(url, source, None if url else word)
        if candidate is not None:
            wheels.append(candidate)
    return Listing(wheels, [], bool(wheels) or lines == 0)


def _candidate(url: Optional[str], source: str, filename: object = None) -> Optional[Candidate]:
    if url is not None:
        address, fragment = urldefrag(url)
        filename = filename or unquote(urlsplit(address).path.rpartition("/")[2])
    else:
        address, fragment = None, ""
    if not isinstance(filename, str):
        return None
    try:
        name = WheelName.parse(filename)
    except WheelNameError:
        return None
    algorithm, _, value = fragment.partition("=")
    location = address
    if address is not None and address.startswith("file:"):
        location = unquote(urlsplit(address).path)
    return Candidate(name, location, source, sha256=_sha256(value) if algorithm == "sha256" else None)


def _sha256(text: object) -> Optional[str]:
    return text.lower() if isinstance(text, str) and re.fullmatch(r"[0-9a-fA-F]{64}", text) else None


def _join(base: str, href: str) -> Optional[str]:
    """The absolute address of a link; None for one that is no address, or that leads from the web to this machine's files."""
    try:
        url = urljoin(base, href.strip())
        scheme = urlsplit(url).scheme
    except ValueError:
        return None
    if scheme in ("http", "https") or (scheme == "file" and base.startswith("file:")):
        return url
    return None

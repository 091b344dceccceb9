"""The project's PEP 517 build backend: `pip install .`, `pip wheel .` and source archives go through the farm's packer.

https://peps.python.org/pep-0517/
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional

from farm.errors import FarmError
from farm.facts import read_facts
from farm.local import World, build_local, requires_for_build
from farm.pack import metadata
from farm.plan import PACKAGE, Build
from farm.sdist import write_sdist
from farm.settings import Settings
from farm.wheel import wheel_file

ROOT = Path(__file__).resolve().parents[1]
ConfigSettings = Optional[Dict[str, Any]]


@contextmanager
def readable_errors() -> Iterator[None]:
    """pip shows what a hook prints: the message serves a user better than our traceback."""
    try:
        yield
    except FarmError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        raise SystemExit(error.exit_code) from error


def get_requires_for_build_wheel(config_settings: ConfigSettings = None) -> List[str]:
    return requires_for_build()


def get_requires_for_build_sdist(config_settings: ConfigSettings = None) -> List[str]:
    return []


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: ConfigSettings = None) -> str:
    with readable_errors():
        version, described = metadata(ROOT, Build("local", "local", "local", ""), read_facts(ROOT / "facts.yaml"))
        folder = Path(metadata_directory) / f"{PACKAGE}-{version}.dist-info"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "METADATA").write_bytes(described)
        # The platform is known only when the files are made; this stands for the wheel until then.
        (folder / "WHEEL").write_bytes(wheel_file(["py3-none-any"], pure=True))
        return folder.name


def build_wheel(
    wheel_directory: str, config_settings: ConfigSettings = None, metadata_directory: Optional[str] = None
) -> str:
    with readable_errors():
        return build_local(World.read(ROOT), Path(wheel_directory)).name


def build_sdist(sdist_directory: str, config_settings: ConfigSettings = None) -> str:
    with readable_errors():
        _, described = metadata(ROOT, Build("local", "local", "local", ""), read_facts(ROOT / "facts.yaml"))
        return write_sdist(ROOT, Path(sdist_directory), Settings.from_environment().epoch, described).name

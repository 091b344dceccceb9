"""From made files to a wheel: the Python sources, the native files, the table, the metadata, and the name that tells it all."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Optional, Tuple, Union

from farm.actions import Native
from farm.facts import Facts, pair
from farm.plan import PACKAGE, Build, read_version
from farm.platform_tag import judge_content
from farm.settings import Settings
from farm.wheel import metadata_file, wheel_file, write_wheel
from mamba_install.wheel_names import WheelName

REQUIRES_PYTHON = ">=3.9"
SUMMARY = "Selective scan and causal conv1d kernels for Mamba, on CUDA, CPU or plain PyTorch"


@dataclass(frozen=True)
class BuiltWheel:
    """A wheel on disk, and the build that it is."""

    build: Build
    path: Path


def requires(build: Build, facts: Facts) -> List[str]:
    """What the wheel needs: exactly the torch of a classic wheel, the range that a universal one has bindings for.

    The range is open above where the stable binding is inside, which serves every later release.
    """
    if build.kind == "classic":
        return [f"torch=={build.torch}.*"]
    if build.kind == "local":
        return ["torch>=1.13"]
    minors = facts.minors(build.machine, build.accelerator)
    floor = minors[0]
    if facts.meets_stable(build.machine, build.accelerator):
        return [f"torch>={floor}"]
    major, minor = pair(minors[-1])
    return [f"torch>={floor},<{major}.{minor + 1}"]


def python_sources(root: Path) -> Dict[str, Union[bytes, Path]]:
    """The files of the package itself; what lies in _native beside the loader is made, not a source."""
    files: Dict[str, Union[bytes, Path]] = {}
    for path in sorted((root / PACKAGE).rglob("*")):
        if path.is_file() and (path.suffix == ".py" or path.name == "py.typed"):
            files[path.relative_to(root).as_posix()] = path
    return files


def metadata(root: Path, build: Build, facts: Facts) -> Tuple[str, bytes]:
    """The version, spelled as in the file name, and the METADATA file."""
    version = read_version(root)
    if build.label is not None:
        version = f"{version}+{build.label}"
    readme = (root / "README.md").read_text(encoding="utf-8")
    return version, metadata_file(PACKAGE, version, SUMMARY, REQUIRES_PYTHON, requires(build, facts), readme)


def pack(
    root: Path, build: Build, native: Optional[Native], facts: Facts, settings: Settings, folder: Path
) -> BuiltWheel:
    """Write the wheel of one build into `folder`. Without native files it is a pure-Python one."""
    content = python_sources(root)
    platform = "any"
    if native is not None:
        for name, path in native.files.items():
            content[f"{PACKAGE}/_native/{name}"] = root / path
        table = json.dumps(dict(native.table), indent=1, sort_keys=True) + "\n"
        content[f"{PACKAGE}/_native/bindings.json"] = table.encode("utf-8")
        platform = judge_content(content, build.machine, settings.epoch)
    interpreter, abi = build.python_tags
    wheel_name = WheelName.of(PACKAGE, read_version(root), build.label, interpreter, abi, platform)
    version, described = metadata(root, build, facts)
    dist_info = f"{PACKAGE}-{version}.dist-info"
    content[f"{dist_info}/METADATA"] = described
    # A compressed set in the file name is one Tag line each.
    tags = [f"{interpreter}-{abi}-{part}" for part in platform.split(".")]
    content[f"{dist_info}/WHEEL"] = wheel_file(tags, pure=native is None)
    content[f"{dist_info}/licenses/LICENSE"] = root / "LICENSE"
    target = folder / wheel_name.filename
    write_wheel(target, content, dist_info, settings.epoch)
    return BuiltWheel(build, target)

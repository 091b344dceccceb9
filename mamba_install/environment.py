"""The facts of the target environment, each with its source: one value that is probed here or replayed from a file.

The keys of a facts file are those of a public report's `env`; keys that only a probe knows may be left out.
"""

from __future__ import annotations

import difflib
import json
import re
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, List, Mapping, Optional, Tuple, Union

from mamba_install.errors import UsageError
from mamba_install.torch_versions import TorchVersion, cuda_of_flavour

SYSTEMS = {"linux": "linux", "windows": "windows", "win32": "windows", "darwin": "macos", "macos": "macos"}
MACHINES = {"amd64": "x86_64", "x64": "x86_64", "arm64": "aarch64"}


@dataclass(frozen=True)
class Gpu:
    """One GPU as the driver names it; `compute_capability` like `8.0`."""

    name: str
    compute_capability: Optional[str]
    memory_mb: Optional[int] = None


@dataclass(frozen=True)
class Target:
    """Where the facts came from on this machine: what installing needs and a replayed report has not."""

    executable: str
    prefix: str
    purelib: str
    platlib: str
    site_packages: Tuple[str, ...]
    externally_managed: Optional[str]
    virtual: bool
    installed: Mapping[str, str]


@dataclass(frozen=True)
class Environment:
    """Facts about one environment. None means "not known", never "absent"; `gpus=()` means that there is none."""

    python: Optional[str] = None
    free_threaded: bool = False
    platform: Optional[str] = None
    machine: Optional[str] = None
    glibc: Optional[str] = None
    musl: Optional[str] = None
    torch: Optional[str] = None
    torch_missing: bool = False
    torch_cuda: Optional[str] = None
    torch_hip: Optional[str] = None
    torch_xpu: Optional[str] = None
    cxx11abi: Optional[bool] = None
    gpus: Optional[Tuple[Gpu, ...]] = None
    driver: Optional[str] = None
    nvcc: Optional[str] = None
    gcc: Optional[str] = None
    python_headers: Optional[bool] = None
    container: Optional[str] = None
    conda: bool = False
    probed: bool = False
    target: Optional[Target] = None
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def torch_version(self) -> Optional[TorchVersion]:
        return _torch_version(self.torch, self.container or "")

    @property
    def system(self) -> Optional[str]:
        """`linux`, `windows` or `macos`; None where the report does not say."""
        words = re.findall(r"[a-z0-9]+", (self.platform or "").lower())
        return next((SYSTEMS[word] for word in words if word in SYSTEMS), None)

    @property
    def is_musl(self) -> bool:
        text = (self.platform or "").lower()
        return self.musl is not None or "musl" in text or "alpine" in text

    @property
    def accelerator(self) -> Optional[str]:
        """What torch was built for: `cpu`, `cuda`, `rocm`, `xpu`; None where nothing says it."""
        version = self.torch_version
        flavour = version.flavour if version else None
        if self.torch_hip or (flavour or "").startswith("rocm"):
            return "rocm"
        if self.cuda is not None:
            return "cuda"
        if self.torch_xpu or flavour == "xpu":
            return "xpu"
        if flavour == "cpu" or (self.probed and self.torch is not None):
            return "cpu"
        return None

    @property
    def cuda(self) -> Optional[str]:
        """torch's own CUDA, never nvcc's and never the driver's."""
        version = self.torch_version
        return self.torch_cuda or (cuda_of_flavour(version.flavour) if version else None)

    @property
    def has_gpu(self) -> Optional[bool]:
        return None if self.gpus is None else bool(self.gpus)

    def as_dict(self) -> Mapping[str, Any]:
        """The facts as a facts file holds them: what `doctor --json` prints and `--environment` reads."""
        facts: dict[str, Any] = {name: getattr(self, name) for name in _PLAIN_KEYS}
        facts["gpu_cc"] = self.gpus[0].compute_capability if self.gpus else None
        facts["gpus"] = None if self.gpus is None else [dict(vars(gpu)) for gpu in self.gpus]
        if self.target is not None:
            facts["executable"] = self.target.executable
        facts["sources"] = dict(self.sources)
        return facts


@lru_cache(maxsize=64)
def _torch_version(text: Optional[str], container: str) -> Optional[TorchVersion]:
    version = TorchVersion.parse(text) if text else None
    vendor = re.match(r"NGC (\d{2}\.\d{2})", container)
    if version is not None and vendor and version.build in ("local", "prerelease"):
        # before 24.x a container's torch did not carry the vendor's mark in its version
        return replace(version, build="vendor", vendor_release=vendor[1])
    return version


_PLAIN_KEYS = (
    "python",
    "free_threaded",
    "platform",
    "machine",
    "glibc",
    "musl",
    "torch",
    "torch_missing",
    "torch_cuda",
    "torch_hip",
    "torch_xpu",
    "cxx11abi",
    "driver",
    "nvcc",
    "gcc",
    "python_headers",
    "container",
    "conda",
    "probed",
)
_BOOLEANS = {"python_headers", "free_threaded", "torch_missing", "cxx11abi", "conda", "probed"}
# never None in an Environment
_DEFAULT_FALSE = _BOOLEANS - {"cxx11abi", "python_headers"}


# what `doctor --json` puts around the facts; a published report around its `env` holds what it likes
_ANSWER_KEYS = (
    *("version", "outcome", "code", "wheel", "command", "message", "hint", "evidence", "commands", "also", "rejected"),
    *("facts", "decision", "error"),
)
_FACT_KEYS = (*_PLAIN_KEYS, "gpu_cc", "gpus", "executable", "sources")
_GPU_KEYS: Mapping[str, type] = {"name": str, "compute_capability": str, "memory_mb": int}
_FAULTS_SHOWN = 12
_FACTS_HINT = "`python -m mamba_install doctor --json`, run in the environment meant, writes a facts file"


def read_facts(path: Path) -> Environment:
    """Read a facts file; UsageError says which facts are not what they should be."""
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(
            f"the facts file cannot be read: `{path}` ({error.strerror})", "name a file that is there; " + _FACTS_HINT
        ) from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the facts file is not JSON: `{path}` ({error})", _FACTS_HINT) from error
    return environment_from_facts(facts, str(path))


def environment_from_facts(facts: object, origin: str = "facts") -> Environment:
    """An Environment from the keys of a report's `env`; UsageError names `origin` and everything wrong at once."""
    faults: List[str] = []
    found = _facts_inside(facts, faults)
    _check_facts(found, faults)
    if faults:
        more = f"; and {len(faults) - _FAULTS_SHOWN} more" if len(faults) > _FAULTS_SHOWN else ""
        raise UsageError(
            f"the facts file is not what it should be: `{origin}`: {'; '.join(faults[:_FAULTS_SHOWN])}{more}",
            _FACTS_HINT,
        )
    return _from_mapping(found)


def _facts_inside(facts: object, faults: List[str]) -> Mapping[str, Any]:
    """The facts themselves: the whole file, or what it holds where it is an answer of `doctor --json` or a whole report."""
    if not isinstance(facts, dict):
        faults.append(_unexpected(facts, "object", "the whole"))
        return {}
    for key in ("facts", "env"):
        if key not in facts:
            continue
        if key == "facts":
            _check_keys(facts, _ANSWER_KEYS, "", faults)
        if isinstance(facts[key], dict):
            return dict(facts[key])
        faults.append(_unexpected(facts[key], "object", key))
        return {}
    return facts


def _check_facts(facts: Mapping[str, Any], faults: List[str]) -> None:
    _check_keys(facts, _FACT_KEYS, "", faults)
    for name in (*_PLAIN_KEYS, "gpu_cc", "executable"):
        _check_type(facts.get(name), bool if name in _BOOLEANS else str, name, faults)
    sources = facts.get("sources")
    if sources is not None and not isinstance(sources, dict):
        faults.append(_unexpected(sources, "object", "sources"))
    for name, text in sources.items() if isinstance(sources, dict) else ():
        _check_type(text, str, f"sources.{_shown(name)}", faults)
    gpus = facts.get("gpus")
    if gpus is not None and not isinstance(gpus, list):
        faults.append(_unexpected(gpus, "list", "gpus"))
    for number, gpu in enumerate(gpus if isinstance(gpus, list) else ()):
        if not isinstance(gpu, dict):
            faults.append(_unexpected(gpu, "object", f"gpus[{number}]"))
            continue
        _check_keys(gpu, tuple(_GPU_KEYS), f"gpus[{number}].", faults)
        for name, expected in _GPU_KEYS.items():
            _check_type(gpu.get(name), expected, f"gpus[{number}].{name}", faults)


def _check_keys(found: Mapping[str, Any], known: Tuple[str, ...], where: str, faults: List[str]) -> None:
    for key in found:
        if key not in known:
            near = difflib.get_close_matches(key[:80], known, 1, 0.5)
            meant = f"did you mean `{where}{near[0]}`?" if near else f"known: {', '.join(known)}"
            faults.append(f"unknown key `{where}{_shown(key)}` ({meant})")


def _check_type(value: object, expected: type, where: str, faults: List[str]) -> None:
    if value is not None and type(value) is not expected:
        faults.append(_unexpected(value, expected.__name__, where))


def _unexpected(value: object, expected: str, where: str) -> str:
    return f"Unexpected type {type(value).__name__} (expected {expected}) in `{where}`"


def _shown(key: str) -> str:
    return key if len(key) <= 40 and key.isprintable() else repr(key[:40])


def _from_mapping(facts: Mapping[str, Any]) -> Environment:
    values: dict[str, Any] = {name: facts.get(name) for name in _PLAIN_KEYS}
    for name in _DEFAULT_FALSE:
        values[name] = bool(values[name])
    if values["machine"] is not None:
        values["machine"] = MACHINES.get(values["machine"].lower(), values["machine"].lower())
    if values["torch"] == "":
        values["torch"] = None
    vendor = re.search(r"NGC (\d{2}\.\d{2})", values["platform"] or "")
    if vendor and values["container"] is None:
        values["container"] = f"NGC {vendor[1]}"
    sources = facts.get("sources")
    if sources is None:
        sources = {name: "facts file" for name in _PLAIN_KEYS if facts.get(name) is not None}
    return Environment(gpus=_gpus_from_facts(facts), sources=sources, **values)


def _gpus_from_facts(facts: Mapping[str, Any]) -> Optional[Tuple[Gpu, ...]]:
    listed, capability = facts.get("gpus"), facts.get("gpu_cc")
    if listed is None:
        return None if capability is None else (Gpu("not named", capability),)
    return tuple(
        Gpu(gpu.get("name") or "not named", gpu.get("compute_capability"), gpu.get("memory_mb")) for gpu in listed
    )


def probe_environment(python: Union[str, Path]) -> Environment:
    """Ask the target interpreter and the disk beside it; nothing of the target's packages is imported."""
    from mamba_install.probes import probe

    return probe(str(python))

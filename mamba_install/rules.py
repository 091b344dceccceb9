"""The compatibility rules as one table, and the small engine that holds a wheel against them.

A rule names its outcome code, how far it puts a wheel out of reach, a sentence for the reader, and a predicate. A predicate answers
None ("no objection") or the words of the sentence. A fact that is not known raises no objection unless choosing without it would be a guess.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Callable, Dict, Iterable, NamedTuple, Optional, Tuple

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from mamba_install import public_wheels
from mamba_install.environment import MACHINES, Environment
from mamba_install.records import Candidate, Policy, Reason
from mamba_install.wheel_names import parse_version
from mamba_install.world import (
    DRIVER_FLOORS,
    MANYLINUX_ALIASES,
    OWN_VERSIONS,
    PLAIN_LINUX_GLIBC,
    STABLE_FLOOR,
    TOOLKIT_DRIVERS,
    UNIVERSAL_FLOOR,
    official_abi,
)

Words = Dict[str, object]


class Objection(NamedTuple):
    """The words of a rule's sentence; `further` adds to its weight where one mismatch is worse than another."""

    words: Words
    further: int = 0


Predicate = Callable[[Environment, Candidate, Policy], Optional[Objection]]


@dataclass(frozen=True)
class Rule:
    """One row of the table."""

    code: str
    weight: int
    says: str
    test: Predicate


class PlatformTag(NamedTuple):
    """One platform tag, taken apart: `manylinux_2_28_x86_64` -> linux, glibc (2, 28), x86_64."""

    system: Optional[str]
    libc: Optional[str]
    floor: Tuple[int, int]
    machine: Optional[str]


@lru_cache(maxsize=1024)
def parse_platform_tag(tag: str) -> PlatformTag:
    """Read a platform tag. https://packaging.python.org/en/latest/specifications/platform-compatibility-tags/"""
    if tag == "any":
        return PlatformTag(None, None, (0, 0), None)
    versioned = re.fullmatch(r"(manylinux|musllinux)_(\d{1,3})_(\d{1,3})_(\w+)", tag)
    if versioned:
        libc = "glibc" if versioned[1] == "manylinux" else "musl"
        return PlatformTag("linux", libc, (int(versioned[2]), int(versioned[3])), _machine(versioned[4]))
    alias = re.fullmatch(r"(manylinux1|manylinux2010|manylinux2014)_(\w+)", tag)
    if alias:
        return PlatformTag("linux", "glibc", MANYLINUX_ALIASES[alias[1]], _machine(alias[2]))
    if tag.startswith("linux_"):
        return PlatformTag("linux", "glibc", (0, 0), _machine(tag[len("linux_") :]))
    if tag.startswith("win"):
        return PlatformTag("windows", None, (0, 0), _machine(tag.partition("_")[2] or "x86"))
    mac = re.fullmatch(r"macosx_\d+_\d+_(\w+)", tag)
    if mac:
        return PlatformTag("macos", None, (0, 0), None if mac[1] == "universal2" else _machine(mac[1]))
    return PlatformTag(tag, None, (0, 0), None)


def _machine(name: str) -> str:
    return MACHINES.get(name, name)


def platform_tags(candidate: Candidate) -> Iterable[PlatformTag]:
    return map(parse_platform_tag, candidate.name.platform.split("."))


def glibc_floor(candidate: Candidate, tag: PlatformTag) -> Tuple[int, int]:
    """What the tag says, or what is known of public wheels whose plain name says nothing."""
    name = candidate.name
    own = OWN_VERSIONS.get(name.canonical_name)
    if tag.floor == (0, 0) and not (own and name.sort_version >= parse_version(own)):
        for distribution, first, glibc in PLAIN_LINUX_GLIBC:
            if name.canonical_name == distribution and name.sort_version >= parse_version(first):
                return numbers(glibc)
    return tag.floor


@lru_cache(maxsize=1024)
def numbers(text: str) -> Tuple[int, int]:
    """The first two numbers of a version, however it goes on: `580.x` -> (580, 0)."""
    found = [int(digits) for digits in re.findall(r"\d{1,6}", text)[:2]] + [0, 0]
    return found[0], found[1]


def cuda_major(candidate: Candidate) -> Optional[int]:
    label = candidate.name.label
    match = re.match(r"cu(\d{2})", label.accelerator) if label else None
    return int(match[1]) if match else None


# predicates about the system


def is_yanked(environment: Environment, candidate: Candidate, policy: Policy) -> Optional[Objection]:
    return None if candidate.yanked is None else Objection({"why": candidate.yanked or "no reason given"})


def system_differs(environment: Environment, candidate: Candidate, policy: Policy) -> Optional[Objection]:
    ours = environment.system
    theirs = {tag.system for tag in platform_tags(candidate)}
    if ours is None or None in theirs or ours in theirs:
        return None
    return Objection({"theirs": ", ".join(sorted(map(str, theirs))), "ours": environment.platform})


def libc_is_musl(environment: Environment, candidate: Candidate, policy: Policy) -> Optional[Objection]:
    tags = list(platform_tags(candidate))
    if not environment.is_musl or any(tag.libc != "glibc" for tag in tags):
        return None
    return Objection({"ours": environment.musl or environment.platform})


def machine_differs(environment: Environment, candidate: Candidate, policy: Policy) -> Optional[Objection]:
    theirs = {tag.machine for tag in platform_tags(candidate)}
    if environment.machine is None or None in theirs or environment.machine in theirs:
        return None
    return Objection({"theirs": ", ".join(sorted(map(str, theirs))), "ours": environment.machine})


def glibc_is_older(environment: Environment, candidate: Candidate, policy: Policy) -> Optional[Objection]:
    if environment.glibc is None or environment.is_musl:
        return None
    floors = [glibc_floor(candidate, tag) for tag in platform_tags(candidate) if tag.libc == "glibc"]
    if not floors or len(floors) < len(list(platform_tags(candidate))) or min(floors) <= numbers(environment.glibc):
        return None
    return Objection({"theirs": "{}.{}".format(*min(floors)), "ours": environment.glibc})


# predicates about Python


def python_differs(environment: Environment, candidate: Candidate, policy: Policy) -> Optional[Objection]:
    name = candidate.name
    if "py3" in name.python.split(".") and name.abi == "none":
        return None
    theirs = f"{name.python}-{name.abi}"
    if environment.python is None or not re.match(r"\d+\.\d+", environment.python):
        return Objection({"theirs": theirs, "ours": "not known"})
    major, minor = numbers(environment.python)
    suffix = "t" if environment.free_threaded else ""
    for python in name.python.split("."):
        for abi in name.abi.split("."):
            if _python_serves(python, abi, major, minor, suffix):
                return None
    theirs_minor = re.match(r"(?:cp|py)3(\d+)", name.python)
    distance = abs(int(theirs_minor[1]) - minor) if theirs_minor else 5
    return Objection({"theirs": theirs, "ours": f"{major}.{minor}{suffix}"}, min(distance, 9))


def _python_serves(python: str, abi: str, major: int, minor: int, suffix: str) -> bool:
    match = re.fullmatch(r"(cp|py)(\d)(\d*)", python)
    if not match or int(match[2]) != major:
        return False
    theirs = int(match[3]) if match[3] else 0
    if abi == "none":
        return theirs <= minor if match[1] == "py" else theirs == minor
    if abi in ("abi3", "abi3t"):
        return theirs <= minor and (abi == "abi3t") == bool(suffix)
    return theirs == minor and abi in (f"cp{major}{minor}{suffix}", f"cp{major}{minor}m{suffix}")


def python_is_not_required(environment: Environment, candidate: Candidate, policy: Policy) -> Optional[Objection]:
    if candidate.requires_python is None or environment.python is None:
        return None
    try:
        fits = SpecifierSet(candidate.requires_python).contains(environment.python, prereleases=True)
    except (InvalidSpecifier, InvalidVersion):
        return None
    return None if fits else Objection({"theirs": candidate.requires_python, "ours": environment.python})


def python_reads_it_not(environment: Environment, candidate: Candidate, policy: Policy) -> Optional[Objection]:
    if environment.python is None or not public_wheels.needs_python_310(candidate):
        return None
    return Objection({"ours": environment.python}) if numbers(environment.python) < (3, 10) else None


# predicates about torch


def torch_is_missing(environment: Environment, candidate: Candidate, policy: Policy) -> Optional[Objection]:
    return Objection({}) if environment.torch_missing else None


def torch_is_unknown(environment: Environment, candidate: Candidate, policy: Policy) -> Optional[Objection]:
    if environment.torch_missing or environment.torch_version is not None or candidate.name.label is None:
        return None
    return Objection({"ours": environment.torch or "nothing"})


def label_is_unknown(environment: Environment, candidate: Candidate, policy: Policy) -> Optional[Objection]:
    """Without a label only a wheel without compiled code can be trusted to fit."""
    return None if candidate.name.label is not None or candidate.name.platform == "any" else Objection({})


def torch_is_rocm(environment: Environment, candidate: Candidate, policy: Policy) -> Optional[Objection]:
    label = candidate.name.label
    if environment.accelerator != "rocm" or label is None or not label.accelerator.startswith("cu"):
        return None
    return Objection({"ours": environment.torch, "label": label.accelerator})


def torch_has_no_cuda(environment: Environment, candidate: Candidate, policy: Policy) -> Optional[Objection]:
    if environment.accelerator not in ("cpu", "xpu") or cuda_major(candidate) is None:
        return None
    return Objection({"ours": environment.torch, "theirs": cuda_major(candidate)})


def cuda_is_unknown(environment: Environment, candidate: Candidate, policy: Policy) -> Optional[Objection]:
    """A version without a local part does not tell CUDA from CPU; a probe always knows, a report may not."""
    label = candidate.name.label
    if environment.accelerator is not None or environment.torch_version is None or label is None:
        return None
    if label.accelerator == "cpu" and policy.accept_cpu:
        return None
    return Objection({"ours": environment.torch})


def cuda_differs(environment: Environment, candidate: Candidate, policy: Policy) -> Optional[Objection]:
    theirs = cuda_major(candidate)
    label = candidate.name.label
    if theirs is None or label is None or environment.accelerator in ("rocm", "cpu", "xpu"):
        return None
    if environment.cuda is None:
        return None  # said by cuda_is_unknown, torch_is_unknown or torch_is_missing
    if numbers(environment.cuda)[0] == theirs:
        return None
    return Objection({"theirs": theirs, "ours": f"CUDA {environment.cuda}"})


def hip_differs(environment: Environment, candidate: Candidate, policy: Policy) -> Optional[Objection]:
    label = candidate.name.label
    if label is None or not label.accelerator.startswith("hip") or environment.accelerator in (None, "rocm"):
        return None
    return Objection({"ours": environment.accelerator, "label": label.accelerator})


def gpu_would_idle(environment: Environment, candidate: Candidate, policy: Policy) -> Optional[Objection]:
    label = candidate.name.label
    if label is None or label.accelerator != "cpu" or environment.accelerator in ("cpu", None):
        return None
    if policy.accept_cpu or (environment.accelerator == "cuda" and environment.has_gpu is False):
        return None
    return Objection({"ours": environment.torch})


def _differs(build: str) -> Predicate:
    """Classic wheels are for releases; the universal one's stable binding also serves other builds from its floor on."""

    def test(environment: Environment, candidate: Candidate, policy: Policy) -> Optional[Objection]:
        torch, label = environment.torch_version, candidate.name.label
        if torch is None or label is None or torch.build != build:
            return None
        words: Words = {"ours": torch.text}
        if label.torch is not None:
            if torch.vendor_release is not None and label.torch == torch.vendor_release:
                return None
            return Objection({**words, "why": f"a wheel for torch {label.torch} is built for another torch"})
        floors = [STABLE_FLOOR]
        if candidate.contents is not None:
            floors = [row.torch for row in candidate.contents.bindings if row.kind == "stable"]
        if not floors:
            return Objection({**words, "why": "this wheel holds no binding of torch's stable ABI"})
        # a pre-release of the floor itself may lack what the release has
        if numbers(torch.minor) > numbers(floors[0]):
            return None
        why = f"only the stable binding serves such a build, and that only after torch {floors[0]}"
        return Objection({**words, "why": why})

    return test


def torch_minor_differs(environment: Environment, candidate: Candidate, policy: Policy) -> Optional[Objection]:
    torch, label = environment.torch_version, candidate.name.label
    if torch is None or label is None or torch.build != "release":
        return None
    if label.torch is not None:
        if label.torch == torch.minor:
            return None
        return Objection(
            {"theirs": f"torch {label.torch}", "ours": torch.minor}, _torch_distance(label.torch, torch.minor)
        )
    if candidate.contents is not None and not _binding_serves(environment, candidate):
        rows = ", ".join(f"{row.torch}{'+' if row.kind == 'stable' else ''}" for row in candidate.contents.bindings)
        return Objection({"theirs": f"torch {rows or 'none'} (its bindings)", "ours": torch.minor})
    if Version(torch.minor) < Version(UNIVERSAL_FLOOR):
        return Objection({"theirs": f"torch {UNIVERSAL_FLOOR} and newer", "ours": torch.minor})
    return None


def _torch_distance(theirs: str, ours: str) -> int:
    first, second = numbers(theirs), numbers(ours)
    return min(abs(first[0] - second[0]) * 13 + abs(first[1] - second[1]), 20)


def _binding_serves(environment: Environment, candidate: Candidate) -> bool:
    torch, contents = environment.torch_version, candidate.contents
    if torch is None or contents is None:
        return False
    return any(
        Version(torch.minor) >= Version(row.torch)
        if row.kind == "stable"
        else row.torch == torch.minor and row.cxx11abi == known_abi(environment)
        for row in contents.bindings
    )


def known_abi(environment: Environment) -> Optional[bool]:
    """The ABI that was read, or that of the official wheel of this release."""
    torch = environment.torch_version
    if environment.cxx11abi is not None or torch is None or torch.build != "release":
        return environment.cxx11abi
    return official_abi(environment.machine, torch.minor, torch.flavour or _flavour_of(environment.cuda))


def _flavour_of(cuda: Optional[str]) -> Optional[str]:
    return None if cuda is None else "cu{}{}".format(*numbers(cuda))


def abi_differs(environment: Environment, candidate: Candidate, policy: Policy) -> Optional[Objection]:
    label = candidate.name.label
    if label is None or label.cxx11abi is None or environment.torch_version is None:
        return None
    ours = known_abi(environment)
    if ours is not None and ours == label.cxx11abi:
        return None
    spelled = "not known" if ours is None else str(int(ours))
    return Objection({"theirs": int(label.cxx11abi), "ours": spelled})


def label_is_false(environment: Environment, candidate: Candidate, policy: Policy) -> Optional[Objection]:
    return Objection({}) if public_wheels.has_false_label(candidate) else None


# predicates about the GPU


def driver_is_older(environment: Environment, candidate: Candidate, policy: Policy) -> Optional[Objection]:
    major = cuda_major(candidate)
    floor = DRIVER_FLOORS.get(major) if major is not None else None
    if floor is None or environment.driver is None or _driver(environment.driver) >= _driver(floor):
        return None
    return Objection({"theirs": major, "floor": floor, "ours": environment.driver})


def _driver(text: str) -> Tuple[int, ...]:
    return tuple(int(digits) for digits in re.findall(r"\d{1,6}", text)[:3])


def driver_is_below_toolkit(environment: Environment, candidate: Candidate) -> Optional[str]:
    """Not a refusal: above the major's floor but below the toolkit's own driver, features are reduced."""
    label, contents = candidate.name.label, candidate.contents
    toolkit = contents.toolkit if contents is not None else None
    if toolkit is None and label is not None and re.fullmatch(r"cu\d{3}", label.accelerator):
        toolkit = f"{label.accelerator[2:4]}.{label.accelerator[4]}"
    own = TOOLKIT_DRIVERS.get(toolkit or "")
    if own is None or environment.driver is None or _driver(environment.driver) >= _driver(own):
        return None
    return (
        f"driver {environment.driver} is older than {own}, which came with CUDA {toolkit}: compiled kernels run, PTX does not; "
        "update the driver if a kernel is refused"
    )


def arch_is_absent(environment: Environment, candidate: Candidate, policy: Policy) -> Optional[Objection]:
    capabilities = [gpu.compute_capability for gpu in environment.gpus or () if gpu.compute_capability]
    if not capabilities:
        return None
    contents = candidate.contents
    archs = contents.archs if contents is not None else public_wheels.public_archs(candidate)
    if archs is None or any(serves(archs, capability) for capability in capabilities):
        return None
    return Objection({"theirs": " ".join(archs) or "none", "ours": ", ".join(capabilities)})


def serves(archs: Iterable[str], capability: str) -> bool:
    """Whether a GPU runs any of these: a cubin of the same major and no newer minor, `a` exactly, or older PTX.

    https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#binary-compatibility
    """
    ours = numbers(capability)
    for arch in archs:
        match = re.fullmatch(r"(\d{1,3})\.(\d{1,3})([af]?)(\+PTX)?", arch)
        if not match:
            continue
        theirs = (int(match[1]), int(match[2]))
        if match[3] == "a":
            if theirs == ours:
                return True
        elif (theirs[0] == ours[0] and theirs[1] <= ours[1]) or (match[4] and not match[3] and theirs <= ours):
            return True
    return False


RULES: Tuple[Rule, ...] = (
    Rule("WHEEL_YANKED", 90, "withdrawn by its publisher: {why}", is_yanked),
    Rule("PLATFORM_UNSUPPORTED", 80, "built for {theirs}, this system is {ours}", system_differs),
    Rule("LIBC_MUSL", 80, "needs glibc, this system has musl ({ours})", libc_is_musl),
    Rule("MACHINE_MISMATCH", 70, "built for {theirs}, this machine is {ours}", machine_differs),
    Rule("GLIBC_TOO_OLD", 60, "needs glibc {theirs}, this system has {ours}", glibc_is_older),
    Rule("NO_WHEEL_FOR_PYTHON", 12, "built for Python {theirs}, this is {ours}", python_differs),
    Rule("NO_WHEEL_FOR_PYTHON", 12, "requires Python {theirs}, this is {ours}", python_is_not_required),
    Rule("NO_WHEEL_FOR_PYTHON", 12, "cannot be imported before Python 3.10, this is {ours}", python_reads_it_not),
    Rule("TORCH_MISSING", 5, "needs torch, and none is installed", torch_is_missing),
    Rule("NO_WHEEL_FOR_TORCH", 30, "chosen by torch's version, which the facts do not say: {ours}", torch_is_unknown),
    Rule("NO_WHEEL_FOR_TORCH", 30, "chosen by torch's CUDA, which the facts do not say: {ours}", cuda_is_unknown),
    Rule("NO_WHEEL_FOR_TORCH", 30, "its name does not say which torch it was compiled for", label_is_unknown),
    Rule("TORCH_ROCM", 50, "built for CUDA ({label}), this torch is a ROCm build: {ours}", torch_is_rocm),
    Rule("TORCH_NO_CUDA", 20, "holds kernels for CUDA {theirs}, this torch has no CUDA: {ours}", torch_has_no_cuda),
    Rule("CUDA_MAJOR_MISMATCH", 15, "built for CUDA {theirs}, this torch has {ours}", cuda_differs),
    Rule("TORCH_ROCM", 50, "built for ROCm ({label}), this torch is built for {ours}", hip_differs),
    Rule("NGC_CONTAINER", 25, "this torch is a vendor's build, {ours}: {why}", _differs("vendor")),
    Rule("TORCH_LOCAL_BUILD", 25, "this torch was built locally, {ours}: {why}", _differs("local")),
    Rule("TORCH_PRERELEASE_UNMATCHED", 25, "this torch is a pre-release, {ours}: {why}", _differs("prerelease")),
    Rule("TORCH_MINOR_MISMATCH", 10, "built for {theirs}, this is torch {ours}", torch_minor_differs),
    Rule("CXX11ABI_MISMATCH", 12, "built with C++11 ABI {theirs}, this torch has {ours}", abi_differs),
    Rule(
        "FARM_WRONG_ABI_LABEL",
        13,
        "says C++11 ABI 0, but was compiled against torch 2.6+cu126, whose ABI is 1",
        label_is_false,
    ),
    Rule("DRIVER_TOO_OLD", 18, "CUDA {theirs} needs driver {floor}, this is {ours}", driver_is_older),
    Rule("ARCH_NOT_IN_FATBIN", 40, "holds device code for {theirs}, this GPU is {ours}", arch_is_absent),
    Rule("SLOW_PATH", 8, "holds CPU kernels only and would leave the GPU of this torch idle: {ours}", gpu_would_idle),
)


def objections(environment: Environment, candidate: Candidate, policy: Policy) -> Tuple[Reason, ...]:
    """Every rule that refuses this wheel, in the table's order; empty when it fits."""
    found = []
    for rule in RULES:
        objection = rule.test(environment, candidate, policy)
        if objection is not None:
            found.append(Reason(rule.code, rule.says.format(**objection.words), rule.weight + objection.further))
    return tuple(found)

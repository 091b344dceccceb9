"""When nothing fits: the one code that says why, the nearest wheels, and the one command that would help."""

from __future__ import annotations

import re
import shlex
import sys
from collections import Counter
from typing import Dict, NamedTuple, Optional, Sequence, Tuple

from packaging.utils import canonicalize_name

from mamba_install import public_wheels
from mamba_install.environment import Environment
from mamba_install.records import Candidate, Decision, Policy, Rejection
from mamba_install.rules import cuda_major, known_abi, numbers
from mamba_install.world import DRIVER_FLOORS, TORCH_FLAVOURS, torch_flavour

# where several reasons are true at once, the first of these is told: what cannot be changed before what can,
# and what makes every other question idle before the rest
PRIORITY: Tuple[str, ...] = (
    "LIBC_MUSL",
    "TORCH_MISSING",
    "TORCH_ROCM",
    "TORCH_NO_CUDA",
    "PLATFORM_UNSUPPORTED",
    "MACHINE_MISMATCH",
    "GLIBC_TOO_OLD",
    "NGC_CONTAINER",
    "TORCH_LOCAL_BUILD",
    "TORCH_PRERELEASE_UNMATCHED",
    "TORCH_MINOR_MISMATCH",
    "NO_WHEEL_FOR_TORCH",
    "CUDA_MAJOR_MISMATCH",
    "DRIVER_TOO_OLD",
    "CXX11ABI_MISMATCH",
    "FARM_WRONG_ABI_LABEL",
    "NO_WHEEL_FOR_PYTHON",
    "ARCH_NOT_IN_FATBIN",
    "SLOW_PATH",
    "WHEEL_YANKED",
)
# a wheel for another torch is a mismatch of that wheel; that none is for this torch is what the user must hear
TOLD_AS = {"TORCH_MINOR_MISMATCH": "NO_WHEEL_FOR_TORCH"}
_SYSTEM = {"WHEEL_YANKED", "PLATFORM_UNSUPPORTED", "LIBC_MUSL", "MACHINE_MISMATCH", "GLIBC_TOO_OLD"}
# from this torch on its headers need C++20, which the public packages' settings do not ask for
_PUBLIC_SOURCES_END = (2, 13)
_ABOUT_TORCH = ("NO_WHEEL_FOR_TORCH", "CUDA_MAJOR_MISMATCH", "CXX11ABI_MISMATCH", "TORCH_NO_CUDA")
# how a facts file writes what is asked for
_SPELLED = {
    "python": "`python` like `3.12`",
    "torch": "`torch` as `torch.__version__` says it, like `2.13.0+cu130`",
    "torch_cuda": "`torch_cuda` like `13.0`, or for a torch without CUDA `torch` like `2.13.0+cpu`",
    "cxx11abi": "`cxx11abi` as true or false",
}
_NO_RELEASE = ("NGC_CONTAINER", "TORCH_LOCAL_BUILD", "TORCH_PRERELEASE_UNMATCHED")
_TORCH_INDEX = "https://download.pytorch.org/whl"


class Advice(NamedTuple):
    """One command, and what it does about the fault."""

    command: str
    hint: str


def diagnose(
    environment: Environment, offered: Sequence[Candidate], rejected: Tuple[Rejection, ...], policy: Policy
) -> Decision:
    """The decision that nothing fits."""
    if not rejected:
        return _not_in_index(offered, policy)
    code = choose_code(rejected)
    nearest = next((one for one in rejected if code in {reason.code for reason in one.reasons}), rejected[0])
    told = TOLD_AS.get(code, code)
    reason = next((reason.text for reason in nearest.reasons if reason.code == code), nearest.text)
    advice = advise(told, environment, nearest.candidate, policy)
    count = "the only wheel offered" if len(rejected) == 1 else f"none of {len(rejected)} wheels"
    verb = "does not fit" if len(rejected) == 1 else "fits"
    outcome = "diagnosis"
    missing = missing_facts(told, environment, nearest.candidate, policy)
    if missing:
        advice = _ask_for(missing, environment)
    public = public_wheels.is_public(nearest.candidate)
    if build_is_right(told, environment, public):
        outcome = "build"
        if public:
            advice = _advise_public_build(told, nearest.candidate, _python(environment))
    return Decision(
        outcome=outcome,
        code=told,
        candidate=None,
        command=advice.command,
        message=f"{count} {verb}; the nearest, `{nearest.candidate.filename}`: {reason}",
        hint=advice.hint,
        rejected=rejected,
    )


def build_is_right(code: str, environment: Environment, public: bool) -> bool:
    """Whether a build from source would serve exactly this torch: on Linux with glibc, where sources for it exist."""
    torch = environment.torch_version
    if environment.system != "linux" or environment.is_musl or torch is None:
        return False
    if public and numbers(torch.minor) >= _PUBLIC_SOURCES_END:
        return False
    if code == "TORCH_ROCM":
        return public
    # such builds do not name their CUDA in the version; a release's would be a guess
    not_told = environment.accelerator is None and code in _NO_RELEASE
    if environment.accelerator != "cuda" and not not_told:
        return False
    if code == "NO_WHEEL_FOR_PYTHON" and (environment.free_threaded or numbers(environment.python or "") < (3, 9)):
        return False
    return code in _NO_RELEASE or (public and code in ("NO_WHEEL_FOR_TORCH", "NO_WHEEL_FOR_PYTHON", "MACHINE_MISMATCH"))


def missing_facts(code: str, environment: Environment, nearest: Candidate, policy: Policy) -> Tuple[str, ...]:
    """The facts that this code rests on and that nobody told: any change advised without them would be a guess."""
    if code == "NO_WHEEL_FOR_PYTHON":
        return () if re.match(r"\d+\.\d+", environment.python or "") else ("python",)
    if code not in _ABOUT_TORCH:
        return ()
    if environment.torch_version is None:
        return ("torch",)
    label = nearest.name.label
    cpu_is_fine = policy.accept_cpu and label is not None and label.accelerator == "cpu"
    if environment.accelerator is None and not cpu_is_fine:
        return ("torch_cuda",)
    if code == "CXX11ABI_MISMATCH" and known_abi(environment) is None:
        return ("cxx11abi",)
    return ()


def _ask_for(missing: Tuple[str, ...], environment: Environment) -> Advice:
    """Which key is missing, how it is written, and what else would be asked for next."""
    if missing == ("torch",) and environment.torch:
        wanted = f"`torch` is no version: `{environment.torch[:80]}`; write {_SPELLED['torch']}"
    else:
        wanted = f"the facts do not say {' and '.join(f'`{key}`' for key in missing)}; write " + ", ".join(
            _SPELLED[key] for key in missing
        )
    values = {
        "python": environment.python,
        "platform": environment.platform,
        "machine": environment.machine,
        "torch_cuda": environment.accelerator,
    }
    others = [f"`{key}`" for key, value in values.items() if value is None and key not in missing]
    also = f"; {', '.join(others)} not said either" if others else ""
    command = "python -m mamba_install doctor --json"
    python = _python(environment)
    if python != "python":
        command += f" --python {shlex.quote(python)}"
    return Advice(command, f"{wanted}{also}; the command, run in the environment meant, writes a full facts file")


def _advise_public_build(code: str, nearest: Candidate, python: str) -> Advice:
    name = nearest.name
    project = public_wheels.PROJECTS[name.canonical_name]
    command = (
        f"{python} -m pip install --no-build-isolation --no-deps --no-cache-dir "
        f'"git+https://github.com/{project}@v{name.version}"'
    )
    needs = "a ROCm toolchain" if code == "TORCH_ROCM" else "the CUDA toolkit of torch's CUDA major"
    return Advice(
        command, f"builds for exactly this torch and leaves it as it is; needs {needs}, ninja and a C++ compiler"
    )


def choose_code(rejected: Sequence[Rejection]) -> str:
    """What refuses all wheels for this system; where nothing does, what refuses the nearest."""
    for_this_system = [one for one in rejected if not _codes(one) & _SYSTEM] or list(rejected)
    counts = Counter(code for one in for_this_system for code in _codes(one))
    everywhere = {code for code, count in counts.items() if count == len(for_this_system)}
    found = everywhere or _codes(for_this_system[0])
    return min(found, key=lambda code: PRIORITY.index(code) if code in PRIORITY else len(PRIORITY))


def _codes(rejection: Rejection) -> set[str]:
    return {reason.code for reason in rejection.reasons}


def _not_in_index(offered: Sequence[Candidate], policy: Policy) -> Decision:
    package = canonicalize_name(policy.package)
    versions = sorted({one.name.sort_version for one in offered if one.name.canonical_name == package})
    if versions and policy.version is not None:
        message = (
            f"no wheel of `{package}` is of a version `{policy.version}`; offered: {', '.join(map(str, versions))}"
        )
        hint, command = "leave `--version` out, or ask for one of these", "python -m mamba_install list"
    else:
        others = sorted({one.name.canonical_name for one in offered})
        message = f"the index holds no wheel of `{package}`" + (f"; it holds: {', '.join(others)}" if others else "")
        hint, command = "name the index that holds it", "python -m mamba_install --index FOLDER_OR_URL"
    return Decision("diagnosis", "NOT_IN_INDEX", None, command, message, hint, ())


def advise(code: str, environment: Environment, nearest: Candidate, policy: Policy) -> Advice:
    """The command for a code; `nearest` says which torch or Python would do."""
    python = _python(environment)
    words: Dict[str, str] = {"python": python, "source": shlex.quote(nearest.source)}
    if code == "TORCH_NO_CUDA" and environment.has_gpu is False:
        code = "BUILD"  # a torch with CUDA would change nothing here
    if code in ("NO_WHEEL_FOR_TORCH", "CUDA_MAJOR_MISMATCH", "CXX11ABI_MISMATCH", "TORCH_NO_CUDA", "TORCH_MISSING"):
        return _advise_torch(code, environment, nearest, python)
    if code == "DRIVER_TOO_OLD":
        return _advise_driver(environment, python)
    if code == "NO_WHEEL_FOR_PYTHON":
        match = re.search(r"(?:cp|py)3(\d+)", nearest.name.python)
        minor = f"3.{match[1]}" if match else "3.12"
        return Advice(
            f"python{minor} -m venv .venv",
            f"make an environment with Python {minor}, which has wheels, and put torch into it",
        )
    if code == "PLATFORM_UNSUPPORTED" and environment.system != "windows":
        code = "BUILD"
    command, hint = _ADVICE.get(code, _ADVICE["BUILD"])
    command = command.format(**words)
    if command.startswith("python -m mamba_install") and python != "python":
        command += f" --python {shlex.quote(python)}"
    return Advice(command, hint.format(**words))


# {python} is the target interpreter
_ADVICE: Dict[str, Tuple[str, str]] = {
    "BUILD": (
        "{python} -m pip install --no-build-isolation --no-deps .",
        "run it in a checkout of the project: it builds for exactly this environment and leaves torch as it is",
    ),
    "LIBC_MUSL": (
        "docker run --rm -it python:3.12-slim bash",
        "use an image with glibc (Debian, Ubuntu, RHEL): neither torch's CUDA wheels nor these exist for musl",
    ),
    "PLATFORM_UNSUPPORTED": (
        "wsl --install -d Ubuntu",
        "wheels exist for Linux; on Windows install inside WSL2, where the same driver serves",
    ),
    "WHEEL_YANKED": ("python -m mamba_install list --index {source}", "see what else the index holds"),
    "TORCH_ROCM": (
        "python -m mamba_install --accept-cpu --index {source}",
        "there are no kernels for ROCm yet: this takes a wheel with CPU kernels, where the index holds one",
    ),
    "SLOW_PATH": (
        "python -m mamba_install --accept-cpu --index {source}",
        "takes the wheel with CPU kernels although this torch could use a GPU",
    ),
}


def _python(environment: Environment) -> str:
    if environment.target is not None and environment.target.executable != sys.executable:
        return environment.target.executable
    return "python"


def _advise_torch(code: str, environment: Environment, nearest: Candidate, python: str) -> Advice:
    torch, label = environment.torch_version, nearest.name.label
    major = cuda_major(nearest)
    wanted = label.torch if label is not None and label.torch in TORCH_FLAVOURS else None
    minor = wanted or (torch.minor if torch is not None else None)
    if label is not None and label.torch is None and code == "NO_WHEEL_FOR_TORCH":
        minor = _minor_that_bindings_serve(nearest)
    if code == "CXX11ABI_MISMATCH" and minor == "2.6" and label is not None:
        flavour: Optional[str] = "cu126" if label.cxx11abi else "cu124"
    elif major is None:
        flavour = "cpu" if label is not None and label.accelerator == "cpu" else None
    else:
        flavour = torch_flavour(minor, major) if minor else None
    requirement = f'"torch=={minor}.*"' if minor else "torch"
    command = f"{python} -m pip install {requirement}"
    if flavour is not None:
        command += f" --index-url {_TORCH_INDEX}/{flavour}"
    if code == "TORCH_MISSING":
        return Advice(command, "install torch first, then ask again")
    if code == "TORCH_NO_CUDA":
        return Advice(
            command.replace(" install ", " install --force-reinstall ", 1),
            "replaces the CPU torch by one with CUDA; or add an index that holds a `+cpu` wheel and keep torch",
        )
    return Advice(command, "moves torch to a build that a wheel exists for; this installer never changes torch itself")


def _minor_that_bindings_serve(nearest: Candidate) -> Optional[str]:
    rows = nearest.contents.bindings if nearest.contents is not None else ()
    return max((row.torch for row in rows), key=numbers, default=None)


def _advise_driver(environment: Environment, python: str) -> Advice:
    driver = numbers(environment.driver or "")
    runs = [major for major, floor in DRIVER_FLOORS.items() if numbers(floor) <= driver]
    torch = environment.torch_version
    flavour = torch_flavour(torch.minor, max(runs)) if runs and torch is not None else None
    if flavour is None or torch is None:
        return Advice("nvidia-smi", "shows the driver; update it on the host to the version named above")
    return Advice(
        f'{python} -m pip install --force-reinstall "torch=={torch.minor}.*" --index-url {_TORCH_INDEX}/{flavour}',
        f"takes torch for CUDA {max(runs)}, which this driver runs; or update the driver",
    )

"""What the facts add to an error's words: tests that let a row of `faults` apply, and give the words of its sentence."""

from __future__ import annotations

import re
from typing import Dict, Match, Optional, Tuple

from mamba_install.environment import MACHINES, Environment
from mamba_install.rules import known_abi, numbers
from mamba_install.symbols import needed_abi, readable, torch_hint
from mamba_install.wheel_names import WheelName, WheelNameError

Words = Dict[str, object]

# only libraries whose number is the CUDA major; libcusparse and others count their own
CUDA_LIBRARY = (
    r"lib(?P<library>cudart|cublasLt|cublas|nvrtc|nvJitLink|cupti)(?:-\w+)?\.so\.(?P<major>\d+)[\w.]*"
    r"[^\n]*(?:cannot open|not found|No such)"
)
MACHINE_IN_NAME = r"(?P<theirs>x86_64|amd64|aarch64|arm64)[-\w]*\.(?:so|whl)\b"
TORCH_SAID = r"\btorch(?:\.__version__| version)\s*(?:=|:|is)+\s*['\"]?(?P<said>\d+\.\d+[\w.+]*)"
BUILD_TORCH_CUDA = r"detected CUDA version \(?(?P<found>\d+\.\d+)[^\n]*?(?:PyTorch|torch)[^\n\d]*(?P<said>\d+\.\d+)"
BUILD_ENV_PATH = r"(?:pip-build-env-\w+|builds-v\d+/\S*?|/overlay/\S*?)/\S*site-packages/torch/"
WHEEL_GUESSED = r"Guessing wheel URL[^\n]*torch(?P<said>\d+\.\d+)cxx11abi(?:TRUE|FALSE)"
WHEEL_NAMED = r"\w+-[\w.]+\+\w*?torch(?P<theirs>\d+\.\d+)cxx11abi(?:TRUE|FALSE)"
NO_NVCC = (
    r"nvcc[^\n]*(?:not found|No such file|could not be found|missing|not recognized|not on PATH)"
    r"|(?:no|find|locate|missing)\s+(?:the )?(?:nvcc|CUDA (?:compiler|toolkit))\b|No such file or directory: \S*nvcc"
    r"|bare_metal_version"
)
WRONG_NUMBERS = (
    r"max_?(?:abs)?_?(?:abs_)?(?:diff|err)\w*|(?:wrong|incorrect|garbage|corrupt\w*|different) (?:\w+ )?(?:number|result|output|value)s?"
    r"|(?:number|result|output|value)s? (?:is|are|differ\w*)\s*(?:wrong|incorrect|garbage|from)?|mismatched elements|los\w+ its state"
    r"|not (?:close|bit[- ]?(?:exact|identical))|silent\w* (?:wrong|incorrect|corrupt\w*)|allclose[^\n]*(?:fail|False)"
)
# compute capability -> the nvcc that first knew it; anything older than 7.5 ended with 12.9, 3.x with 11.8
_NVCC_SINCE: Dict[str, str] = {
    "8.0": "11.0",
    "8.6": "11.1",
    "8.7": "11.4",
    "8.8": "13.0",
    "8.9": "11.8",
    "9.0": "11.8",
    "10.0": "12.8",
    "10.3": "12.9",
    "10.7": "13.4",
    "11.0": "13.0",
    "12.0": "12.8",
    "12.1": "12.9",
}
# (nvcc from this version on, newest gcc that its host_config.h accepts), newest first
_HOST_LIMITS: Tuple[Tuple[str, int], ...] = (
    ("13.4", 16),
    ("13.0", 15),
    ("12.8", 14),
    ("12.4", 13),
    ("12.0", 12),
    ("11.4", 11),
    ("11.0", 9),
)
_API_ERAS: Dict[int, str] = {4: "1.0.x", 5: "1.1.x", 7: "1.2.0 to 1.5.0.post8", 8: "1.5.1 or newer"}


# undefined symbols


def _symbol(match: Match[str]) -> str:
    return match["symbol"].strip()


def torch_changed_symbol(environment: Environment, match: Match[str]) -> Optional[Words]:
    hint = torch_hint(_symbol(match))
    if hint is None or torch_is_no_release(environment):
        return None
    return {"symbol": readable(_symbol(match)), "built": hint.built_with, "lacking": hint.lacking_in}


def torch_is_no_release(environment: Environment) -> bool:
    """Such a torch lacks symbols of every release; that it is none is what the user must hear."""
    return environment.torch_version is not None and environment.torch_version.build != "release"


def symbol_of_torch(environment: Environment, match: Match[str]) -> Optional[Words]:
    return None if torch_is_no_release(environment) else {}


def symbol_of_other_abi(environment: Environment, match: Match[str]) -> Optional[Words]:
    needed, ours = needed_abi(_symbol(match)), known_abi(environment)
    if needed is None or needed == ours:
        return None
    return {"symbol": readable(_symbol(match)), "theirs": int(needed), "ours": int(not needed)}


def label_lies(environment: Environment, match: Match[str]) -> Optional[Words]:
    """The symbol is of one ABI, the file's name says the other."""
    label = re.search(r"cxx11abi(TRUE|FALSE)", match.string, re.IGNORECASE)
    needed = needed_abi(_symbol(match))
    if label is None or needed is None or needed == (label[1].upper() == "TRUE") or known_abi(environment) == needed:
        return None
    if "guessing wheel url" in match.string.lower():
        return None  # a name that was asked for need not be the file that was loaded
    return {"label": label[1].upper(), "theirs": int(needed), "symbol": readable(_symbol(match))}


# libraries and machines


def library_of_other_cuda(environment: Environment, match: Match[str]) -> Optional[Words]:
    if environment.cuda is None or numbers(environment.cuda)[0] == int(match["major"]):
        return None
    return {"library": match["library"], "theirs": match["major"], "ours": environment.cuda}


def library_of_this_cuda(environment: Environment, match: Match[str]) -> Optional[Words]:
    return {"library": match["library"], "theirs": match["major"]} if environment.cuda is not None else None


def cuda_not_told(environment: Environment, match: Match[str]) -> Optional[Words]:
    """A fresh install asks the torch that is there; a file for a CUDA that is not there came from somewhere else."""
    return {"library": match["library"], "theirs": match["major"]} if environment.cuda is None else None


def named_machine_differs(environment: Environment, match: Match[str]) -> Optional[Words]:
    theirs = MACHINES.get(match["theirs"].lower(), match["theirs"].lower())
    said = re.search(r"\bon (?:an? )?(x86_64|amd64|aarch64|arm64)\b", match.string, re.IGNORECASE)
    ours = environment.machine or (MACHINES.get(said[1].lower(), said[1].lower()) if said else None)
    return {"theirs": theirs, "ours": ours} if ours is not None and ours != theirs else None


def tag_of_other_python(environment: Environment, match: Match[str]) -> Optional[Words]:
    try:
        name = WheelName.parse(match["wheel"].rpartition("/")[2])
    except WheelNameError:
        return None
    theirs = re.fullmatch(r"cp(\d)(\d+)", name.python)
    if theirs is None or (environment.python and numbers(environment.python) == (int(theirs[1]), int(theirs[2]))):
        return None
    return {"theirs": f"{theirs[1]}.{theirs[2]}"}


# which torch a build saw


def said_torch_differs(environment: Environment, match: Match[str]) -> Optional[Words]:
    ours = environment.torch_version
    if ours is None or _same_version(match["said"].rstrip("."), ours.text):
        return None
    return {"said": match["said"].rstrip(".")}


def _same_version(said: str, ours: str) -> bool:
    """Equal as far as both of them go: `2.6.0` says nothing against `2.6.0+cu124`."""
    said_public, _, said_local = said.partition("+")
    our_public, _, our_local = ours.partition("+")
    if said_local and our_local and said_local != our_local:
        return False
    return our_public.startswith(said_public) or said_public.startswith(our_public)


def guessed_torch_differs(environment: Environment, match: Match[str]) -> Optional[Words]:
    ours = environment.torch_version
    if ours is None or ours.build != "release" or ours.minor == match["said"]:
        return None
    return {"said": match["said"]}


def build_cuda_differs(environment: Environment, match: Match[str]) -> Optional[Words]:
    """nvcc agrees with the torch of the environment; the torch that complained is another one."""
    if environment.cuda is None or numbers(environment.cuda)[0] == numbers(match["said"])[0]:
        return None
    return {"said": f"CUDA {match['said']}"}


def named_torch_differs(environment: Environment, match: Match[str]) -> Optional[Words]:
    ours = environment.torch_version
    if ours is None or ours.build != "release" or ours.minor == match["theirs"]:
        return None
    return {"built": f"torch {match['theirs']}", "lacking": f"torch {ours.minor}", "symbol": "-"}


# compilers


def nvcc_is_here(environment: Environment, match: Match[str]) -> Optional[Words]:
    return None if environment.nvcc is None else torch_may_have_cuda(environment, match)


def torch_may_have_cuda(environment: Environment, match: Match[str]) -> Optional[Words]:
    """For a torch without CUDA no compiler would help, and that is what the user must hear."""
    return {} if environment.accelerator in (None, "cuda") else None


def host_limit(environment: Environment, match: Match[str]) -> Optional[Words]:
    limit = match["limit"]
    if limit is None:
        nvcc = environment.nvcc or environment.cuda
        known = [top for first, top in _HOST_LIMITS if nvcc is not None and numbers(nvcc) >= numbers(first)]
        limit = str(known[0]) if known else "12"
    return {"host": limit}


def arch_range(environment: Environment, match: Match[str]) -> Optional[Words]:
    text = match["arch"] or match["value"] or ""
    digits = re.search(r"(\d{2,3})[af]?$", text)
    arch = f"{digits[1][:-1]}.{digits[1][-1]}" if digits else (text or "?")
    bounds = [f">= {_NVCC_SINCE[arch]}"] if arch in _NVCC_SINCE else []
    if digits and numbers(arch) < (7, 5):
        bounds.append("<= 11.8" if numbers(arch) < (5, 0) else "<= 12.9")
    return {"arch": arch, "range": ", ".join(bounds) or None}


# running


def arch_words(environment: Environment, match: Match[str]) -> Optional[Words]:
    said = re.search(r"sm_(\d+)(\d)\b", match.string)
    if environment.gpus or said is None:
        return {}
    capability = f"{said[1]}.{said[2]}"
    return {"gpu": capability, "archs": capability}


def sm_103_by_cuda_13(environment: Environment, match: Match[str]) -> Optional[Words]:
    capabilities = {gpu.compute_capability for gpu in environment.gpus or ()}
    toolkit = environment.nvcc or environment.cuda
    return {} if "10.3" in capabilities and toolkit is not None and numbers(toolkit)[0] >= 13 else None


def gpu_is_known(environment: Environment, match: Match[str]) -> Optional[Words]:
    return {} if environment.gpus else None


def api_words(environment: Environment, match: Match[str]) -> Optional[Words]:
    signature = re.search(r"\((?:self: [^,)]*, )?(arg0: .*?)\)\s*->", match.string)
    count = len(re.findall(r"\barg\d+:", signature[1])) if signature else 0
    return {"function": match.groupdict().get("function") or "causal_conv1d_cuda", "era": _API_ERAS.get(count, "?")}


# facts alone


def torch_is_rocm(environment: Environment, match: Match[str]) -> Optional[Words]:
    return {} if environment.accelerator == "rocm" else None


def torch_without_cuda(environment: Environment, match: Match[str]) -> Optional[Words]:
    # where there is no GPU, a torch without CUDA is no fault
    return {} if environment.accelerator == "cpu" and environment.has_gpu is not False else None


def torch_not_told(environment: Environment, match: Match[str]) -> Optional[Words]:
    return {} if environment.accelerator is None else None


def system_is_musl(environment: Environment, match: Match[str]) -> Optional[Words]:
    return {} if environment.is_musl else None


def system_is_foreign(environment: Environment, match: Match[str]) -> Optional[Words]:
    return {} if environment.system in ("windows", "macos") else None


def system_is_macos(environment: Environment, match: Match[str]) -> Optional[Words]:
    return {} if environment.system == "macos" else None


def not_windows(environment: Environment, match: Match[str]) -> Optional[Words]:
    return {} if environment.system != "windows" else None


def _build_is(environment: Environment, build: str) -> Optional[Words]:
    torch = environment.torch_version
    return {} if torch is not None and torch.build == build else None


def torch_is_vendors(environment: Environment, match: Match[str]) -> Optional[Words]:
    return _build_is(environment, "vendor")


def torch_is_local(environment: Environment, match: Match[str]) -> Optional[Words]:
    return _build_is(environment, "local")


def torch_is_prerelease(environment: Environment, match: Match[str]) -> Optional[Words]:
    return _build_is(environment, "prerelease")

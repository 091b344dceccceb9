"""Reads an environment's facts: one short child of the target interpreter, then files, then the driver's own tools.

torch's facts come from `torch/version.py` as text and from the symbols of its `libc10`, because its metadata leaves the CUDA
flavour out, and its version number does not tell the C++ ABI.
"""

from __future__ import annotations

import json
import mmap
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

from mamba_install.environment import MACHINES, Environment, Gpu, Target
from mamba_install.errors import UsageError
from mamba_install.toolchains import describe_host, find_host_compiler, find_nvcc

INTERPRETER_TIMEOUT = 20.0
DRIVER_TIMEOUT = 3.0

# runs in the target interpreter: standard library only, 3.6 syntax, one JSON object out
CHILD = r"""
import json, os, sys, sysconfig
def libc():
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
        return version if name == "glibc" else None
    except (AttributeError, OSError, ValueError):
        return None
paths = sysconfig.get_paths()
machine = os.uname().machine if hasattr(os, "uname") else os.environ.get("PROCESSOR_ARCHITECTURE", "")
print(json.dumps({
    "executable": sys.executable, "version": "%d.%d.%d" % sys.version_info[:3],
    "implementation": sys.implementation.name,
    "free_threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    "system": sys.platform, "machine": machine, "bits": 64 if sys.maxsize > 2 ** 32 else 32, "glibc": libc(),
    "purelib": paths["purelib"], "platlib": paths["platlib"], "stdlib": paths["stdlib"],
    "include": paths["include"],
    "virtual": sys.prefix != getattr(sys, "base_prefix", sys.prefix), "prefix": sys.prefix,
    "path": [p for p in sys.path if p]}))
"""

# every libc10 exports the constructors of c10::Error(SourceLocation, std::string); the string's mangled name tells the ABI
NEW_ABI = tuple(f"_ZN3c105ErrorC{kind}ENS_14SourceLocationENSt7__cxx1112basic_string".encode() for kind in (1, 2))
OLD_ABI = tuple(f"_ZN3c105ErrorC{kind}ENS_14SourceLocationESs".encode() for kind in (1, 2))


def probe(python: str) -> Environment:
    """All facts of the environment that `python` belongs to."""
    child = ask_interpreter(python)
    sites = tuple(dict.fromkeys(path for path in child["path"] if Path(path).is_dir()))
    sources = dict.fromkeys(("python", "free_threaded", "platform", "machine", "glibc"), "target interpreter")
    system = {"linux": "linux", "darwin": "macos", "win32": "windows"}.get(child["system"], child["system"])
    musl = find_musl() if system == "linux" and child["glibc"] is None else None
    if musl is not None:
        sources["musl"] = "/lib/ld-musl-*"
    torch = read_torch(sites, sources)
    gpus, driver = read_gpus(sources)
    machine = child["machine"].lower()
    installed = list_installed(sites)
    sources["python_headers"] = child["include"]
    return Environment(
        python=child["version"],
        free_threaded=child["free_threaded"],
        platform=_describe_platform(system, child),
        machine=MACHINES.get(machine, machine),
        glibc=child["glibc"],
        musl=musl,
        gpus=gpus,
        driver=driver,
        nvcc=find_nvcc(child["prefix"], sites, installed, sources),
        gcc=find_host_compiler(sources),
        python_headers=Path(child["include"], "Python.h").is_file(),
        container=find_container(),
        conda=Path(child["prefix"], "conda-meta").is_dir(),
        probed=True,
        target=Target(
            executable=child["executable"] or python,
            prefix=child["prefix"],
            purelib=child["purelib"],
            platlib=child["platlib"],
            site_packages=sites,
            externally_managed=_externally_managed(child),
            virtual=child["virtual"],
            installed=installed,
        ),
        sources=sources,
        **torch,
    )


def ask_interpreter(python: str) -> Mapping[str, Any]:
    """Run the one child. Away from the current folder, so that nothing there is mistaken for an installed package."""
    # not resolved: a virtual environment's python is a link, and what it links to is another environment
    program = str(Path(python).absolute()) if os.sep in python else shutil.which(python) or python
    command = [program, "-c", CHILD]
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=INTERPRETER_TIMEOUT, cwd=Path(program).anchor or os.sep, check=False
        )
        answer = json.loads(done.stdout.decode("utf-8").strip().splitlines()[-1])
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"the target interpreter gave no answer in {INTERPRETER_TIMEOUT:.0f} s: `{python}`") from error
    except OSError as error:
        raise UsageError(
            f"the target interpreter does not start: `{python}` ({error.strerror})", "name another with `--python EXE`"
        ) from error
    except (ValueError, IndexError) as error:
        raise UsageError(
            f"the target interpreter did not describe itself: `{python}`", "is it a Python of 3.6 or newer?"
        ) from error
    if not isinstance(answer, dict):
        raise UsageError(f"the target interpreter did not describe itself: `{python}`")
    return answer


def _describe_platform(system: str, child: Mapping[str, Any]) -> str:
    details = []
    if child["implementation"] != "cpython":
        details.append(child["implementation"])
    if child["bits"] == 32:
        details.append("32 bit")
    details += describe_host()
    return f"{system} ({', '.join(details)})" if details else system


def _externally_managed(child: Mapping[str, Any]) -> Optional[str]:
    marker = Path(child["stdlib"], "EXTERNALLY-MANAGED")
    return str(marker) if not child["virtual"] and marker.is_file() else None


def find_musl() -> Optional[str]:
    """The musl loader of this system, if it is one."""
    loaders = sorted(Path("/lib").glob("ld-musl-*.so.1"))
    return loaders[0].name if loaders else None


def find_container() -> Optional[str]:
    """The vendor container that we are in, by the variables that its image sets."""
    if os.environ.get("NVIDIA_PRODUCT_NAME") == "PyTorch":
        return f"NGC {os.environ.get('NVIDIA_PYTORCH_VERSION', '')}".strip()
    return None


def list_installed(sites: Sequence[str]) -> Mapping[str, str]:
    """Distribution -> version, from the names of the metadata folders; the first on the path wins, as in importing."""
    from packaging.utils import canonicalize_name

    found: Dict[str, str] = {}
    for site in sites:
        try:
            names = sorted(path.name for path in Path(site).iterdir())
        except OSError:
            continue
        for name in names:
            stem, dot, kind = name.rpartition(".")
            if dot and kind in ("dist-info", "egg-info"):
                distribution, _, version = stem.partition("-")
                found.setdefault(str(canonicalize_name(distribution)), version.split("-")[0])
    return found


def read_torch(sites: Sequence[str], sources: Dict[str, str]) -> Dict[str, Any]:
    """torch's version, flavour and ABI from its files; `torch_missing` where there is none."""
    for site in sites:
        version_file = Path(site, "torch", "version.py")
        try:
            text = version_file.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        facts: Dict[str, Any] = parse_torch_version_file(text)
        if facts["torch"] is None:
            continue
        for name in facts:
            sources[name] = "torch/version.py"
        facts["cxx11abi"] = read_abi(version_file.parent / "lib" / "libc10.so")
        if facts["cxx11abi"] is not None:
            sources["cxx11abi"] = "symbols of torch/lib/libc10.so"
        return facts
    sources["torch_missing"] = "no torch/version.py on the target's path"
    return {"torch": None, "torch_missing": True}


def parse_torch_version_file(text: str) -> Dict[str, Optional[str]]:
    """The assignments of `torch/version.py`, read as text."""
    facts: Dict[str, Optional[str]] = {}
    for name, variable in (
        ("torch", "__version__"),
        ("torch_cuda", "cuda"),
        ("torch_hip", "hip"),
        ("torch_xpu", "xpu"),
    ):
        match = re.search(rf"^{variable}\s*(?::[^=\n]+)?=\s*['\"]([^'\"\n]+)['\"]", text, re.MULTILINE)
        facts[name] = match[1] if match else None
    return facts


def read_abi(library: Path) -> Optional[bool]:
    """True for the new C++11 ABI, False for the old; None when the library does not say."""
    try:
        with library.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            new, old = (any(data.find(name) >= 0 for name in names) for names in (NEW_ABI, OLD_ABI))
    except (OSError, ValueError):
        return None
    return new if new != old else None


def read_gpus(sources: Dict[str, str]) -> Tuple[Optional[Tuple[Gpu, ...]], Optional[str]]:
    """GPUs and driver: nvidia-smi, cut off when it hangs, then the kernel module's own file."""
    tool = shutil.which("nvidia-smi") or next(
        (path for path in ("/usr/lib/wsl/lib/nvidia-smi",) if os.access(path, os.X_OK)), None
    )
    if tool is not None:
        query = [tool, "--query-gpu=driver_version,compute_cap,memory.total,name", "--format=csv,noheader,nounits"]
        try:
            done = subprocess.run(query, capture_output=True, timeout=DRIVER_TIMEOUT, check=False)
        except (OSError, subprocess.TimeoutExpired):
            sources["gpus"] = "nvidia-smi gave no answer"
        else:
            gpus, driver = parse_nvidia_smi(done.stdout.decode("utf-8", "replace"))
            if gpus:
                sources["gpus"] = sources["driver"] = "nvidia-smi"
                return gpus, driver
    try:
        driver = parse_proc_version(Path("/proc/driver/nvidia/version").read_text(encoding="utf-8"))
    except OSError:
        sources.setdefault("gpus", "no NVIDIA driver: neither nvidia-smi nor /proc/driver/nvidia")
        return (), None
    sources["driver"] = "/proc/driver/nvidia/version"
    return None, driver


def parse_nvidia_smi(text: str) -> Tuple[Tuple[Gpu, ...], Optional[str]]:
    """One line per GPU; a line that is not like that (an error text) is passed over."""
    gpus, driver = [], None
    for line in text.splitlines():
        fields = [part.strip() for part in line.split(",", 3)]
        if len(fields) == 4 and re.fullmatch(r"\d+\.\d+(\.\d+)?", fields[0]):
            driver = driver or fields[0]
            capability = fields[1] if re.fullmatch(r"\d+\.\d", fields[1]) else None
            gpus.append(Gpu(fields[3], capability, int(fields[2]) if fields[2].isdigit() else None))
    return tuple(gpus), driver


def parse_proc_version(text: str) -> Optional[str]:
    """The driver's version from the first line of its /proc file."""
    match = re.search(r"Kernel Module\b.*?\s(\d{3}\.\d+(?:\.\d+)?)(?:\s|$)", text)
    return match[1] if match else None

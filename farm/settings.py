"""The environment variables that the farm and `pip install .` honour, read once and strictly."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Mapping, Optional, Tuple

from farm.errors import UsageError

_TRUE = ("1", "true", "yes", "on")
_FALSE = ("0", "false", "no", "off")
# name -> what it does; `python -m farm build --help` prints this
VARIABLES = {
    "TORCH_CUDA_ARCH_LIST": "architectures of `pip install .`, as torch spells them: 8.0;9.0+PTX (ignored by the farm: the row decides)",
    "MAMBA_CUDA_ARCHITECTURES": "the same, read where the former is unset",
    "CUDA_HOME": "the CUDA toolkit to use, before the nvcc on PATH and /usr/local/cuda",
    "MAX_JOBS": "compile jobs at once (default: by CPUs and free memory)",
    "NVCC_THREADS": "threads inside one nvcc",
    "MAMBA_SKIP_CUDA_BUILD": "`pip install .` leaves the CUDA kernels out",
    "MAMBA_FORCE_BUILD": "`pip install .` fails where it would fall back to a pure-Python wheel",
    "MAMBA_TORCH_VERSIONS": "minors of torch whose bindings `pip install .` builds: 2.6 2.13 (default: all that this Python can have)",
    "MAMBA_FARM_CACHE": "where downloaded torch headers are kept (default: ~/.cache/mamba-farm)",
    "SOURCE_DATE_EPOCH": "the time stamp of files in wheels and source archives (default: 1980-01-01)",
}
EARLIEST_ZIP_TIME = 315532800  # 1980-01-01
LATEST_ZIP_TIME = 4354819198  # 2107-12-31 23:59:58


def parse_boolean(name: str, text: str) -> bool:
    word = text.strip().lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise UsageError(
        f"{name} is neither true nor false: `{text}`", f"set {name} to one of {', '.join(_TRUE + _FALSE)}, or unset it"
    )


def parse_epoch(name: str, text: str) -> int:
    """Seconds since 1970, held within what a zip archive can express. 0 is a usual value.

    https://reproducible-builds.org/specs/source-date-epoch/
    """
    if not text.strip().isascii() or not text.strip().isdigit():
        raise UsageError(f"{name} is not a number of seconds since 1970: `{text}`", f"unset it, or set {name}=0")
    return min(max(int(text), EARLIEST_ZIP_TIME), LATEST_ZIP_TIME)


def parse_count(name: str, text: str) -> int:
    if not text.strip().isascii() or not text.strip().isdigit() or int(text) < 1:
        raise UsageError(f"{name} is not a positive number: `{text}`", f"set it to 1 or more, or unset it: {name}=2")
    return int(text)


@dataclass(frozen=True)
class Settings:
    """What the environment asks for."""

    jobs: int
    nvcc_threads: Optional[int] = None
    cuda_home: Optional[Path] = None
    skip_cuda: bool = False
    force_build: bool = False
    torch_arch_list: Optional[str] = None
    mamba_archs: Optional[str] = None
    torch_versions: Optional[Tuple[str, ...]] = None
    cache: Path = Path("~/.cache/mamba-farm")
    epoch: int = EARLIEST_ZIP_TIME

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Settings:
        """Read the variables; an empty one counts as unset. UsageError for a value without meaning."""

        def get(name: str) -> Optional[str]:
            return environment.get(name, "").strip() or None

        def flag(name: str) -> bool:
            text = get(name)
            return text is not None and parse_boolean(name, text)

        jobs, threads, epoch, home = get("MAX_JOBS"), get("NVCC_THREADS"), get("SOURCE_DATE_EPOCH"), get("CUDA_HOME")
        versions = get("MAMBA_TORCH_VERSIONS")
        return cls(
            jobs=parse_count("MAX_JOBS", jobs) if jobs else default_jobs(),
            nvcc_threads=parse_count("NVCC_THREADS", threads) if threads else None,
            cuda_home=Path(home) if home else None,
            skip_cuda=flag("MAMBA_SKIP_CUDA_BUILD"),
            force_build=flag("MAMBA_FORCE_BUILD"),
            torch_arch_list=get("TORCH_CUDA_ARCH_LIST"),
            mamba_archs=get("MAMBA_CUDA_ARCHITECTURES"),
            torch_versions=tuple(versions.replace(",", " ").split()) if versions else None,
            cache=Path(get("MAMBA_FARM_CACHE") or "~/.cache/mamba-farm").expanduser(),
            epoch=parse_epoch("SOURCE_DATE_EPOCH", epoch) if epoch else EARLIEST_ZIP_TIME,
        )


def default_jobs() -> int:
    """As many jobs as CPUs we may run on, but not more than memory carries: one nvcc took up to 0.7 GB, so 1 GB each."""
    try:
        cpus = len(os.sched_getaffinity(0))
    except AttributeError:
        cpus = os.cpu_count() or 1
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:  # noqa: PTH123
            available = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        return cpus
    return max(1, min(cpus, available // (1 << 20)))

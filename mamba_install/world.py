"""Facts about the world that the rules compare with, as plain tables: drivers, toolkits, ABIs, flavours, public builds."""

from __future__ import annotations

from typing import Dict, Optional, Tuple

from packaging.version import Version

# the oldest driver that runs a CUDA major at all (minor-version compatibility)
# https://docs.nvidia.com/deploy/cuda-compatibility/
DRIVER_FLOORS: Dict[int, str] = {11: "450.80.02", 12: "525.60.13", 13: "580"}

# the driver that came with a toolkit: below it and above the floor, features are reduced and newer PTX is refused
TOOLKIT_DRIVERS: Dict[str, str] = {
    "11.6": "510.39.01",
    "11.7": "515.43.04",
    "11.8": "520.61.05",
    "12.0": "525.60.13",
    "12.1": "530.30.02",
    "12.2": "535.54.03",
    "12.3": "545.23.06",
    "12.4": "550.54.14",
    "12.5": "555.42.02",
    "12.6": "560.28.03",
    "12.8": "570.26",
    "12.9": "575.51.03",
    "13.0": "580.65.06",
    "13.1": "590.44.01",
    "13.2": "595.45.04",
    "13.3": "610.43.02",
}

# torch minor -> the CUDA flavours of its official wheels, the one on PyPI (x86_64) first
TORCH_FLAVOURS: Dict[str, Tuple[str, ...]] = {
    "1.12": ("cu102", "cu113", "cu116"),
    "1.13": ("cu117", "cu116"),
    "2.0": ("cu117", "cu118"),
    "2.1": ("cu121", "cu118"),
    "2.2": ("cu121", "cu118"),
    "2.3": ("cu121", "cu118"),
    "2.4": ("cu121", "cu118", "cu124"),
    "2.5": ("cu124", "cu118", "cu121"),
    "2.6": ("cu124", "cu118", "cu126"),
    "2.7": ("cu126", "cu118", "cu128"),
    "2.8": ("cu128", "cu126", "cu129"),
    "2.9": ("cu128", "cu126", "cu130"),
    "2.10": ("cu128", "cu126", "cu130"),
    "2.11": ("cu130", "cu126", "cu128"),
    "2.12": ("cu130", "cu126", "cu132"),
    "2.13": ("cu130", "cu126", "cu132"),
    "2.14": ("cu130", "cu126", "cu132"),
    "2.15": ("cu132", "cu130"),
}

# the universal wheel: its oldest classic binding, and where the stable binding begins
UNIVERSAL_FLOOR = "1.13"
STABLE_FLOOR = "2.9"

# (distribution, first version, glibc): public wheels named plain `linux_*` that need more than torch itself does,
# because their build moved to a newer runner; the name cannot say so
PLAIN_LINUX_GLIBC: Tuple[Tuple[str, str, str], ...] = (
    ("mamba-ssm", "2.2.5", "2.32"),
    ("causal-conv1d", "1.5.1", "2.32"),
    ("flash-attn", "2.8.0", "2.32"),
)
# the first versions of our own builds, which none of the public findings describe
OWN_VERSIONS: Dict[str, str] = {"mamba-ssm": "2.4.0", "causal-conv1d": "1.8.0"}

# glibc floors behind the old names of manylinux: https://github.com/pypa/manylinux
MANYLINUX_ALIASES = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}

# official x86_64 wheels of 2.6 that already had the new ABI; from 2.7 on all have it
_NEW_ABI_IN_2_6 = {"cu126", "xpu", "rocm6.2.4"}


def official_abi(machine: Optional[str], minor: str, flavour: Optional[str]) -> bool:
    """The C++11 ABI of an official torch wheel: the answer of last resort, where its library cannot be read."""
    if Version(minor) >= Version("2.7"):
        return True
    if minor == "2.6":
        return machine == "aarch64" or flavour in _NEW_ABI_IN_2_6
    return False


def torch_flavour(minor: str, major: int) -> Optional[str]:
    """The official flavour of a torch minor for a CUDA major: PyPI's where it has that major, else the newest."""
    fitting = [flavour for flavour in TORCH_FLAVOURS.get(minor, ()) if flavour.startswith(f"cu{major}")]
    if not fitting:
        return None
    return fitting[0] if fitting[0] == TORCH_FLAVOURS[minor][0] else max(fitting)

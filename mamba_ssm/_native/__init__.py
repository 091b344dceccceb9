"""The native libraries beside this file, and the one module that loads them (see load.py)."""

from mamba_ssm._native.choice import Choice, TorchBuild, choose_binding, served_torches
from mamba_ssm._native.load import KERNELS_ABI_VERSION, Kernels, Native, load, native

__all__ = [
    "KERNELS_ABI_VERSION",
    "Choice",
    "Kernels",
    "Native",
    "TorchBuild",
    "choose_binding",
    "load",
    "native",
    "served_torches",
]

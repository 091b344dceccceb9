"""Selective state spaces: the Mamba block and its ops, on CUDA kernels, CPU kernels or plain PyTorch."""

from mamba_ssm._native import native
from mamba_ssm.backend import BackendError, BackendInfo, backend_info
from mamba_ssm.modules.mamba_simple import Mamba
from mamba_ssm.ops.selective_scan_interface import mamba_inner_fn, selective_scan_fn

__version__ = "2.4.0"

__all__ = ["BackendError", "BackendInfo", "Mamba", "backend_info", "mamba_inner_fn", "selective_scan_fn"]

# At import, so that no compiled or forked code is the first to load a library.
native()

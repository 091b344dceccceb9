"""The platform tag of a wheel: auditwheel's verdict on the packed file, never an assumption."""

from __future__ import annotations

import hashlib
import logging
import tempfile
from pathlib import Path
from typing import Any, Dict, Tuple

from farm.errors import BuildError
from farm.wheel import Content, write_wheel

# They come from torch and from the driver; the wheel must not bring them.
FROM_OUTSIDE = frozenset({"libtorch.so", "libc10.so", "libtorch_cpu.so", "libtorch_cuda.so", "libcuda.so.1"})
_seen: Dict[Tuple[str, str], str] = {}


def judge(path: Path, machine: str) -> str:
    """The most widely accepted tag that a wheel with native files may carry."""
    try:
        from auditwheel.wheel_abi import analyze_wheel_abi
    except ImportError as error:
        raise BuildError(
            f"auditwheel, which names the platform tag, cannot be imported: {error}", "pip install auditwheel"
        ) from error
    try:
        architecture, libc = _names(machine)
        logging.getLogger("auditwheel").setLevel(logging.ERROR)
        # The kernels for newer instruction sets sit behind a check at run time, so the files' ISA is no limit.
        verdict = analyze_wheel_abi(
            libc, architecture, path, FROM_OUTSIDE, disable_isa_ext_check=True, allow_graft=False
        )
        return str(verdict.overall_policy.name)
    except Exception as error:  # auditwheel raises what it likes, also for what elftools cannot read
        raise BuildError(f"auditwheel cannot read `{path.name}`: {type(error).__name__}: {error}") from error


def _names(machine: str) -> Tuple[Any, Any]:
    from auditwheel.architecture import Architecture
    from auditwheel.libc import Libc

    return Architecture(machine), Libc.GLIBC


def judge_content(content: Content, machine: str, epoch: int) -> str:
    """The verdict on native files that are not packed yet: they are packed alone, and looked at once per set."""
    native = {name: value for name, value in content.items() if name.endswith(".so")}
    digest = hashlib.sha256()
    for name in sorted(native):
        value = native[name]
        data = value if isinstance(value, bytes) else value.read_bytes()
        digest.update(name.encode() + b"\0" + hashlib.sha256(data).digest())
    key = (machine, digest.hexdigest())
    if key not in _seen:
        with tempfile.TemporaryDirectory(prefix="mamba-farm-") as folder:
            path = Path(folder) / f"probe-0-py3-none-linux_{machine}.whl"
            write_wheel(path, native, "probe-0.dist-info", epoch)
            _seen[key] = judge(path, machine)
    return _seen[key]

"""NVIDIA's own lister of device code, as a second witness beside farm/elf.py: from PATH, CUDA_HOME, or the wheel on PyPI."""

from __future__ import annotations

import os
import re
import shutil
import sysconfig
from pathlib import Path
from typing import Dict, Optional, Tuple

from farm.process import run


def find_cuobjdump() -> Optional[str]:
    candidates = [shutil.which("cuobjdump")]
    if os.environ.get("CUDA_HOME"):
        candidates.append(str(Path(os.environ["CUDA_HOME"]) / "bin" / "cuobjdump"))
    candidates.append("/usr/local/cuda/bin/cuobjdump")
    packages = Path(sysconfig.get_paths()["purelib"])
    candidates += [str(path) for path in sorted(packages.glob("nvidia/cu*/bin/cuobjdump"), reverse=True)]
    for path in candidates:
        if path is not None and os.access(path, os.X_OK):
            return path
    return None


def list_device_code(cuobjdump: str, library: Path) -> Dict[Tuple[str, str], int]:
    """How many cubins and PTX images there are for each architecture."""
    counts: Dict[Tuple[str, str], int] = {}
    for option, kind, suffix in (("--list-elf", "cubin", "cubin"), ("--list-ptx", "ptx", "ptx")):
        said = run([cuobjdump, option, str(library)], show=False)
        for number in re.findall(rf"\.sm_(\d+)[af]?\.{suffix}", said.output):
            key = (kind, f"{number[:-1]}.{number[-1]}")
            counts[key] = counts.get(key, 0) + 1
    return counts

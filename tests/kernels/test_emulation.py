"""Planted bugs: each must end in a diagnosis of the emulated GPU or in a result that float64 contradicts."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.kernels import abi, build
from tests.kernels.arrays import Memory, decode, encode
from tests.kernels.conftest import DRIVER_VARIABLE
from tests.kernels.planted import BUGS, Bug

OTHER_DTYPES = re.compile(r"^MAMBA_\w+\(\w*float16, .*$", re.MULTILINE)


def plant(bug: Bug, folder: Path) -> Path:
    """A copy of the op's sources with the bug in it, and with the kernels for float32 only: the bug is in each."""
    for each in ("common", bug.unit):
        shutil.copytree(build.CSRC / each, folder / each)
    broken = folder / bug.file
    text = broken.read_text()
    assert text.count(bug.old) == 1, f"{bug.file} has {bug.old!r} {text.count(bug.old)} times, expected once"
    broken.write_text(text.replace(bug.old, bug.new))
    unit = folder / bug.unit / f"{bug.unit}.cu"
    unit.write_text(OTHER_DTYPES.sub("", unit.read_text()))
    return folder


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name.replace(" ", "-"))
def test_a_planted_bug_is_found(
    bug: Bug,
    tmp_path: Path,
    build_folder: Path,
    machine_objects: list[Path],
    driver_path: Path,
    library_path: Path,
    memory: Memory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = plant(bug, tmp_path / "csrc")
    library = tmp_path / "libmamba_cuda.so"
    broken_driver = Path(shutil.copy(driver_path, tmp_path / "libcuda_broken.so"))
    if bug.in_launcher:
        build.rebuild_launcher(build_folder, source, bug.unit, library)
    else:
        shutil.copy(library_path, library)
        unit = build.compile_kernels(source / bug.unit / f"{bug.unit}.cu", tmp_path / "unit.o", [f"-I{source}"])
        build.link_driver([unit, *machine_objects], broken_driver)
    monkeypatch.setenv(DRIVER_VARIABLE, str(broken_driver))
    own = Memory(type(memory.driver)(str(broken_driver)))
    with pytest.raises((abi.KernelError, AssertionError), match=bug.found):
        bug.run(abi.Kernels(library), own)


def test_half_precision_rounds_as_numpy_does() -> None:
    """The emulation's own conversions are compared by the kernels' tests; this one holds the tests' bfloat16 to account."""
    values = np.array([1.0, 1.00390625, 1.01171875, -3.14159, 1e-40, 65504.0])
    back = decode(encode(values, "bfloat16"), "bfloat16")
    assert np.all(np.abs(back - values) <= np.abs(values) * 2**-8 + 1e-40)
    assert back[1] == 1.0
    assert back[2] == 1.015625

"""`pip install .`, from a checkout and from the source archive: the same files as the farm's, and honest where it cannot."""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Mapping

import pytest

from tests.integration.farm_runs import (
    CPU,
    MACHINE,
    ROOT,
    Outcome,
    build,
    contents,
    copy_checkout,
    cuda_toolkit,
    native,
    run,
    table,
)

SOME = {"MAMBA_TORCH_VERSIONS": "2.8 2.13", "MAMBA_SKIP_CUDA_BUILD": "yes"}


def pip_wheel(source: Path, folder: Path, extra: Mapping[str, str], *options: str) -> Outcome:
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-v",
        "--no-deps",
        "--wheel-dir",
        str(folder),
        *options,
        str(source),
    ]
    return run(*command, cwd=folder.parent, extra=extra)


def wheel_of(outcome: Outcome, folder: Path) -> Path:
    assert outcome.code == 0, outcome.said
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_checkout(tmp_path_factory.mktemp("checkout") / "mamba")


@pytest.fixture(scope="module")
def sdist(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdist")
    code = "import sys; from farm.build_backend import build_sdist; print(build_sdist(sys.argv[1]))"
    outcome = run(sys.executable, "-c", code, str(folder), cwd=checkout)
    assert outcome.code == 0, outcome.stderr
    return folder / outcome.stdout.strip()


@pytest.fixture(scope="module")
def from_checkout(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels") / "w"
    return wheel_of(pip_wheel(checkout, folder, SOME), folder)


def test_a_checkout_gives_the_farms_files(from_checkout: Path, tmp_path: Path) -> None:
    (whole,) = build(tmp_path, "--only", CPU)
    ours, farms = native(from_checkout), native(whole)
    assert sorted(name.rsplit("/", 1)[-1] for name in ours) == [
        "binding_stable.so",
        "binding_torch2.8_abi1.so",
        "libmamba_cpu.so",
    ]
    assert {name: farms[name] for name in ours} == ours
    assert from_checkout.name.startswith("mamba_ssm-2.4.0-py3-none-manylinux_")
    assert table(from_checkout)["cuda"] is None


def test_the_source_archive_gives_the_same_wheel(from_checkout: Path, sdist: Path, tmp_path: Path) -> None:
    folder = tmp_path / "w"
    assert wheel_of(pip_wheel(sdist, folder, SOME), folder).read_bytes() == from_checkout.read_bytes()


def test_the_source_archive_is_complete_and_reproducible(sdist: Path, tmp_path: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames()}
    tracked = run("git", "ls-files", cwd=ROOT)
    if tracked.code == 0:
        ignored = (".ci/", ".github/")
        missing = [
            n
            for n in tracked.stdout.split("\n")
            if n
            and n not in names
            and not n.startswith(ignored)
            and not n.endswith(".gitignore")
            and (ROOT / n).is_file()
        ]
        assert missing == []
    assert {"PKG-INFO", "csrc/include/mamba_kernels.h", "farm/pack.py", "mamba_install/wheel_names.py"} <= names
    copy = copy_checkout(tmp_path / "again")
    code = "import sys; from farm.build_backend import build_sdist; print(build_sdist(sys.argv[1]))"
    run(sys.executable, "-c", code, str(tmp_path), cwd=copy)
    assert (tmp_path / sdist.name).read_bytes() == sdist.read_bytes()


def test_without_a_compiler_a_pure_wheel_that_says_so(checkout: Path, tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    extra = {"PATH": str(tools)}
    outcome = pip_wheel(checkout, tmp_path / "w", extra)
    wheel = wheel_of(outcome, tmp_path / "w")
    assert wheel.name == "mamba_ssm-2.4.0-py3-none-any.whl"
    assert "a pure-Python wheel, which runs the references in plain PyTorch: there is no g++" in outcome.said
    assert native(wheel) == {} and "mamba_ssm/_native/load.py" in contents(wheel)
    outcome = pip_wheel(checkout, tmp_path / "none", {**extra, "MAMBA_FORCE_BUILD": "1"})
    assert outcome.code != 0
    assert "MAMBA_FORCE_BUILD is set, but there is no g++" in outcome.said
    assert not list((tmp_path / "none").glob("*.whl"))


def test_a_nonsense_boolean_is_refused(checkout: Path, tmp_path: Path) -> None:
    outcome = pip_wheel(checkout, tmp_path / "w", {"MAMBA_SKIP_CUDA_BUILD": "perhaps"})
    assert outcome.code != 0
    assert "MAMBA_SKIP_CUDA_BUILD is neither true nor false: `perhaps`" in outcome.said


def test_headers_that_cannot_be_had_leave_a_pure_wheel(checkout: Path, tmp_path: Path) -> None:
    extra = {**SOME, "MAMBA_FARM_CACHE": str(tmp_path / "cache"), "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull}
    # Without isolation, since pip would need the index for the build itself; naming torches sets the installed one aside.
    outcome = pip_wheel(checkout, tmp_path / "w", extra, "--no-build-isolation")
    assert wheel_of(outcome, tmp_path / "w").name.endswith("-py3-none-any.whl")
    assert "no headers of any torch could be had" in outcome.said


@pytest.mark.skipif(cuda_toolkit() is None, reason="needs a CUDA toolkit")
def test_architectures_of_the_environment(checkout: Path, tmp_path: Path) -> None:
    extra = {"MAMBA_TORCH_VERSIONS": "2.13", "TORCH_CUDA_ARCH_LIST": "9.0+PTX", "MAMBA_CUDA_ARCHITECTURES": "8.0"}
    outcome = pip_wheel(checkout, tmp_path / "w", extra)
    assert table(wheel_of(outcome, tmp_path / "w"))["cuda"]["archs"] == ["9.0+PTX"]
    assert "architectures by TORCH_CUDA_ARCH_LIST: 9.0+PTX" in outcome.said
    outcome = pip_wheel(checkout, tmp_path / "n", {**extra, "TORCH_CUDA_ARCH_LIST": "Hopper"})
    assert outcome.code != 0 and "names such as `Ampere`" in outcome.said
    outcome = pip_wheel(checkout, tmp_path / "n", {**extra, "TORCH_CUDA_ARCH_LIST": "1.0"})
    assert outcome.code != 0 and "does not know 1.0" in outcome.said


def test_without_isolation_the_installed_torch_gets_its_binding(
    checkout: Path, from_checkout: Path, tmp_path: Path
) -> None:
    pytest.importorskip("torch", reason="the torch of the tests session serves as the installed one")
    outcome = pip_wheel(checkout, tmp_path / "w", {"MAMBA_SKIP_CUDA_BUILD": "1"}, "--no-build-isolation")
    wheel = wheel_of(outcome, tmp_path / "w")
    assert [entry["file"] for entry in table(wheel)["bindings"]] == ["binding_stable.so"]
    assert "binding for the installed torch 2." in outcome.said
    stable = "mamba_ssm/_native/binding_stable.so"
    with zipfile.ZipFile(wheel) as here, zipfile.ZipFile(from_checkout) as farms:
        assert here.read(stable) == farms.read(stable)


def test_the_installed_wheel_runs(from_checkout: Path, tmp_path: Path) -> None:
    """In the interpreter of the tests, which has a torch; from a folder of its own, so that nothing is installed."""
    pytest.importorskip("torch", reason="needs a torch to load the binding into")
    shutil.unpack_archive(str(from_checkout), tmp_path, "zip")
    code = "import mamba_ssm; print(mamba_ssm.__file__, mamba_ssm.backend_info())"
    outcome = run(sys.executable, "-P", "-c", code, cwd=tmp_path, extra={"PYTHONPATH": str(tmp_path)})
    assert outcome.code == 0, outcome.stderr
    assert str(tmp_path) in outcome.stdout and "binding_stable.so" in outcome.stdout
    assert MACHINE in from_checkout.name

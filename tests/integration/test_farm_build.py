"""Real builds: shared, exact, reproducible, and clear when they fail."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from farm.cuobjdump import find_cuobjdump, list_device_code
from tests.integration.farm_runs import (
    CLASSIC_CPU,
    CLASSIC_CUDA,
    MACHINE,
    ROOT,
    build,
    contents,
    copy_checkout,
    cuda_toolkit,
    environment,
    farm,
    metadata,
    native,
    table,
)

needs_cuda = pytest.mark.skipif(
    cuda_toolkit() != "13.0" or MACHINE != "x86_64", reason="needs the CUDA 13.0 toolkit on x86_64"
)


@pytest.fixture(scope="module")
def cpu_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    (wheel,) = build(tmp_path_factory.mktemp("cpu"), "--only", CLASSIC_CPU)
    return wheel


@pytest.fixture(scope="module")
def cuda_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    (wheel,) = build(tmp_path_factory.mktemp("cuda"), "--only", CLASSIC_CUDA, "--archs", "8.0;9.0")
    return wheel


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_checkout(tmp_path_factory.mktemp("another-place") / "with another name")


@needs_cuda
def test_a_classic_cuda_wheel_holds_exactly_what_was_asked_for(cuda_wheel: Path, tmp_path: Path) -> None:
    assert re.fullmatch(
        r"mamba_ssm-2\.4\.0\+cu130torch2\.13cxx11abiTRUE-cp311-cp311-manylinux_2_\d+_x86_64\.whl", cuda_wheel.name
    )
    described = metadata(cuda_wheel)
    assert described["Version"] == "2.4.0+cu130torch2.13cxx11abiTRUE"
    assert described.get_all("Requires-Dist") == ["torch==2.13.*"]
    assert table(cuda_wheel)["cuda"]["archs"] == ["8.0", "9.0"]
    cuobjdump = find_cuobjdump()
    assert cuobjdump is not None, "the test group installs nvidia-cuda-cuobjdump"
    library = tmp_path / "libmamba_cuda.so"
    library.write_bytes(native(cuda_wheel)["mamba_ssm/_native/libmamba_cuda.so"])
    assert list_device_code(cuobjdump, library) == {("cubin", "8.0"): 2, ("cubin", "9.0"): 2}
    outcome = farm("check", str(cuda_wheel))
    assert outcome.code == 0, outcome.stderr


@needs_cuda
def test_a_wheel_built_in_another_folder_is_the_same_to_the_byte(
    cuda_wheel: Path, elsewhere: Path, tmp_path: Path
) -> None:
    (other,) = build(tmp_path, "--only", CLASSIC_CUDA, "--archs", "8.0;9.0", root=elsewhere)
    assert other.name == cuda_wheel.name
    here, there = contents(cuda_wheel), contents(other)
    assert [name for name in here if here[name] != there.get(name)] == []
    assert other.read_bytes() == cuda_wheel.read_bytes()
    for name, data in there.items():
        for folder in (os.fsencode(elsewhere), os.fsencode(ROOT), b"mamba-farm/headers"):
            assert folder not in data, f"{name} holds a path of the build: {folder!r}"


def test_the_same_again_compiles_nothing_and_another_python_neither(cpu_wheel: Path, tmp_path: Path) -> None:
    other = CLASSIC_CPU.replace("cp311", "cp312")
    outcome = farm("build", "--only", CLASSIC_CPU, "--only", other, "--output", str(tmp_path))
    assert outcome.code == 0, outcome.stderr
    assert "no work to do" in outcome.stderr
    first, second = sorted(tmp_path.glob("*.whl"))
    assert first.read_bytes() == cpu_wheel.read_bytes()
    assert native(first) == native(second)
    assert "-cp312-cp312-" in second.name


def test_the_row_decides_the_architectures_and_says_so(cpu_wheel: Path, tmp_path: Path) -> None:
    extra = {"TORCH_CUDA_ARCH_LIST": "8.0"}
    outcome = farm("build", "--only", CLASSIC_CPU, "--output", str(tmp_path), extra=extra)
    assert "TORCH_CUDA_ARCH_LIST is ignored: in the farm the row decides" in outcome.stderr


def test_the_log_of_a_build_holds_its_commands(cpu_wheel: Path) -> None:
    log = (ROOT / "build/logs" / f"{CLASSIC_CPU}.log").read_text()
    assert "csrc/cpu/dispatch.cpp" in log and "csrc/bindings/stable.cpp" in log


def test_a_compiler_error_names_the_build_the_line_and_the_log(elsewhere: Path, tmp_path: Path) -> None:
    source = elsewhere / "csrc/bindings/floor.cpp"
    whole = source.read_text()
    try:
        source.write_text(whole + "\nthis is no C++;\n")
        outcome = farm("build", "--only", CLASSIC_CPU, "--output", str(tmp_path), root=elsewhere)
    finally:
        source.write_text(whole)
    assert outcome.code == 8
    last = outcome.stderr.strip().splitlines()
    assert f"{CLASSIC_CPU}: `build/objects/binding-{MACHINE}/floor-abi1.o` could not be made" in outcome.stderr
    assert "floor.cpp" in last[-2] and "error:" in last[-2]
    assert last[-1].startswith("hint: ") and f"build/logs/{CLASSIC_CPU}.log" in last[-1]
    assert "this is no C++" in (elsewhere / "build/logs" / f"{CLASSIC_CPU}.log").read_text()
    assert not list(tmp_path.glob("*"))


def test_interrupted_and_taken_up_again(elsewhere: Path, tmp_path: Path) -> None:
    for made in elsewhere.glob("build/objects/cpu-*/*"):
        made.unlink()
    command = [sys.executable, "-m", "farm", "build", "--only", CLASSIC_CPU, "--output", str(tmp_path)]
    process = subprocess.Popen(
        command,
        cwd=elsewhere,
        env=environment({"MAX_JOBS": "1"}),
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    assert process.stderr is not None
    with process.stderr:
        first = process.stderr.readline()
        process.send_signal(signal.SIGINT)
        said = first + process.stderr.read()
    assert process.wait(timeout=60) == 130, said
    assert "Traceback" not in said and "interrupted" in said
    assert not list(tmp_path.glob("*"))
    (wheel,) = build(tmp_path, "--only", CLASSIC_CPU, root=elsewhere)
    assert farm("check", str(wheel)).code == 0


def test_a_damaged_record_of_dependencies_costs_one_build(elsewhere: Path, tmp_path: Path) -> None:
    build(tmp_path, "--only", CLASSIC_CPU, root=elsewhere)
    record = elsewhere / "build" / ".ninja_deps"
    data = record.read_bytes()
    # After a line of text and a version come entries, each behind its length, whose highest bit says of what kind it is.
    # Which entry comes where depends on what was compiled first; the fourth begins here, and loses its length.
    at = data.index(b"\n") + 1 + 4
    for _ in range(3):
        at += 4 + (int.from_bytes(data[at : at + 4], "little") & 0x7FFFFFFF)
    record.write_bytes(data[:at] + b"\xff\xff\xff\x7f" + data[at + 4 :])
    first = farm("build", "--only", CLASSIC_CPU, "--output", str(tmp_path), root=elsewhere)
    assert first.code == 0 and "compiling again" in first.stderr
    assert "no work to do" in farm("build", "--only", CLASSIC_CPU, "--output", str(tmp_path), root=elsewhere).stderr


def test_without_network_and_cache_the_headers_are_the_reason(tmp_path: Path) -> None:
    extra = {"MAMBA_FARM_CACHE": str(tmp_path / "cache"), "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull}
    outcome = farm("build", "--only", CLASSIC_CPU, "--output", str(tmp_path), extra=extra)
    assert outcome.code == 5
    assert "pip found no wheel of torch 2.10.0 for its headers" in outcome.stderr
    assert "Traceback" not in outcome.stderr
    assert [path for path in (tmp_path / "cache" / "headers").iterdir() if not path.name.startswith(".")] == []


def test_a_broken_matrix_lists_everything_and_ends_with_9(elsewhere: Path) -> None:
    matrix = elsewhere / "matrix.yaml"
    whole = matrix.read_text()
    try:
        matrix.write_text(whole.replace("cuda: cu117", "cuda: cu171", 1).replace("kind: classic", "knid: classic", 1))
        outcome = farm("plan", root=elsewhere)
    finally:
        matrix.write_text(whole)
    assert outcome.code == 9
    assert "did you mean `kind`?" in outcome.stderr
    assert "has no `cu171`" in outcome.stderr
    assert re.search(r"matrix\.yaml:\d+: ", outcome.stderr)


@pytest.mark.parametrize(
    "arguments, code, words",
    [
        (("build", "--only", "universal-cu99-x86_64"), 2, "the nearest are"),
        (
            ("build", "--only", "universal-cpu-" + ("aarch64" if MACHINE == "x86_64" else "x86_64")),
            8,
            "this machine is",
        ),
        (("build", "--only", CLASSIC_CPU, "--archs", "8.0"), 2, "--archs is for CUDA builds"),
        (("build", "--only", "*rocm*"), 8, "no HIP build"),
        (("index", "/nowhere"), 2, "no such folder"),
        (("plan", "--only", "nothing-like-it"), 2, "hint:"),
        (("explain", "universal-nothing"), 2, "no build has this identifier"),
    ],
)
def test_what_cannot_be_done_says_why(arguments: tuple[str, ...], code: int, words: str) -> None:
    outcome = farm(*arguments)
    assert (outcome.code, outcome.stdout) == (code, "")
    assert words in outcome.stderr and "Traceback" not in outcome.stderr


def test_cuda_home_without_nvcc_and_a_nonsense_boolean(tmp_path: Path) -> None:
    outcome = farm("plan", extra={"CUDA_HOME": str(tmp_path)})
    assert outcome.code == 2 and "CUDA_HOME has no bin/nvcc" in outcome.stderr
    outcome = farm("build", "--only", CLASSIC_CPU, extra={"MAMBA_FORCE_BUILD": "maybe"})
    assert outcome.code == 2 and "neither true nor false: `maybe`" in outcome.stderr


def test_plan_and_explain_speak_json() -> None:
    builds = {row["identifier"]: row for row in farm("plan", "--json").json()["builds"]}
    assert builds[CLASSIC_CPU]["buildable"] is True
    assert builds["mamba_ssm-torch2.14-rocm7.14-cp312-abi1-x86_64"]["buildable"] is False
    (explained,) = farm("explain", CLASSIC_CPU, "--json").json()["builds"]
    assert explained["requires"] == ["torch==2.13.*"]
    assert any("csrc/bindings/stable.cpp" in action["inputs"] for action in explained["actions"])

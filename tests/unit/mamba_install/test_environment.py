"""Facts: replayed from a file, or read from files of a torch that is never imported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, Optional

import pytest

from mamba_install import probes
from mamba_install.doctor import conclude
from mamba_install.environment import Environment, Gpu, environment_from_facts, read_facts
from mamba_install.errors import UsageError


def facts(**changes: Any) -> Dict[str, Any]:
    report = dict.fromkeys(
        ("python", "torch", "torch_cuda", "cxx11abi", "platform", "machine", "glibc", "gpu_cc", "driver")
    )
    report.update({"nvcc": None, "gcc": None})
    return {**report, **changes}


def test_a_reports_env_is_an_environment() -> None:
    environment = environment_from_facts(
        facts(python="3.12", torch="2.8.0+cu128", platform="linux (Ubuntu 24.04, WSL2)", machine="AMD64", gpu_cc="8.0")
    )
    assert environment.system == "linux"
    assert environment.machine == "x86_64"
    assert environment.accelerator == "cuda"
    assert environment.cuda == "12.8"
    assert environment.gpus == (Gpu("not named", "8.0"),)
    assert environment.has_gpu is True


def test_not_stated_is_not_absent() -> None:
    environment = environment_from_facts(facts())
    assert environment.has_gpu is None
    assert environment.accelerator is None
    assert environment.torch_missing is False


@pytest.mark.parametrize(
    ("platform", "system", "musl"),
    [
        ("linux (Alpine, musl)", "linux", True),
        ("windows 10", "windows", False),
        ("any", None, False),
        ("linux (conda)", "linux", False),
        ("macos", "macos", False),
    ],
)
def test_platforms_as_people_write_them(platform: str, system: Optional[str], musl: bool) -> None:
    environment = environment_from_facts(facts(platform=platform))
    assert (environment.system, environment.is_musl) == (system, musl)


def test_what_doctor_writes_is_read_again(tmp_path: Path) -> None:
    first = Environment(
        python="3.13.1",
        free_threaded=True,
        platform="linux",
        machine="aarch64",
        glibc="2.39",
        torch="2.14.0+cu130",
        torch_cuda="13.0",
        cxx11abi=True,
        gpus=(Gpu("NVIDIA H200", "9.0", 143771),),
        driver="580.95.05",
        probed=True,
        sources={"torch": "torch/version.py"},
    )
    for number, written in enumerate((first.as_dict(), {"version": "0", "facts": first.as_dict(), "decision": None})):
        path = tmp_path / f"{number}.json"
        path.write_text(json.dumps(written))
        assert read_facts(path) == first


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ([], "expected object"),
        ({"torch": 2.8}, "Unexpected type float (expected str) in `torch`"),
        ({"cxx11abi": "TRUE"}, "Unexpected type str (expected bool) in `cxx11abi`"),
        ({"gpu_cc": 8.0}, "in `gpu_cc`"),
        ({"gpus": "one"}, "in `gpus`"),
    ],
)
def test_a_fact_of_the_wrong_type_is_named(value: object, what: str) -> None:
    with pytest.raises(UsageError) as caught:
        environment_from_facts(value)
    assert what in caught.value.message


def told(folder: Path, facts: object) -> UsageError:
    """What is said of a facts file; its name and a hint are always in it."""
    path = folder / "facts.json"
    path.write_text(json.dumps(facts))
    with pytest.raises(UsageError) as caught:
        read_facts(path)
    assert f"`{path}`" in caught.value.message
    assert "doctor --json" in (caught.value.hint or "")
    return caught.value


def test_every_fault_of_a_facts_file_at_once(tmp_path: Path) -> None:
    gpus = [{"name": 3, "compute_capability": 8.0, "memory": 1}, "A100"]
    error = told(tmp_path, {"torch": 2.8, "cxx11abi": "TRUE", "trch_cuda": "12.8", "gpus": gpus, "sources": {"a": 1}})
    for what in (
        "Unexpected type float (expected str) in `torch`",
        "Unexpected type str (expected bool) in `cxx11abi`",
        "unknown key `trch_cuda` (did you mean `torch_cuda`?)",
        "Unexpected type int (expected str) in `gpus[0].name`",
        "Unexpected type float (expected str) in `gpus[0].compute_capability`",
        "unknown key `gpus[0].memory` (did you mean `gpus[0].memory_mb`?)",
        "Unexpected type str (expected object) in `gpus[1]`",
        "Unexpected type int (expected str) in `sources.a`",
    ):
        assert what in error.message


def test_an_unknown_key_of_a_facts_file_is_refused(tmp_path: Path) -> None:
    assert "unknown key `zzz` (known: python, " in told(tmp_path, {"zzz": None}).message
    assert "unknown key `tpyo` (did you mean `python`?)" in told(tmp_path, {"tpyo": 1}).message
    assert "did you mean `machine`?" in told(tmp_path, {"mahcine": None}).message
    assert "did you mean `glibc`?" in told(tmp_path, {"facts": {"glbc": "2.35"}}).message
    assert "did you mean `glibc`?" in told(tmp_path, {"id": "A01", "env": {"glbc": "2.35"}}).message
    assert "unknown key `torch` (" in told(tmp_path, {"facts": {}, "torch": "2.8.0"}).message
    assert "expected object) in `facts`" in told(tmp_path, {"facts": 3}).message
    assert "and 88 more" in told(tmp_path, {f"key{number}": 1 for number in range(100)}).message


def test_the_keys_of_doctors_answer_are_known(tmp_path: Path) -> None:
    environment = Environment(torch="2.8.0+cu128", gpus=(Gpu("A", None),))
    answer = {**conclude(environment, "").as_dict(), "version": "0", "decision": None, "error": None}
    path = tmp_path / "facts.json"
    path.write_text(json.dumps({**answer, "facts": {**environment.as_dict(), "executable": "/usr/bin/python"}}))
    assert read_facts(path) == environment


def test_a_facts_file_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "facts.json"
    with pytest.raises(UsageError, match="cannot be read"):
        read_facts(path)
    path.write_text("{not json")
    with pytest.raises(UsageError, match="not JSON"):
        read_facts(path)


VERSION_FILE = """
from typing import Optional

__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip', 'rocm', 'xpu']
__version__ = '2.11.0+cu130'
debug = False
cuda: Optional[str] = '13.0'
git_version = 'cf30153c4c131c8164ee7798e5022d810682e2cb'
hip: Optional[str] = None
"""


def test_torch_is_read_as_text(tmp_path: Path) -> None:
    folder = tmp_path / "torch" / "lib"
    folder.mkdir(parents=True)
    (tmp_path / "torch" / "version.py").write_text(VERSION_FILE)
    (folder / "libc10.so").write_bytes(b"\x7fELF" + probes.NEW_ABI[0] + b"IcSt11char_traitsIcESaIcEEE\0")
    sources: Dict[str, str] = {}
    read = probes.read_torch([str(tmp_path)], sources)
    assert read == {
        "torch": "2.11.0+cu130",
        "torch_cuda": "13.0",
        "torch_hip": None,
        "torch_xpu": None,
        "cxx11abi": True,
    }
    assert sources["cxx11abi"] == "symbols of torch/lib/libc10.so"


def test_the_abi_is_in_the_symbols(tmp_path: Path) -> None:
    library = tmp_path / "libc10.so"
    assert probes.read_abi(library) is None
    for content, abi in ((b"", None), (b"nothing", None), (probes.OLD_ABI[1], False), (probes.NEW_ABI[0], True)):
        library.write_bytes(content)
        assert probes.read_abi(library) is abi
    library.write_bytes(probes.OLD_ABI[1] + probes.NEW_ABI[0])
    assert probes.read_abi(library) is None


def test_no_torch_is_a_fact_of_its_own(tmp_path: Path) -> None:
    assert probes.read_torch([str(tmp_path)], {}) == {"torch": None, "torch_missing": True}


def test_an_old_version_file_without_annotations() -> None:
    read = probes.parse_torch_version_file("__version__ = '1.13.1+cu117'\ndebug = False\ncuda = '11.7'\nhip = None\n")
    assert read == {"torch": "1.13.1+cu117", "torch_cuda": "11.7", "torch_hip": None, "torch_xpu": None}


def test_nvidia_smi_with_two_gpus_and_with_an_error() -> None:
    text = "572.60, 12.0, 32607, NVIDIA GeForce RTX 5090\n572.60, 8.9, 24564, NVIDIA GeForce RTX 4090\n"
    gpus, driver = probes.parse_nvidia_smi(text)
    assert driver == "572.60"
    assert [gpu.compute_capability for gpu in gpus] == ["12.0", "8.9"]
    assert probes.parse_nvidia_smi("NVIDIA-SMI has failed because it couldn't communicate with the driver") == (
        (),
        None,
    )
    assert probes.parse_nvidia_smi("550.54.14, [N/A], [N/A], NVIDIA A, B")[0] == (Gpu("NVIDIA A, B", None, None),)


@pytest.mark.parametrize(
    ("text", "driver"),
    [
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu Feb 22 2024\nGCC version: 12", "550.54.14"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build\n", "580.95.05"),
        ("nothing of the kind", None),
    ],
)
def test_the_kernel_modules_own_file(text: str, driver: Optional[str]) -> None:
    assert probes.parse_proc_version(text) == driver


def test_installed_distributions_by_their_folders(tmp_path: Path) -> None:
    for name in ("torch-2.13.0+cpu.dist-info", "Foo_Bar-1.0.dist-info", "old-1.2-py3.9.egg-info"):
        (tmp_path / name).mkdir()
    assert probes.list_installed([str(tmp_path), str(tmp_path / "absent")]) == {
        "torch": "2.13.0+cpu",
        "foo-bar": "1.0",
        "old": "1.2",
    }

"""The decision is a pure function: environments are values, indexes are lists of names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, List, Optional, Sequence

import pytest

from mamba_install import diagnosis
from mamba_install.environment import Environment, Gpu, Target
from mamba_install.records import Binding, Candidate, Contents, Decision, Policy
from mamba_install.resolve import resolve
from mamba_install.rules import RULES, parse_platform_tag, serves
from mamba_install.wheel_names import WheelName

HERE = Environment(
    python="3.12.3",
    platform="linux",
    machine="x86_64",
    glibc="2.35",
    torch="2.8.0+cu128",
    torch_cuda="12.8",
    cxx11abi=True,
    gpus=(Gpu("NVIDIA A100", "8.0"),),
    driver="570.124.06",
    probed=True,
)
M = "manylinux_2_28_x86_64"
OURS = [
    f"mamba_ssm-2.4.0+cu11-py3-none-{M}.whl",
    f"mamba_ssm-2.4.0+cu12-py3-none-{M}.whl",
    f"mamba_ssm-2.4.0+cu13-py3-none-{M}.whl",
    f"mamba_ssm-2.4.0+cpu-py3-none-{M}.whl",
    "mamba_ssm-2.4.0+cu12-py3-none-manylinux_2_28_aarch64.whl",
    f"mamba_ssm-2.4.0+cu128torch2.8cxx11abiTRUE-cp312-cp312-{M}.whl",
    f"mamba_ssm-2.4.0+cu126torch2.8cxx11abiTRUE-cp312-cp312-{M}.whl",
    f"mamba_ssm-2.4.0+cu128torch2.8cxx11abiTRUE-cp311-cp311-{M}.whl",
    f"mamba_ssm-2.4.0+cu128torch2.9cxx11abiTRUE-cp312-cp312-{M}.whl",
    f"mamba_ssm-2.4.0+cputorch2.8cxx11abiTRUE-cp312-cp312-{M}.whl",
]
CLASSIC = [name for name in OURS if "torch" in name]


def candidates(names: Sequence[str], **changes: Any) -> List[Candidate]:
    return [replace(Candidate(WheelName.parse(name), f"/wheels/{name}", "here"), **changes) for name in names]


def decide(environment: Environment, names: Sequence[str] = OURS, policy: Optional[Policy] = None) -> Decision:
    return resolve(environment, candidates(names), policy or Policy())


def chosen(decision: Decision) -> Optional[str]:
    return decision.candidate.name.local if decision.candidate else None


def reason(decision: Decision, part: str) -> str:
    return next(one.text for one in decision.rejected if part in one.candidate.filename)


def test_universal_before_classic_and_every_rejection_has_its_reason() -> None:
    decision = decide(HERE)
    assert chosen(decision) == "cu12"
    assert "universal" in decision.message
    assert len(decision.rejected) + len(decision.fitting) == len(OURS)
    assert all(one.reasons and one.text for one in decision.rejected)
    assert reason(decision, "aarch64") == "built for aarch64, this machine is x86_64"
    assert "built for CUDA 13, this torch has CUDA 12.8" in reason(decision, "+cu13-")
    assert "would leave the GPU of this torch idle" in reason(decision, "+cpu-")


def test_classic_when_asked_and_the_nearest_cuda_first() -> None:
    decision = decide(HERE, policy=Policy(prefer_classic=True))
    assert chosen(decision) == "cu128torch2.8cxx11abiTRUE"
    assert chosen(decide(HERE, [OURS[6]])) == "cu126torch2.8cxx11abiTRUE"


def test_the_newest_by_version_and_not_by_text() -> None:
    names = [OURS[1].replace("2.4.0", version) for version in ("2.9.0", "2.10.0", "2.10.0rc1", "2.10.0.post1")]
    decision = decide(HERE, names)
    assert decision.candidate is not None
    assert decision.candidate.name.version == "2.10.0.post1"


def test_a_version_may_be_asked_for() -> None:
    names = [OURS[1], OURS[1].replace("2.4.0", "2.5.0")]
    decision = decide(HERE, names, Policy(version="<2.5"))
    assert decision.candidate is not None
    assert decision.candidate.name.version == "2.4.0"
    absent = decide(HERE, names, Policy(version="==9"))
    assert (absent.outcome, absent.code) == ("diagnosis", "NOT_IN_INDEX")
    assert "2.4.0, 2.5.0" in absent.message


def test_no_gpu_takes_the_universal_wheel_of_torchs_cuda_and_says_so() -> None:
    decision = decide(replace(HERE, gpus=(), driver=None))
    assert chosen(decision) == "cu12"
    assert any("no GPU is here" in note for note in decision.notes)


def test_no_gpu_and_no_wheel_of_torchs_cuda_takes_the_cpu_wheel() -> None:
    decision = decide(replace(HERE, gpus=(), driver=None), [OURS[2], OURS[3]])
    assert chosen(decision) == "cpu"
    assert any("no GPU is here" in note for note in decision.notes)


def test_a_cpu_wheel_beside_a_gpu_only_when_asked() -> None:
    decision = decide(HERE, [OURS[3]])
    assert decision.code == "SLOW_PATH"
    assert decision.command is not None
    assert "--accept-cpu" in decision.command
    accepted = decide(HERE, OURS, Policy(accept_cpu=True))
    assert chosen(accepted) == "cpu"
    assert any("stays idle" in note for note in accepted.notes)


def test_a_cpu_torch_takes_the_cpu_wheel() -> None:
    environment = replace(HERE, torch="2.8.0+cpu", torch_cuda=None)
    decision = decide(environment)
    assert chosen(decision) == "cpu"
    assert "this torch has no CUDA" in reason(decision, "+cu12-py3-none-manylinux_2_28_x86_64")
    assert decide(environment, OURS[:3]).code == "TORCH_NO_CUDA"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"platform": "windows"}, "PLATFORM_UNSUPPORTED"),
        ({"platform": "macos"}, "PLATFORM_UNSUPPORTED"),
        ({"glibc": None, "musl": "ld-musl-x86_64.so.1"}, "LIBC_MUSL"),
        ({"machine": "riscv64"}, "MACHINE_MISMATCH"),
        ({"glibc": "2.17"}, "GLIBC_TOO_OLD"),
        ({"torch": None, "torch_cuda": None, "torch_missing": True}, "TORCH_MISSING"),
        ({"torch": "2.8.0+rocm6.4", "torch_cuda": None, "torch_hip": "6.4"}, "TORCH_ROCM"),
        ({"torch": "2.8.0+cpu", "torch_cuda": None}, "TORCH_NO_CUDA"),
        ({"torch": "2.5.0a0+e000cf0ad9.nv24.10"}, "NGC_CONTAINER"),
        ({"torch": "2.8.0a0+git12ab34c"}, "TORCH_LOCAL_BUILD"),
        ({"torch": "2.9.0.dev20250801+cu128"}, "TORCH_PRERELEASE_UNMATCHED"),
        ({"torch": "2.7.1+cu128"}, "NO_WHEEL_FOR_TORCH"),
        ({"torch": "2.8.0+cu130", "torch_cuda": "13.0"}, "CUDA_MAJOR_MISMATCH"),
        ({"cxx11abi": False}, "CXX11ABI_MISMATCH"),
        ({"driver": "470.82.01"}, "DRIVER_TOO_OLD"),
        ({"python": "3.10.1"}, "NO_WHEEL_FOR_PYTHON"),
        ({"free_threaded": True}, "NO_WHEEL_FOR_PYTHON"),
    ],
)
def test_one_code_and_one_command_where_nothing_fits(changes: Any, code: str) -> None:
    decision = decide(replace(HERE, **changes), [name for name in CLASSIC if "+cpu" not in name])
    built = {"NGC_CONTAINER", "TORCH_LOCAL_BUILD", "TORCH_PRERELEASE_UNMATCHED"}
    assert decision.outcome == ("build" if code in built else "diagnosis")
    assert decision.code == code
    assert decision.command
    assert decision.hint
    assert "\n" not in decision.command
    assert decision.nearest
    assert any(code in (one.code, diagnosis.TOLD_AS.get(one.code)) for one in decision.nearest[0].reasons)


def test_the_nearest_come_first() -> None:
    decision = decide(replace(HERE, torch="2.7.1+cu128"), CLASSIC)
    assert "torch2.8" in decision.nearest[0].candidate.filename
    assert "cp312" in decision.nearest[0].candidate.filename
    assert decision.command is not None
    assert 'torch==2.8.*" --index-url https://download.pytorch.org/whl/cu12' in decision.command


def test_a_wheel_without_the_binding_for_this_torch() -> None:
    contents = Contents((Binding("stable", "2.9"), Binding("classic", "2.6", False)))
    only_stable = candidates([OURS[1]], contents=contents)
    assert resolve(HERE, only_stable, Policy()).code == "NO_WHEEL_FOR_TORCH"
    assert resolve(replace(HERE, torch="2.9.1+cu128"), only_stable, Policy()).outcome == "wheel"
    old = replace(HERE, torch="2.6.0+cu124", torch_cuda="12.4", cxx11abi=False)
    assert resolve(old, only_stable, Policy()).outcome == "wheel"
    assert resolve(replace(old, torch="2.6.0+cu126", cxx11abi=True), only_stable, Policy()).outcome == "diagnosis"


@pytest.mark.parametrize(
    ("torch", "fits"),
    [
        ("2.10.0a0+b4e4ee8.nv25.12", True),
        ("2.11.0.dev20260101+cu128", True),
        ("2.10.0+mine", True),
        ("2.9.0a0+145a3a7bda.nv25.09", False),
        ("2.9.1+mine", False),
        ("2.8.0a0+5228986c39.nv25.05", False),
    ],
)
def test_only_the_stable_binding_serves_a_torch_that_is_no_release(torch: str, fits: bool) -> None:
    decision = decide(replace(HERE, torch=torch))
    assert (decision.outcome == "wheel") == fits
    if fits:
        assert chosen(decision) == "cu12"
        assert any("stable binding" in note for note in decision.notes)


def test_public_names_of_every_era() -> None:
    linux = "cp312-cp312-linux_x86_64.whl"
    for cuda, torch, label in (
        ("12.1", "2.1.2", "cu122torch2.1cxx11abiFALSE"),
        ("12.4", "2.5.1", "cu12torch2.5cxx11abiFALSE"),
        ("11.8", "2.3.0", "cu118torch2.3cxx11abiFALSE"),
        ("11.7", "2.0.1", "cu11torch2.0cxx11abiFALSE"),
    ):
        environment = replace(HERE, torch=torch, torch_cuda=cuda, cxx11abi=False)
        assert chosen(decide(environment, [f"mamba_ssm-2.2.2+{label}-{linux}"])) == label
    vendor = replace(HERE, torch="2.8.0a0+5228986c39.nv25.06")
    assert (
        chosen(decide(vendor, [f"mamba_ssm-2.2.6+cu12torch25.06cxx11abiTRUE-{linux}"])) == "cu12torch25.06cxx11abiTRUE"
    )


def test_a_plain_linux_name_of_a_public_wheel_hides_its_glibc() -> None:
    name = "mamba_ssm-2.3.2+cu12torch2.8cxx11abiTRUE-cp312-cp312-linux_x86_64.whl"
    assert decide(HERE, [name]).outcome == "wheel"
    assert decide(replace(HERE, glibc="2.31"), [name]).code == "GLIBC_TOO_OLD"
    ours = name.replace("2.3.2", "2.4.0")
    assert decide(replace(HERE, glibc="2.31"), [ours]).outcome == "wheel"


def test_the_abi_of_official_wheels_where_it_was_not_read() -> None:
    name = "mamba_ssm-2.2.4+cu12torch2.6cxx11abi{}-cp312-cp312-linux_x86_64.whl"
    names = [name.format("TRUE"), name.format("FALSE")]
    for torch, cuda, abi in (
        ("2.6.0+cu124", "12.4", "FALSE"),
        ("2.6.0+cu126", "12.6", "TRUE"),
        ("2.6.0", "12.4", "FALSE"),
    ):
        decision = decide(replace(HERE, torch=torch, torch_cuda=cuda, cxx11abi=None), names)
        assert (chosen(decision) or "").endswith(abi)
        assert any("ABI was not read" in note for note in decision.notes)


def test_driver_between_floor_and_toolkit_is_a_warning() -> None:
    decision = decide(replace(HERE, driver="535.54.03"), [OURS[5]])
    assert decision.outcome == "wheel"
    assert any("driver 535.54.03 is older than 570.26" in note for note in decision.notes)


def test_device_code_must_serve_a_gpu_that_is_here() -> None:
    contents = Contents((Binding("classic", "2.8", True),), ("8.0", "9.0"))
    for capability, outcome in (("8.6", "wheel"), ("9.0", "wheel"), ("7.5", "diagnosis"), ("12.0", "diagnosis")):
        environment = replace(HERE, gpus=(Gpu("some GPU", capability),))
        assert resolve(environment, candidates([OURS[1]], contents=contents), Policy()).outcome == outcome


@pytest.mark.parametrize(
    ("archs", "capability", "fits"),
    [
        (["8.0"], "8.9", True),
        (["8.6"], "8.0", False),
        (["9.0a"], "9.0", True),
        (["9.0a"], "10.0", False),
        (["9.0+PTX"], "12.0", True),
        (["10.0"], "12.0", False),
        (["nonsense"], "8.0", False),
        (["6.2"], "6.1", False),
    ],
)
def test_which_gpu_runs_which_code(archs: List[str], capability: str, fits: bool) -> None:
    assert serves(archs, capability) is fits


def test_withdrawn_and_unlabelled_wheels() -> None:
    withdrawn = resolve(HERE, candidates([OURS[1]], yanked="broken"), Policy())
    assert withdrawn.code == "WHEEL_YANKED"
    assert "broken" in withdrawn.rejected[0].text
    assert decide(HERE, ["mamba_ssm-2.3.2-cp312-cp312-linux_x86_64.whl"]).code == "NO_WHEEL_FOR_TORCH"
    pure = decide(HERE, ["mamba_ssm-2.4.0-py3-none-any.whl"])
    assert pure.outcome == "wheel"
    assert "no compiled code" in pure.message


def test_an_index_without_the_package() -> None:
    decision = decide(HERE, ["causal_conv1d-1.8.0-py3-none-any.whl"])
    assert (decision.outcome, decision.code) == ("diagnosis", "NOT_IN_INDEX")
    assert "causal-conv1d" in decision.message
    assert decide(HERE, []).code == "NOT_IN_INDEX"


def test_facts_that_do_not_say_enough_are_no_licence_to_guess() -> None:
    assert decide(Environment()).code == "NO_WHEEL_FOR_TORCH"
    assert decide(replace(HERE, probed=False, torch="2.8.0", torch_cuda=None)).code == "NO_WHEEL_FOR_TORCH"


@pytest.mark.parametrize(
    ("environment", "names", "asked"),
    [
        (Environment(), OURS, "the facts do not say `torch`; write `torch` as"),
        (Environment(torch="2.13.0"), OURS, "the facts do not say `torch_cuda`; write `torch_cuda` like `13.0`"),
        (Environment(torch="2.13.0"), CLASSIC, "`torch_cuda`"),
        (Environment(torch="2.13.0", python="3.12.1", platform="linux"), OURS[:3], "`machine` not said either"),
        (Environment(torch="newest"), OURS, "`torch` is no version: `newest`"),
        (Environment(torch_cuda="12.8"), OURS, "do not say `torch`"),
        (Environment(torch_xpu="2025"), OURS[:3], "do not say `torch`"),
        (replace(HERE, probed=False, torch="2.8.0", torch_cuda=None), OURS, "do not say `torch_cuda`"),
        (replace(HERE, python=None), CLASSIC[:1], "the facts do not say `python`; write `python` like `3.12`"),
        (replace(HERE, python="new"), CLASSIC[:1], "do not say `python`"),
        (
            replace(HERE, torch="2.8.0a0+5228986c39.nv25.06", cxx11abi=None),
            ["mamba_ssm-2.2.6+cu12torch25.06cxx11abiTRUE-cp312-cp312-linux_x86_64.whl"],
            "do not say `cxx11abi`",
        ),
    ],
)
def test_a_missing_fact_is_asked_for_and_no_change_advised(
    environment: Environment, names: List[str], asked: str
) -> None:
    decision = decide(environment, names)
    assert decision.outcome == "diagnosis"
    assert decision.command == "python -m mamba_install doctor --json"
    assert decision.hint is not None
    assert asked in decision.hint
    assert "pip install" not in decision.hint


def test_what_is_known_is_not_asked_for() -> None:
    assert "doctor" not in (decide(replace(HERE, torch="2.7.1+cu128"), CLASSIC).command or "")
    missing = replace(HERE, torch=None, torch_cuda=None, torch_missing=True)
    assert "pip install" in (decide(missing, CLASSIC).command or "")
    target = Target("/env/bin/python", "/env", "/env", "/env", (), None, True, {})
    probed = decide(replace(HERE, torch="nonsense", torch_cuda=None, target=target))
    assert probed.command == "python -m mamba_install doctor --json --python /env/bin/python"
    only_cpu = replace(HERE, probed=False, torch="2.5.0", torch_cuda=None)
    assert "pip install" in (decide(only_cpu, [OURS[9]], Policy(accept_cpu=True)).command or "")


@pytest.mark.parametrize(
    ("python", "free_threaded", "tags", "fits"),
    [
        ("3.12.1", False, "cp312-cp312", True),
        ("3.13.1", True, "cp313-cp313t", True),
        ("3.13.1", True, "cp313-cp313", False),
        ("3.13.1", False, "cp313-cp313t", False),
        ("3.7.9", False, "cp37-cp37m", True),
        ("3.12.1", False, "cp39-abi3", True),
        ("3.13.1", True, "cp39-abi3", False),
        ("3.15.0", True, "cp315-abi3.abi3t", True),
        ("3.12.1", False, "py312-none", True),
        ("3.9.1", False, "py310-none", False),
        ("3.12.1", False, "py2.py3-none", True),
    ],
)
def test_python_tags(python: str, free_threaded: bool, tags: str, fits: bool) -> None:
    environment = replace(HERE, python=python, free_threaded=free_threaded)
    name = f"mamba_ssm-2.4.0+cu12torch2.8cxx11abiTRUE-{tags}-{M}.whl"
    assert (decide(environment, [name]).outcome == "wheel") is fits


def test_requires_python_of_the_index() -> None:
    for specifier, outcome in ((">=3.9", "wheel"), (">=3.13", "diagnosis"), ("nonsense", "wheel")):
        assert resolve(HERE, candidates([OURS[1]], requires_python=specifier), Policy()).outcome == outcome


def test_platform_tags() -> None:
    assert parse_platform_tag("manylinux_2_28_x86_64") == ("linux", "glibc", (2, 28), "x86_64")
    assert parse_platform_tag("manylinux2014_aarch64") == ("linux", "glibc", (2, 17), "aarch64")
    assert parse_platform_tag("musllinux_1_2_x86_64") == ("linux", "musl", (1, 2), "x86_64")
    assert parse_platform_tag("win_amd64") == ("windows", None, (0, 0), "x86_64")
    assert parse_platform_tag("macosx_11_0_arm64") == ("macos", None, (0, 0), "aarch64")
    assert parse_platform_tag("any").system is None


def test_every_rule_has_a_place_in_the_order_of_telling() -> None:
    assert {rule.code for rule in RULES} == set(diagnosis.PRIORITY)


def test_a_compressed_tag_set_needs_only_one_that_fits() -> None:
    name = "mamba_ssm-2.4.0+cu12-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"
    assert decide(replace(HERE, glibc="2.17"), [name]).outcome == "wheel"


def test_without_torch_the_newest_that_a_wheel_exists_for_is_advised() -> None:
    names = [f"mamba_ssm-2.4.0+cu12torch2.{minor}cxx11abiTRUE-cp312-cp312-{M}.whl" for minor in (9, 10, 7)]
    decision = decide(replace(HERE, torch=None, torch_cuda=None, torch_missing=True), names)
    assert (
        decision.command == 'python -m pip install "torch==2.10.*" --index-url https://download.pytorch.org/whl/cu128'
    )

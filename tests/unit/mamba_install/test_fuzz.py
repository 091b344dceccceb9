"""Nonsense of every shape: the answer is a value or one of the installer's own errors, never a traceback of something else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mamba_install import probes
from mamba_install.environment import Environment, environment_from_facts
from mamba_install.errors import InstallerError
from mamba_install.records import Candidate, Policy
from mamba_install.resolve import resolve
from mamba_install.sources import parse_page
from mamba_install.wheel_names import WheelName, WheelNameError
from mamba_install.wheelfile import read_contents
from tests.unit.mamba_install.wheels import make_wheel

PIECE = st.one_of(
    st.sampled_from(
        ["mamba_ssm", "2.4.0", "2.3.2.post1", "2.4.0+cu12", "2.4.0+cu128torch2.8cxx11abiTRUE", "2.4.0+cpu", "2.4.0+x"]
    ),
    st.sampled_from(["cp312", "cp313t", "cp37m", "py3", "py2.py3", "abi3", "none", "cp39"]),
    st.sampled_from(
        [
            "linux_x86_64",
            "manylinux_2_28_x86_64",
            "manylinux2014_aarch64",
            "win_amd64",
            "any",
            "win32",
            "macosx_11_0_arm64",
        ]
    ),
    st.text(max_size=6),
)
FILENAME = st.lists(PIECE, min_size=1, max_size=7).map(lambda parts: "-".join(parts) + ".whl")
SHAPED = st.tuples(
    st.sampled_from(["2.4.0", "2.3.2.post1", "1.0", "2.4.0rc1"]),
    st.sampled_from(
        [
            "",
            "+cu11",
            "+cu12",
            "+cu13",
            "+cpu",
            "+hip62torch2.6cxx11abiTRUE",
            "+cu128torch2.8cxx11abiTRUE",
            "+cu12torch25.06cxx11abiTRUE",
            "+z",
        ]
    ),
    st.sampled_from(["cp312-cp312", "cp313-cp313t", "py3-none", "cp39-abi3", "cp37-cp37m", "pp39-pypy39_pp73"]),
    st.sampled_from(
        [
            "linux_x86_64",
            "manylinux_2_28_x86_64",
            "manylinux2014_aarch64.linux_aarch64",
            "win_amd64",
            "win32",
            "any",
            "strange",
        ]
    ),
).map(lambda parts: "mamba_ssm-{}{}-{}-{}.whl".format(*parts))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
TORCH = st.one_of(
    st.none(),
    st.text(max_size=12),
    st.sampled_from(
        [
            "2.8.0+cu128",
            "2.6.0",
            "2.10.0a0+b4e4ee8.nv25.12",
            "2.9.1+cpu",
            "2.14 nightly",
            "1!2.0",
            "2.6.0+rocm6.2.4",
            "999999.1",
        ]
    ),
)
FACT = st.one_of(st.none(), st.text(max_size=10), st.booleans(), st.integers())
ENVIRONMENT = st.builds(
    Environment,
    python=st.one_of(st.none(), st.text(max_size=6), st.sampled_from(["3.12.1", "3.9", "2", "3.13t"])),
    free_threaded=st.booleans(),
    platform=st.one_of(
        st.none(), st.text(max_size=8), st.sampled_from(["linux", "windows 10", "linux (Alpine, musl)", "any"])
    ),
    machine=st.one_of(st.none(), st.sampled_from(["x86_64", "aarch64", "riscv64"])),
    glibc=st.one_of(st.none(), st.text(max_size=5), st.sampled_from(["2.17", "2.35", "580.x"])),
    torch=TORCH,
    torch_missing=st.booleans(),
    torch_cuda=st.one_of(st.none(), st.text(max_size=4), st.sampled_from(["12.8", "11.8", "13"])),
    cxx11abi=st.one_of(st.none(), st.booleans()),
    gpus=st.one_of(st.none(), st.just(())),
    driver=st.one_of(st.none(), st.text(max_size=6), st.sampled_from(["470.1", "580.x", "550.54.14"])),
    probed=st.booleans(),
)


@given(FILENAME | st.text(max_size=40))
def test_wheel_names(filename: str) -> None:
    try:
        name = WheelName.parse(filename)
    except WheelNameError:
        return
    assert name.filename == filename
    assert Path(filename).name == filename


@settings(max_examples=300)
@given(ENVIRONMENT, st.lists(SHAPED, max_size=6), st.booleans(), st.booleans())
def test_any_environment_gets_an_answer(environment: Environment, names: list[str], classic: bool, cpu: bool) -> None:
    candidates = [Candidate(WheelName.parse(name), name, "here") for name in names]
    decision = resolve(environment, candidates, Policy(prefer_classic=classic, accept_cpu=cpu))
    json.dumps(decision.as_dict())
    if decision.outcome == "wheel":
        assert decision.candidate in candidates
        assert len(decision.fitting) + len(decision.rejected) == len(candidates)
    else:
        assert decision.code
        assert decision.command
        assert decision.hint
        assert len(decision.rejected) == len(candidates)


@given(st.dictionaries(st.sampled_from([*Environment().as_dict(), "gpus", "gpu_cc", "more"]), FACT | JSON) | JSON)
def test_any_facts_file(facts: Any) -> None:
    try:
        environment = environment_from_facts(facts)
    except InstallerError:
        return
    json.dumps(environment.as_dict())


HREF = st.text(max_size=20) | st.sampled_from(
    ["../x.whl", "http://[::1", "//h/p", "file:///x", "?", "mamba_ssm-1-py3-none-any.whl#sha256=0"]
)
PAGE = st.one_of(
    st.text(max_size=80),
    JSON.map(json.dumps),
    st.fixed_dictionaries({"files": JSON}).map(json.dumps),
    st.fixed_dictionaries(
        {"files": st.lists(st.fixed_dictionaries({"url": HREF, "hashes": JSON, "filename": HREF}), max_size=3)}
    ).map(json.dumps),
    st.fixed_dictionaries({"projects": st.lists(st.fixed_dictionaries({"name": st.text(max_size=5)}), max_size=3)}).map(
        json.dumps
    ),
    st.lists(st.fixed_dictionaries({"assets": JSON})).map(json.dumps),
    st.lists(HREF, max_size=4).map(lambda links: "<html>" + "".join(f'<a href="{link}">x</a>' for link in links)),
    st.lists(
        st.sampled_from(["<a", " href=", '"', "'", ">", "<!", "<![", "&#x", "]]>", "x.whl", "<meta "]), max_size=12
    ).map("".join),
)


@settings(max_examples=300)
@given(PAGE, st.sampled_from(["", "text/html", "application/json"]))
def test_any_page(text: str, content_type: str) -> None:
    for base in ("https://x.test/simple/mamba-ssm/", "file:///srv/simple/mamba-ssm/index.html"):
        for candidate in parse_page(text, base, content_type, "mamba_ssm", "x").wheels:
            assert base.startswith("file") or (candidate.location or "http").startswith("http")


@given(st.text(max_size=200))
def test_any_output_of_the_drivers_tools(text: str) -> None:
    probes.parse_nvidia_smi(text)
    probes.parse_proc_version(text)
    probes.parse_torch_version_file(text)


def test_any_choice_table(tmp_path_factory: Any) -> None:
    folder: Path = tmp_path_factory.mktemp("fuzz")

    @settings(max_examples=60, deadline=None)
    @given(
        st.fixed_dictionaries(
            {
                "bindings": st.lists(
                    st.dictionaries(st.sampled_from(["kind", "torch", "torch_floor", "cxx11abi"]), JSON)
                ),
                "cuda": JSON,
            }
        )
        | JSON
    )
    def check(table: Any) -> None:
        path = make_wheel(folder, files={"mamba_ssm/_native/bindings.json": json.dumps(table).encode()})
        read_contents(path)

    check()

"""The command line on replayed facts: nothing is probed, nothing is fetched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict

import pytest

from mamba_install import cli, pipeline
from mamba_install.errors import InstallRefusedError, NetworkError

FACTS = {
    "python": "3.12",
    "torch": "2.8.0+cu128",
    "torch_cuda": "12.8",
    "cxx11abi": True,
    "platform": "linux",
    "machine": "x86_64",
    "glibc": "2.35",
    "gpu_cc": "8.0",
    "driver": "570.124.06",
    "nvcc": None,
    "gcc": None,
}
WHEEL = "mamba_ssm-2.4.0+cu12-py3-none-manylinux_2_28_x86_64.whl"
OTHER = "mamba_ssm-2.4.0+cu13-py3-none-manylinux_2_28_x86_64.whl"


@pytest.fixture
def replay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dict[str, str]:
    monkeypatch.delenv("MAMBA_INSTALL_INDEX", raising=False)
    facts, index = tmp_path / "facts.json", tmp_path / "wheels.txt"
    facts.write_text(json.dumps(FACTS))
    index.write_text(f"{WHEEL}\n{OTHER}\n")
    return {"facts": str(facts), "index": str(index)}


def test_a_choice_in_text(replay: Dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--index", replay["index"], "--environment", replay["facts"], "--dry-run"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"wheel: {WHEEL}\n")
    assert f"{OTHER}\n    built for CUDA 13, this torch has CUDA 12.8" in out
    assert "torch 2.8.0+cu128 (CUDA 12.8, C++11 ABI 1)" in err
    assert "\033" not in out + err


def test_a_choice_as_one_object(replay: Dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["install", "--index", replay["index"], "--environment", replay["facts"], "--json"]) == 0
    out, err = capsys.readouterr()
    answer = json.loads(out)
    assert (answer["outcome"], answer["code"], answer["wheel"]) == ("wheel", None, WHEEL)
    assert answer["rejected"][0]["wheel"] == OTHER
    assert "nothing will be installed" in err


def test_nothing_fits(replay: Dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = tmp_path / "old.json"
    facts.write_text(json.dumps({**FACTS, "glibc": "2.17"}))
    command = ["--index", replay["index"], "--environment", str(facts)]
    assert cli.main(command) == 3
    out, err = capsys.readouterr()
    assert "nearest of 2:" in out
    assert "needs glibc 2.28, this system has 2.17" in out
    assert "code: GLIBC_TOO_OLD" in err
    assert err.rstrip().splitlines()[-1].startswith("hint: ")
    assert err.count("try: ") == 1
    assert cli.main([*command, "--json"]) == 3
    answer = json.loads(capsys.readouterr().out)
    assert (answer["outcome"], answer["code"], answer["wheel"]) == ("diagnosis", "GLIBC_TOO_OLD", None)
    assert answer["command"]
    assert answer["hint"]


def test_list_and_doctor(replay: Dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--index", replay["index"], "--environment", replay["facts"]]
    assert cli.main(["list", *where]) == 0
    assert f"{WHEEL}\tfits" in capsys.readouterr().out
    assert cli.main(["list", *where, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["fitting"][0]["wheel"] == WHEEL
    assert cli.main(["doctor", *where]) == 0
    out = capsys.readouterr().out
    assert "facts file" in out
    assert f"wheel: {WHEEL}" in out
    assert cli.main(["doctor", *where, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["facts"]["torch"] == "2.8.0+cu128"
    assert answer["decision"]["wheel"] == WHEEL


def test_doctor_shows_the_facts_although_the_index_fails(
    replay: Dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["doctor", "--environment", replay["facts"]]
    assert cli.main([*command, "--index", str(tmp_path / "absent")]) == 0
    assert "no decision: no such index" in capsys.readouterr().out
    assert cli.main(command) == 0
    assert "no index is named" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("raised", "code"), [(NetworkError("m", "h"), 5), (InstallRefusedError("m"), 10), (KeyboardInterrupt(), 130)]
)
def test_errors_become_exit_codes(
    raised: BaseException,
    code: int,
    replay: Dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*arguments: Any) -> Any:
        raise raised

    monkeypatch.setattr(pipeline, "follow", fail)
    assert cli.main(["--index", replay["index"], "--json"]) == code
    if code != 130:
        assert json.loads(capsys.readouterr().out)["outcome"] == "diagnosis"


def test_usage(replay: Dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--dry-run"]) == 2
    assert "no index is named" in capsys.readouterr().err
    assert cli.main(["--index", replay["index"], "--version", "abc"]) == 2
    for argv in (["nonsense"], ["--nonsense"]):
        with pytest.raises(SystemExit) as caught:
            cli.main(argv)
        assert caught.value.code == 2


def test_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    for argv in (["--help"], ["install", "--help"]):
        with pytest.raises(SystemExit) as caught:
            cli.main(argv)
        assert caught.value.code == 0
        assert "python -m mamba_install --index" in capsys.readouterr().out


def test_a_bar_for_terminals_and_lines_for_logs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    console = cli.Console()
    for done in (0, 500_000, 1_000_000):
        console.progress(done, 1_000_000)
    assert capsys.readouterr().err == "fetching 1.0 MB\nfetched 1.0 MB\n"
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    console = cli.Console()
    console.progress(500_000, 1_000_000)
    assert "50 %  0.5 of 1.0 MB" in capsys.readouterr().err
    console.error(NetworkError("m", "h"))
    assert "\033" not in capsys.readouterr().err


def test_the_pipeline_is_what_it_says() -> None:
    names = [step.__name__ for step in pipeline.INSTALLING]
    assert names == [
        "gather_facts",
        "collect_candidates",
        "decide",
        "check_target",
        "fetch_and_check",
        "install_and_prove",
    ]


def test_a_build_has_an_exit_code_of_its_own(
    replay: Dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    facts = tmp_path / "vendor.json"
    facts.write_text(json.dumps({**FACTS, "torch": "2.8.0a0+5228986c39.nv25.05"}))
    assert cli.main(["--index", replay["index"], "--environment", str(facts), "--json"]) == 4
    answer = json.loads(capsys.readouterr().out)
    assert (answer["outcome"], answer["code"]) == ("build", "NGC_CONTAINER")
    assert "--no-build-isolation" in answer["command"]


def test_doctor_on_an_error(replay: Dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "build.log"
    log.write_bytes(b"\xff\n/tmp/main.c:5:10: fatal error: Python.h: No such file or directory\n")
    command = ["doctor", "--environment", replay["facts"]]
    assert cli.main([*command, "--log", str(log)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("code: PYTHON_HEADERS_MISSING\ncause: ")
    assert "evidence: /tmp/main.c:5:10: fatal error" in out
    assert "python3.12-dev" in out
    assert cli.main([*command, "--log", str(log), "--lang", "zh"]) == 0
    assert "原因" in capsys.readouterr().out
    text = "libcudart.so.11.0: cannot open shared object file"
    assert cli.main([*command, "--index", replay["index"], "--text", text, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["outcome"], answer["code"], answer["wheel"]) == ("wheel", "CUDA_MAJOR_MISMATCH", WHEEL)
    assert answer["facts"]["torch"] == "2.8.0+cu128"
    assert answer["decision"]["wheel"] == WHEEL
    assert cli.main([*command, "--log", str(tmp_path / "absent")]) == 2
    assert "the log cannot be read" in capsys.readouterr().err

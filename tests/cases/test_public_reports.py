"""Public reports replayed through `doctor`: the facts and the error of each, and the outcome, code and wheel that are right.

Only the program's own command line is used: what passes here is what a user with that report would read.
"""

from __future__ import annotations

import contextlib
import fnmatch
import io
import json
import re
from pathlib import Path
from typing import Any, Dict, List

import pytest
import yaml

from mamba_install import cli

DATA = Path(__file__).parent / "data"
REPORTS: List[Dict[str, Any]] = yaml.safe_load((DATA / "reports.yaml").read_text(encoding="utf-8"))
# expectations that are not bent to: the evidence is the reason
DISPUTED: Dict[str, str] = {
    "A07": (
        "the torch of this report is 2.8.0a0+5228986c39.nv25.05, so its container is 25.05, and the listing holds "
        "`mamba_ssm-2.2.6+cu12torch25.05cxx11abiTRUE-cp312-cp312-linux_x86_64.whl` for it; the expected torch25.06 file was "
        "compiled against another pre-release, which is the very fault that the report is about"
    )
}


def marked(report: Dict[str, Any]) -> Any:
    reason = DISPUTED.get(report["id"])
    marks = [pytest.mark.xfail(strict=True, reason=reason)] if reason else []
    return pytest.param(report, id=report["id"], marks=marks)


@pytest.fixture(scope="module")
def listings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("listings")
    texts = {path.name: path.read_text(encoding="utf-8") for path in sorted((DATA / "listings").glob("*.txt"))}
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "all").write_text("\n".join(texts.values()), encoding="utf-8")
    return folder


def ask(command: str, report: Dict[str, Any], listings: Path, folder: Path, *more: str) -> Dict[str, Any]:
    facts = folder / "facts.json"
    facts.write_text(json.dumps(report["env"]), encoding="utf-8")
    arguments = [
        "--environment",
        str(facts),
        "--index",
        str(listings / report["listing"]),
        "--package",
        report["package"],
    ]
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        cli.main([command, *arguments, "--json", *more])
    answer: Dict[str, Any] = json.loads(out.getvalue())
    return answer


@pytest.mark.parametrize("report", [marked(report) for report in REPORTS])
def test_the_right_answer(report: Dict[str, Any], listings: Path, tmp_path: Path) -> None:
    log = tmp_path / "build.log"
    log.write_text(f"Collecting {report['package']}\n\x1b[31m{report['error']}\x1b[0m\n", encoding="utf-8")
    for more in (("--text", report["error"]), ("--log", str(log)), ("--text", report["error"], "--lang", "zh")):
        answer = ask("doctor", report, listings, tmp_path, *more)
        assert (answer["outcome"], answer["code"]) == (report["outcome"], report["code"])
        assert_wheel(answer["wheel"], report["wheel"])
        assert answer["command"]
        assert answer["message"]
        assert answer["hint"]


@pytest.mark.parametrize("report", [marked(report) for report in REPORTS if report["outcome"] == "wheel"])
def test_the_facts_alone_choose_the_same_wheel(report: Dict[str, Any], listings: Path, tmp_path: Path) -> None:
    answer = ask("install", report, listings, tmp_path, "--dry-run")
    assert answer["outcome"] == "wheel"
    assert_wheel(answer["wheel"], report["wheel"])


@pytest.mark.parametrize("report", [marked(report) for report in REPORTS if report["outcome"] == "build"])
def test_the_facts_alone_ask_for_a_build(report: Dict[str, Any], listings: Path, tmp_path: Path) -> None:
    answer = ask("install", report, listings, tmp_path, "--dry-run")
    assert (answer["outcome"], answer["code"]) == ("build", report["code"])


def assert_wheel(chosen: Any, expected: Any) -> None:
    if expected is None:
        assert chosen is None
    else:
        assert chosen is not None
        assert fnmatch.fnmatchcase(chosen, expected), chosen


def test_no_pattern_is_a_report_s_own_words() -> None:
    """A pattern is for a kind of fault: what is in only one report (numbers of versions, addresses, paths) is in none."""
    from mamba_install.faults import FAULTS

    for fault in FAULTS:
        for report in REPORTS:
            literal = re.escape(report["error"])
            assert literal not in fault.pattern
            assert len(fault.pattern) == 0 or fault.pattern != literal

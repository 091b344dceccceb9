"""Reading the self-check's report, and what stands in for one that is missing."""

from __future__ import annotations

import json

import pytest

from mamba_install.process import Finished
from mamba_install.verify import import_verdict, is_not_installed, is_without_selfcheck, read_report, table

CHECK = {
    "name": "selective_scan",
    "backend": "cpu",
    "device": "cpu",
    "dtype": "float32",
    "max_error": 1e-6,
    "threshold": 1e-4,
    "ok": True,
    "message": "",
}
REPORT = {"ok": True, "torch": "2.8.0", "backend_info": {}, "checks": [CHECK], "peak_memory_mb": 10.5}


def test_a_report_after_other_output() -> None:
    verdict = read_report(Finished(0, "{'a': a warning}\n" + json.dumps(REPORT, indent=1), ""))
    assert verdict.ok
    assert verdict.message == "1 checks passed against float64"
    lines = table(verdict.report)
    assert lines[0].split() == ["check", "backend", "device", "dtype", "max", "error", "threshold"]
    assert lines[1].split() == ["selective_scan", "cpu", "cpu", "float32", "1.00e-06", "1.00e-04", "ok"]
    assert lines[-1] == "peak memory mb: 10.5"


def test_a_failed_check_is_named() -> None:
    failed = {**CHECK, "ok": False, "max_error": 0.5}
    verdict = read_report(Finished(7, json.dumps({**REPORT, "ok": False, "checks": [CHECK, failed]}), ""))
    assert not verdict.ok
    assert verdict.message == "1 of 2 checks failed: selective_scan on cpu in float32, error 5.00e-01"
    assert "FAILED" in table(verdict.report)[2]


@pytest.mark.parametrize(
    ("done", "what"),
    [
        (Finished(-6, "", "terminate called"), "ended by signal 6"),
        (Finished(1, "", "Traceback\nImportError: undefined symbol: _ZN3c10"), "ImportError: undefined symbol"),
        (Finished(0, "[]", ""), "gave no report"),
        (Finished(0, '{"ok": "yes"}', ""), "gave no report"),
        (Finished(3, json.dumps(REPORT), ""), "exit status 3"),
        (Finished(0, json.dumps({"ok": False, "checks": []}), ""), "0 of 0 checks failed"),
    ],
)
def test_no_verdict_is_a_failure(done: Finished, what: str) -> None:
    verdict = read_report(done)
    assert not verdict.ok
    assert what in verdict.message


def test_a_package_without_a_self_check_is_only_imported() -> None:
    assert is_without_selfcheck(Finished(1, "", "python: No module named mamba_ssm.selfcheck"), "mamba_ssm")
    assert not is_without_selfcheck(Finished(1, "", "No module named torch"), "mamba_ssm")
    assert is_not_installed(Finished(1, "", "(ModuleNotFoundError: No module named 'mamba_ssm')"), "mamba_ssm")
    assert import_verdict(Finished(0, "", ""), "flash_attn").ok
    assert "no numbers" in import_verdict(Finished(0, "", ""), "flash_attn").message
    assert "boom" in import_verdict(Finished(1, "", "x\nImportError: boom\n"), "flash_attn").message


def test_right_numbers_from_the_reference_are_no_proof_of_a_wheel_with_kernels() -> None:
    info = {"binding": None, "binding_reason": "no binding for torch 2.8"}
    done = Finished(0, json.dumps({**REPORT, "backend_info": info}), "")
    assert read_report(done).ok
    assert "no binding for torch 2.8" in read_report(done).message
    assert not read_report(done, needs_binding=True).ok
    served = Finished(0, json.dumps({**REPORT, "backend_info": {"binding": "binding_stable.so"}}), "")
    assert read_report(served, needs_binding=True).ok

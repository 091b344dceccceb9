"""The self-check: its JSON, its verdict, and that it notices wrong numbers."""

from __future__ import annotations

import json

import pytest
import torch
from torch import Tensor

from mamba_ssm import oracle, selfcheck
from mamba_ssm._native import native


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert selfcheck.main(["--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] is True
    assert report["torch"] == torch.__version__
    assert report["peak_memory_mb"] > 1
    assert set(report["backend_info"]["backends"]) == {"cpu", "cuda"}
    backends = {check["backend"] for check in report["checks"]}
    assert backends >= ({"reference", "cpu"} if native().serves("cpu") else {"reference"})
    assert {check["dtype"] for check in report["checks"]} == {"float32", "float16", "bfloat16"}
    assert all({"name", "device", "dtype", "max_error", "threshold", "ok"} <= set(check) for check in report["checks"])


def test_wrong_numbers_are_noticed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    right = oracle.conv1d

    def wrong(*arguments: Tensor, **options: bool) -> Tensor:
        return right(*arguments, **options) + 0.01  # type: ignore[arg-type]

    monkeypatch.setattr(oracle, "conv1d", wrong)
    assert selfcheck.main([]) == selfcheck.FAILED == 7
    printed = capsys.readouterr().out
    assert "FAILED" in printed
    assert "checks that failed: " in printed


def test_nan_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def nan(*arguments: Tensor, **options: bool) -> Tensor:
        return torch.full_like(arguments[0], float("nan"))

    monkeypatch.setattr(selfcheck, "causal_conv1d_fn", nan)
    report = selfcheck.run()
    assert not report.ok
    json.loads(json.dumps(report.as_dict(), allow_nan=False))


def test_a_call_that_fails_is_a_failed_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAMBA_SSM_BACKEND", "cuda")
    report = selfcheck.run()
    if native().serves("cuda") and torch.cuda.is_available():
        assert report.ok
        return
    assert not report.ok
    assert all("Error: " in check.message for check in report.checks)

"""Tests of the ops on every backend that is here: the reference, and the kernels of an installed wheel or of the folder
in MAMBA_SSM_NATIVE_DIR. Nothing is built here."""

from __future__ import annotations

import pytest
import torch

from mamba_ssm import backend
from mamba_ssm._native import native


def _served() -> list[str]:
    served = ["reference"]
    if native().serves("cpu"):
        served.append("cpu")
    if native().serves("cuda") and torch.cuda.is_available():
        served.append("cuda")
    return served


@pytest.fixture(params=_served())
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where the inputs of a test live; the backend that the test runs on is forced."""
    monkeypatch.setenv(backend.BACKEND_VARIABLE, request.param)
    return "cuda" if request.param == "cuda" else "cpu"


@pytest.fixture(autouse=True)
def _fresh_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "_warned", set())

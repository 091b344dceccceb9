"""Unit tests neither open a socket nor start a process: what they test must not need either."""

from __future__ import annotations

import os
import socket
import subprocess
from typing import Any

import pytest


def _refuse(what: str) -> Any:
    def refused(*args: object, **kwargs: object) -> None:
        raise AssertionError(f"a unit test tried to {what}: move it to tests/integration or pass a fake")

    return refused


@pytest.fixture(autouse=True)
def no_network_no_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket.socket, "connect", _refuse("open a connection"))
    monkeypatch.setattr(socket, "create_connection", _refuse("open a connection"))
    monkeypatch.setattr(subprocess.Popen, "__init__", _refuse("start a process"))
    monkeypatch.setattr(os, "system", _refuse("start a process"))

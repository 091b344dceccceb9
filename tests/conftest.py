"""The wheelhouse under test: built once by `scripts.run_tests`, which says where it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def wheelhouse() -> Path:
    folder = os.environ.get("MAMBA_TEST_WHEELHOUSE")
    if not folder:
        pytest.fail("MAMBA_TEST_WHEELHOUSE is not set: run this by `nox -s tests`")
    return Path(folder)

"""Environment variables: honoured, and nonsense refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.errors import UsageError
from farm.settings import EARLIEST_ZIP_TIME, LATEST_ZIP_TIME, VARIABLES, Settings, default_jobs, parse_boolean
from farm.wheel import write_wheel
from tests.unit.farm.samples import ROOT


@pytest.mark.parametrize("text", ["1", "true", "TRUE", "Yes", "on", " ON "])
def test_true(text: str) -> None:
    assert parse_boolean("X", text)


@pytest.mark.parametrize("text", ["0", "false", "No", "OFF"])
def test_false(text: str) -> None:
    assert not parse_boolean("X", text)


@given(
    st.text(min_size=1).filter(lambda t: t.strip().lower() not in {"1", "0", "true", "false", "yes", "no", "on", "off"})
)
def test_nonsense_is_refused_with_what_would_do(text: str) -> None:
    with pytest.raises(UsageError, match="neither true nor false"):
        parse_boolean("MAMBA_FORCE_BUILD", text)


def test_everything_is_read() -> None:
    settings = Settings.from_environment(
        {
            "MAX_JOBS": "3",
            "NVCC_THREADS": "2",
            "CUDA_HOME": "/cuda",
            "MAMBA_SKIP_CUDA_BUILD": "true",
            "MAMBA_FORCE_BUILD": "ON",
            "TORCH_CUDA_ARCH_LIST": "8.0",
            "MAMBA_CUDA_ARCHITECTURES": "9.0",
            "MAMBA_TORCH_VERSIONS": "2.6, 2.13",
            "MAMBA_FARM_CACHE": "/cache",
            "SOURCE_DATE_EPOCH": "1700000000",
        }
    )
    assert (settings.jobs, settings.nvcc_threads, str(settings.cuda_home)) == (3, 2, "/cuda")
    assert settings.skip_cuda and settings.force_build
    assert (settings.torch_arch_list, settings.mamba_archs) == ("8.0", "9.0")
    assert settings.torch_versions == ("2.6", "2.13")
    assert (str(settings.cache), settings.epoch) == ("/cache", 1700000000)


def test_unset_and_empty_mean_the_default() -> None:
    settings = Settings.from_environment({"MAX_JOBS": "", "MAMBA_FORCE_BUILD": " ", "SOURCE_DATE_EPOCH": "1"})
    assert settings.jobs == default_jobs() >= 1
    assert not settings.force_build
    assert settings.epoch == EARLIEST_ZIP_TIME


@pytest.mark.parametrize("name", ["MAX_JOBS", "NVCC_THREADS"])
@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5", "٣"])
def test_counts_are_positive_numbers(name: str, text: str) -> None:
    with pytest.raises(UsageError, match=f"{name} is not a positive number: `{text}`"):
        Settings.from_environment({name: text})


@pytest.mark.parametrize("text, epoch", [("0", EARLIEST_ZIP_TIME), ("99999999999999", LATEST_ZIP_TIME)])
def test_the_time_stamp_is_one_that_a_wheel_can_hold(text: str, epoch: int, tmp_path: Path) -> None:
    assert Settings.from_environment({"SOURCE_DATE_EPOCH": text}).epoch == epoch
    write_wheel(tmp_path / "x.whl", {"x": b""}, "x-1.dist-info", epoch)


@pytest.mark.parametrize("text", ["-1", "today", "1.5"])
def test_a_time_stamp_is_a_number_of_seconds(text: str) -> None:
    with pytest.raises(UsageError, match=f"SOURCE_DATE_EPOCH is not a number of seconds since 1970: `{text}`"):
        Settings.from_environment({"SOURCE_DATE_EPOCH": text})


def test_the_readme_lists_the_variables() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for name in (
        "TORCH_CUDA_ARCH_LIST",
        "MAMBA_CUDA_ARCHITECTURES",
        "CUDA_HOME",
        "MAX_JOBS",
        "NVCC_THREADS",
        "MAMBA_SKIP_CUDA_BUILD",
        "MAMBA_FORCE_BUILD",
    ):
        assert name in VARIABLES
        assert f"`{name}`" in readme

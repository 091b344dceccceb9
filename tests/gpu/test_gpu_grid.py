"""What `nox -s gpu` does, as far as it goes without a GPU: the same rows on CPU tensors, and its messages."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path
from typing import List

import pytest
import torch

from scripts import gpu_cases, gpu_grid
from scripts.gpu_cases import Comparison, GridCase, compare, grid, run_case


def test_the_grid_covers_each_op_in_each_dtype() -> None:
    cases = grid()
    assert len({case.name for case in cases}) == len(cases)
    assert {(case.op, case.dtype) for case in cases} == {
        (op, dtype) for op in ("scan", "conv", "update") for dtype in gpu_cases.DTYPES
    }
    convs = [case for case in cases if case.op == "conv"]
    for option in ("silu", "bias", "last"):
        assert {case.options[option] for case in convs} == {False, True}


@pytest.mark.parametrize("case", [case for case in grid() if case.length <= 16], ids=lambda case: case.name)
def test_short_rows_are_right_on_the_cpu(case: GridCase) -> None:
    results = run_case(case, "cpu")
    assert [each for each in results if each.ratio > 1] == []
    assert any(each.name == "out" for each in results)
    assert case.op == "update" or sum(each.name.startswith("d") for each in results) >= 2


def test_a_wrong_element_fails_its_row() -> None:
    case = GridCase("scan", "float32", 8, {"groups": 1})
    right = torch.ones(5, dtype=torch.float64)
    assert compare(case, "out", right.float(), right).ratio == 0
    wrong = right.clone()
    wrong[2] += 0.01
    found = compare(case, "out", wrong, right)
    assert found.error == pytest.approx(0.01)
    assert found.ratio == pytest.approx(0.01 / (2e-3 + 6e-4))
    wrong[2] = float("nan")
    assert compare(case, "out", wrong, right).ratio == float("inf")
    assert compare(case, "out", right[:3], right).ratio == float("inf")


def test_a_moved_state_must_be_exact() -> None:
    case, state = GridCase("update", "float16", 1, {"width": 4}), torch.ones(3)
    assert compare(case, "conv_state", state, state).ratio == 0
    assert compare(case, "conv_state", state + 1e-6, state).ratio == float("inf")


def test_failures_are_named_and_the_worst_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [GridCase("scan", "float32", length) for length in (1, 2, 3)]

    def run(case: GridCase, device: str) -> List[Comparison]:
        if case.length == 3:
            raise RuntimeError("the driver failed\nmore")
        return [Comparison("out", 0.5 * case.length, 0.75 * case.length)]

    monkeypatch.setattr(gpu_cases, "grid", lambda: cases)
    monkeypatch.setattr(gpu_cases, "run_case", run)
    rows, failed = gpu_grid.compare_grid("cpu", float("inf"))
    assert rows == [["scan float32 out", "3", "1.00e+00", "1.500"]]
    assert failed == [
        "scan float32 length=2: `out` is off by 1, 1.5 of the allowed",
        "scan float32 length=3: the driver failed",
    ]
    assert gpu_grid.format_rows(("a", "b"), [["x", "10"], ["yy", "2"]]) == "a    b\nx   10\nyy   2"
    assert all("not run" in line for line in gpu_grid.compare_grid("cpu", 0.0)[1])


def test_without_a_gpu_it_says_so(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu_grid.main([]) == 3
    said = capsys.readouterr().err
    assert said.startswith("gpu: there is nothing to run on: torch ")
    assert "\nhint: " in said


def test_a_wheel_that_is_not_there_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        gpu_grid.main(["--wheel", str(tmp_path / "none.whl")])
    assert ended.value.code == 2
    assert "there is no such wheel" in capsys.readouterr().err


def test_a_wheel_comes_first_and_else_the_checkout_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(gpu_grid.ROOT), "/elsewhere"])
    wheel = tmp_path / "mamba_ssm.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("mamba_ssm/__init__.py", "")
    gpu_grid.use_wheel(wheel, tmp_path / "unpacked")
    assert sys.path[0] == str(tmp_path / "unpacked")
    assert (tmp_path / "unpacked" / "mamba_ssm" / "__init__.py").is_file()
    monkeypatch.setenv("MAMBA_SSM_NATIVE_DIR", "there")
    gpu_grid.use_installed()
    assert str(gpu_grid.ROOT) in sys.path
    monkeypatch.delenv("MAMBA_SSM_NATIVE_DIR")
    gpu_grid.use_installed()
    assert sys.path == [str(tmp_path / "unpacked"), "/elsewhere"]

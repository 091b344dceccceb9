"""The selective scan against the oracle, one thing varied at a time."""

from __future__ import annotations

from typing import Dict, Tuple

import pytest
from tests.kernels_cpu.abi import DTYPES, Kernels
from tests.kernels_cpu.scans import Case, check_scan

ISAS = ("baseline", "avx2", "avx512")


@pytest.fixture(params=ISAS)
def isa(request: pytest.FixtureRequest, every_isa: Dict[str, Kernels]) -> Kernels:
    if request.param not in every_isa:
        pytest.skip(f"this CPU has no {request.param}")
    return every_isa[request.param]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length", [1, 2, 7, 16, 17, 65, 257, 1000])
def test_lengths(isa: Kernels, dtype: str, length: int) -> None:
    check_scan(isa, Case(dtype=dtype, length=length))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("state", [1, 3, 16, 64, 256])
def test_states(isa: Kernels, dtype: str, state: int) -> None:
    check_scan(isa, Case(dtype=dtype, state=state))


@pytest.mark.parametrize("dim", [1, 4, 8, 16, 24, 70])
def test_dims(isa: Kernels, dim: int) -> None:
    check_scan(isa, Case(dim=dim, batch=3))


@pytest.mark.parametrize("groups", [1, 2, 3])
@pytest.mark.parametrize("variable_B,variable_C", [(False, False), (False, True), (True, False), (True, True)])
def test_groups_and_constant_weights(isa: Kernels, groups: int, variable_B: bool, variable_C: bool) -> None:
    check_scan(isa, Case(dim=54, groups=groups, variable_B=variable_B, variable_C=variable_C, state=5))


OPTIONS = Case().options


@pytest.mark.parametrize("without", OPTIONS)
def test_without_one_option(isa: Kernels, without: str) -> None:
    check_scan(isa, Case(dim=20, options=tuple(each for each in OPTIONS if each != without)))


@pytest.mark.parametrize("only", [(), *((each,) for each in OPTIONS)], ids=str)
def test_only_one_option(isa: Kernels, only: Tuple[str, ...]) -> None:
    check_scan(isa, Case(dim=20, options=only))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["channel-first", "channel-last", "strided", "reversed"])
def test_layouts(isa: Kernels, dtype: str, layout: str) -> None:
    check_scan(isa, Case(dim=37, length=70, dtype=dtype, layout=layout))


def test_positive_A_grows(isa: Kernels) -> None:
    check_scan(isa, Case(length=40, scale_A=1.0))

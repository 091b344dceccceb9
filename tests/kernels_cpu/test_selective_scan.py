"""The selective scan against the oracle, one thing varied at a time."""

from __future__ import annotations

from typing import Any, Dict, Tuple

import numpy as np
import pytest

from tests.kernels_cpu import oracle
from tests.kernels_cpu.abi import DTYPES, Kernels
from tests.kernels_cpu.scans import Case, check_scan, make_arguments, run_scan, wide_arguments


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length", [1, 2, 7, 16, 17, 65, 257, 1000])
def test_lengths(isa: Kernels, dtype: str, length: int) -> None:
    check_scan(isa, Case(dtype=dtype, length=length))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("state", [1, 3, 16, 64, 256])
def test_states(isa: Kernels, dtype: str, state: int) -> None:
    check_scan(isa, Case(dtype=dtype, state=state))


@pytest.mark.parametrize("state", [33, 64, 130, 256])
@pytest.mark.parametrize("length", [31, 128, 300])
@pytest.mark.parametrize("variable_B", [False, True])
def test_states_between_checkpoints(isa: Kernels, state: int, length: int, variable_B: bool) -> None:
    """Beyond 32 states a checkpoint serves several chunks."""
    check_scan(isa, Case(batch=1, dim=18, state=state, length=length, variable_B=variable_B))


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


def _reference(case: Case, arguments: Dict[str, Any]) -> Dict[str, Any]:
    """Out and last state by plain float32 arithmetic, which says where infinities and NaN belong."""
    with np.errstate(all="ignore"):
        wide = {key: None if x is None else x.astype(np.float32) for key, x in wide_arguments(case, arguments).items()}
        out, last, _ = oracle.selective_scan(wide, "softplus" in case.options)
        return {"out": out, "last_state": last}


@pytest.mark.parametrize("name", ["u", "delta", "B", "C", "z"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("options", [("softplus",), ("z", "D", "delta_bias", "softplus")], ids=["few", "many"])
def test_not_finite_arguments(isa: Kernels, name: str, value: float, options: Tuple[str, ...]) -> None:
    """Each output is NaN, infinite or finite where the definition's is; later steps and other channels included."""
    case = Case(batch=1, dim=20, length=24, options=(*options, "z") if name == "z" else options)
    arguments = make_arguments(case)
    changed = arguments[name]
    assert changed is not None
    changed[(0, 0, 1, 9) if name in "BC" else (0, 3, 9)] = value
    expected, got = _reference(case, arguments), run_scan(isa, case, arguments, backward=False)
    for key, array in expected.items():
        assert np.array_equal(np.isnan(got[key]), np.isnan(array)), key
        infinite = np.isinf(array)
        assert np.array_equal(np.isinf(got[key]), infinite), key
        assert np.array_equal(got[key][infinite], array[infinite]), key


def test_a_nan_reaches_the_gradients(isa: Kernels) -> None:
    case = Case(batch=1, dim=20, length=24)
    arguments = make_arguments(case)
    dout = arguments["dout"]
    assert dout is not None
    dout[0, 3, 9] = np.nan
    got = run_scan(isa, case, arguments)
    assert np.isnan(got["du"][0, 3, :10]).all() and np.isfinite(got["du"][0, 3, 10:]).all()
    assert np.isfinite(np.delete(got["du"], 3, axis=1)).all()
    assert np.isnan(got["dA"][3]).all() and np.isfinite(np.delete(got["dA"], 3, axis=0)).all()
    assert np.isnan(got["dB"][..., :10]).all() and np.isfinite(got["dB"][..., 10:]).all()
    assert np.isnan(got["dC"][..., 9]).all()


def test_positive_A_overflows_to_infinity(isa: Kernels) -> None:
    case = Case(batch=1, dim=20, length=24, scale_A=60.0, options=("softplus",))
    arguments = make_arguments(case)
    delta = arguments["delta"]
    assert delta is not None
    delta[...] = 5.0
    expected, got = _reference(case, arguments), run_scan(isa, case, arguments, backward=False)
    assert np.isinf(expected["last_state"]).any()
    for key, array in expected.items():
        assert np.array_equal(np.isfinite(got[key]), np.isfinite(array)), key


def test_long_memory_keeps_its_accuracy(isa: Kernels) -> None:
    """Decays near 1 over many steps: an exponential that errs to one side would show."""
    check_scan(isa, Case(batch=1, dim=16, length=1000, state=16, scale_A=-0.02))

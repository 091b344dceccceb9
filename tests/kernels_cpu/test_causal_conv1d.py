"""The causal convolution against the oracle."""

from __future__ import annotations

import ctypes
from typing import Any, Dict, Tuple

import numpy as np
import pytest

from tests.kernels_cpu import oracle
from tests.kernels_cpu.abi import (
    DTYPES,
    Conv,
    ConvBackward,
    ConvUpdate,
    Kernels,
    address,
    decode,
    encode,
    unlike,
    view,
)
from tests.kernels_cpu.scans import TOLERANCE, lay_out

Array = Any


def check_conv(
    kernels: Kernels,
    shape: Tuple[int, int, int],
    width: int = 4,
    dtype: str = "float32",
    weight_dtype: str = "float32",
    layout: str = "channel-first",
    silu: bool = True,
    has_bias: bool = True,
    threads: int = 1,
) -> Dict[str, Array]:
    """Compares forward and backward, and returns what came."""
    random = np.random.default_rng(1)
    batch, dim, length = shape
    x, dout = (lay_out(encode(random.standard_normal(shape), dtype), layout) for _ in range(2))
    weight = encode(random.standard_normal((dim, width)), weight_dtype)
    bias = encode(random.standard_normal(dim), weight_dtype) if has_bias else None
    out, dx = (lay_out(unlike(shape, dtype), layout) for _ in range(2))
    dweight, dbias = unlike((dim, width), "float32"), unlike((dim,), "float32") if has_bias else None
    params = Conv(batch, dim, length, width, DTYPES[dtype], DTYPES[weight_dtype], int(silu))
    params.x, params.out, params.weight, params.bias = view(x), view(out), view(weight), view(bias)
    kernels.call("causal_conv1d_fwd", params, threads)
    back = ConvBackward(params, view(dout), view(dx), address(dweight), address(dbias))
    kernels.call("causal_conv1d_bwd", back, threads)

    wide = decode(x, dtype), decode(weight, weight_dtype), None if bias is None else decode(bias, weight_dtype), silu
    expected_dx, expected_dweight, expected_dbias = oracle.causal_conv1d_gradients(*wide, decode(dout, dtype))
    pairs = {
        "out": (decode(out, dtype), oracle.causal_conv1d(*wide)[0], TOLERANCE[dtype]),
        "dx": (decode(dx, dtype), expected_dx, TOLERANCE[dtype]),
        "dweight": (dweight, expected_dweight, TOLERANCE["float32"]),
    }
    if dbias is not None:
        pairs["dbias"] = (dbias, expected_dbias, TOLERANCE["float32"])
    for name, (got, expected, limit) in pairs.items():
        error = np.abs(got - expected).max() / max(np.abs(expected).max(), 1e-3)
        assert error <= limit, f"{name}: error {error:.2e} of the largest element"
    return {"out": out, "dx": dx, "dweight": dweight, "dbias": dbias}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length", [1, 2, 3, 4, 16, 63, 64, 65, 67, 130, 300])
def test_lengths(isa: Kernels, dtype: str, length: int) -> None:
    check_conv(isa, (2, 19, length), dtype=dtype)


@pytest.mark.parametrize("width", [2, 3, 4])
@pytest.mark.parametrize("silu", [False, True])
@pytest.mark.parametrize("has_bias", [False, True])
def test_options(isa: Kernels, width: int, silu: bool, has_bias: bool) -> None:
    check_conv(isa, (2, 5, 70), width=width, silu=silu, has_bias=has_bias)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("weight_dtype", DTYPES)
def test_dtypes_are_independent(isa: Kernels, dtype: str, weight_dtype: str) -> None:
    check_conv(isa, (1, 17, 40), dtype=dtype, weight_dtype=weight_dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["channel-first", "channel-last", "strided", "reversed"])
def test_layouts(isa: Kernels, dtype: str, layout: str) -> None:
    check_conv(isa, (2, 37, 70), dtype=dtype, layout=layout)


def test_threads_change_nothing(isa: Kernels) -> None:
    results = [check_conv(isa, (3, 70, 900), threads=threads) for threads in (1, 2, 3)]
    for other in results[1:]:
        for name, array in results[0].items():
            assert array.tobytes() == other[name].tobytes(), name


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "width,state_length,length", [(2, 1, 1), (3, 2, 5), (4, 3, 1), (4, 4, 2), (4, 7, 3), (4, 3, 130)]
)
def test_update_continues_the_convolution(isa: Kernels, dtype: str, width: int, state_length: int, length: int) -> None:
    random = np.random.default_rng(2)
    history = encode(random.standard_normal((2, 21, state_length)), dtype)
    x = lay_out(encode(random.standard_normal((2, 21, length)), dtype), "strided")
    weight, bias = encode(random.standard_normal((21, width)), "float32"), encode(random.standard_normal(21), "float32")
    state, out = lay_out(history.copy(), "channel-last"), unlike((2, 21, length), dtype)
    params = ConvUpdate(2, 21, length, width, state_length, DTYPES[dtype], DTYPES["float32"], 1)
    params.x, params.out, params.conv_state = view(x), view(out), view(state)
    params.weight, params.bias = view(weight), view(bias)
    isa.call("causal_conv1d_update", params)
    sequence = np.concatenate([history, x], axis=2)
    assert np.array_equal(state, sequence[:, :, -state_length:])
    whole, _ = oracle.causal_conv1d(decode(sequence, dtype), weight.astype(float), bias.astype(float), True)
    expected = whole[:, :, -length:]
    assert np.abs(decode(out, dtype) - expected).max() <= TOLERANCE[dtype] * np.abs(expected).max()


def test_not_finite_inputs_stay_where_they_are(isa: Kernels) -> None:
    """An infinity reaches the outputs and the gradients that see it, and no others."""
    dim, length = 3, 70
    x = np.ones((1, dim, length), np.float32)
    x[0, 1, -1], x[0, 2, 10] = np.inf, np.nan
    weight, out = np.ones((dim, 4), np.float32), unlike((1, dim, length), "float32")
    params = Conv(1, dim, length, 4, 0, 0, 0, view(x), view(out), view(weight))
    isa.call("causal_conv1d_fwd", params)
    assert np.isfinite(out[0, 0]).all()
    assert np.isposinf(out[0, 1, -1]) and np.isfinite(out[0, 1, :-1]).all()
    assert np.isnan(out[0, 2, 10:14]).all() and np.isfinite(np.delete(out[0, 2], range(10, 14))).all()
    dweight, dx, dout = unlike((dim, 4), "float32"), unlike(x.shape, "float32"), np.ones_like(x)
    isa.call("causal_conv1d_bwd", ConvBackward(params, view(dout), view(dx), address(dweight), ctypes.c_void_p()))
    assert np.isfinite(dx).all()
    assert np.isfinite(dweight[1, :3]).all() and np.isposinf(dweight[1, 3])

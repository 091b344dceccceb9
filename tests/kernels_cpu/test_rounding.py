"""Every float16 and bfloat16 value passes through the kernels, and results are rounded as numpy rounds them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.kernels_cpu.abi import DTYPES, Conv, Kernels, decode, encode, storage, unlike, view

Array = Any
COUNT = 1 << 16


def scaled(kernels: Kernels, patterns: Array, factor: float, dtype: str, layout: str) -> Array:
    """Each item times `factor`, by a convolution of length 1, bits in and bits out."""
    weight = np.zeros((COUNT, 2), np.float32)
    weight[:, 1] = factor
    step = 3 if layout == "strided" else 1
    x, out = np.zeros(COUNT * step, storage(dtype))[::step], np.zeros(COUNT * step, storage(dtype))[::step]
    x[...], out[...] = patterns, unlike((COUNT,), dtype)
    data = (1, COUNT, 1)
    params = Conv(*data, 2, DTYPES[dtype], 0, 0, view(x.reshape(data)), view(out.reshape(data)), view(weight))
    # A length of 1 leaves numpy free in its stride; any but 1 makes neighbouring channels one vector.
    for each in (params.x, params.out):
        each.stride[2] = COUNT * step
    kernels.call("causal_conv1d_fwd", params)
    return out


@pytest.mark.parametrize("layout", ["dense", "strided"])
@pytest.mark.parametrize("factor", [1.0, 1.0 / 3.0, 1.0009765625, 65537.0, 1e-30], ids=str)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_rounds_to_nearest_even(isa: Kernels, dtype: str, factor: float, layout: str) -> None:
    patterns = np.arange(COUNT, dtype=np.uint16).view(storage(dtype))
    with np.errstate(all="ignore"):
        values = decode(patterns, dtype).astype(np.float32)
        expected = encode(values * np.float32(factor), dtype).view(np.uint16)
    got = scaled(isa, patterns, factor, dtype, layout).view(np.uint16)
    nan = np.isnan(values)
    with np.errstate(invalid="ignore"):
        assert np.isnan(decode(got[nan].view(storage(dtype)), dtype)).all()
    # The sign of a zero depends on whether the sum, which starts from +0, is rounded with the product.
    assert np.array_equal(*(np.where(each == 0x8000, 0, each)[~nan] for each in (got, expected)))

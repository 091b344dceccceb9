"""The CUDA causal convolution, launcher and kernels, on the emulated GPU against float64."""

from __future__ import annotations

from typing import Optional

import numpy as np
import pytest

from tests.kernels import abi, reference
from tests.kernels.arrays import LAYOUTS, Floats, Memory, assert_close, decode, encode, pointer_of, view_of
from tests.kernels.conftest import ORDERS

OUT = {"float32": 2e-5, "float16": 2e-3, "bfloat16": 1.2e-2}
SUMS = 5e-5


def _rounded(random: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Floats:
    return decode(encode(random.normal(0, 1, shape), dtype), dtype)


def check(
    kernels: abi.Kernels, memory: Memory, dtype: str, weight_dtype: str, length: int, width: int, layout: str,
    silu: bool, with_bias: bool, batch: int = 2, dim: int = 5,
) -> None:  # fmt: skip
    """Forward and backward."""
    random = np.random.default_rng(length * 10 + width)
    x, dout = _rounded(random, (batch, dim, length), dtype), _rounded(random, (batch, dim, length), dtype)
    weight = _rounded(random, (dim, width), weight_dtype)
    bias: Optional[Floats] = _rounded(random, (dim,), weight_dtype) if with_bias else None
    params = abi.CausalConv1d(
        batch=batch, dim=dim, length=length, width=width, dtype=abi.DTYPES.index(dtype),
        weight_dtype=abi.DTYPES.index(weight_dtype), silu=silu,
    )  # fmt: skip
    out = memory.output("out", x.shape, dtype, layout)
    params.x, params.out = memory.input("x", x, dtype, layout).view(), out.view()
    params.weight = memory.input("weight", weight, weight_dtype, layout).view()
    params.bias = view_of(None if bias is None else memory.input("bias", bias, weight_dtype, layout))
    kernels.call("causal_conv1d_fwd", params)
    assert_close("out", out.values(), reference.causal_conv1d(x, weight, bias, silu), OUT[dtype])

    results = {
        "dx": memory.output("dx", x.shape, dtype, layout),
        "dweight": memory.output("dweight", weight.shape),
        "dbias": memory.output("dbias", (dim,)) if with_bias else None,
    }
    backward = abi.CausalConv1dBackward(
        forward=params, dout=memory.input("dout", dout, dtype, layout).view(), dx=view_of(results["dx"]),
        dweight=pointer_of(results["dweight"]), dbias=pointer_of(results["dbias"]),
    )  # fmt: skip
    kernels.call("causal_conv1d_bwd", backward)
    expected = reference.causal_conv1d_gradients(dout, x, weight, bias, silu)
    for name, tensor in results.items():
        if tensor is not None:
            assert_close(name, tensor.values(), expected[name], OUT[dtype] if name == "dx" else SUMS)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("layout", ["contiguous", "transposed"])
@pytest.mark.parametrize("length", [1, 7, 65, 257, 2051])
@pytest.mark.parametrize("dtype", abi.DTYPES)
def test_every_kernel_in_every_order(
    kernels: abi.Kernels, memory: Memory, dtype: str, length: int, layout: str, order: str
) -> None:
    memory.driver.emulation_order(ORDERS.index(order), length)
    width = 2 + length % 3
    check(kernels, memory, dtype, "float32", length, width, layout, silu=True, with_bias=True)


@pytest.mark.parametrize("width", [2, 3, 4])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("silu", "with_bias"), [(False, False), (True, False), (False, True)])
def test_options_and_layouts(
    kernels: abi.Kernels, memory: Memory, silu: bool, with_bias: bool, layout: str, width: int
) -> None:
    check(kernels, memory, "float16", "float16", 64, width, layout, silu, with_bias)
    check(kernels, memory, "float32", "bfloat16", 19, width, layout, silu, with_bias)


@pytest.mark.parametrize("weight_dtype", abi.DTYPES)
@pytest.mark.parametrize("dtype", abi.DTYPES)
def test_dtype_of_the_weight_is_its_own(kernels: abi.Kernels, memory: Memory, dtype: str, weight_dtype: str) -> None:
    check(kernels, memory, dtype, weight_dtype, 40, 4, "contiguous", silu=True, with_bias=True)


@pytest.mark.parametrize("layout", ["contiguous", "transposed"])
def test_many_channels_and_segments(kernels: abi.Kernels, memory: Memory, layout: str) -> None:
    check(kernels, memory, "float32", "float32", 150, 4, layout, silu=True, with_bias=True, batch=1, dim=200)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "strided"])
@pytest.mark.parametrize(("width", "state_length", "length"), [(4, 3, 1), (2, 5, 1), (3, 3, 2), (4, 4, 9)])
@pytest.mark.parametrize("dtype", abi.DTYPES)
def test_update(
    kernels: abi.Kernels,
    memory: Memory,
    dtype: str,
    width: int,
    state_length: int,
    length: int,
    layout: str,
    order: str,
) -> None:
    memory.driver.emulation_order(ORDERS.index(order), length)
    check_update(kernels, memory, dtype, width, state_length, length, layout)


def check_update(
    kernels: abi.Kernels, memory: Memory, dtype: str, width: int, state_length: int, length: int, layout: str
) -> None:
    random = np.random.default_rng(width)
    batch, dim, silu = 2, 70, length % 2 == 1
    x, past = _rounded(random, (batch, dim, length), dtype), _rounded(random, (batch, dim, state_length), dtype)
    weight, bias = _rounded(random, (dim, width), "float32"), _rounded(random, (dim,), "float32")
    params = abi.CausalConv1dUpdate(
        batch=batch, dim=dim, length=length, width=width, state_length=state_length, dtype=abi.DTYPES.index(dtype),
        weight_dtype=0, silu=silu,
    )  # fmt: skip
    state = memory.input("conv_state", past, dtype, layout, read_only=False)
    out = memory.output("out", x.shape, dtype, layout)
    params.x, params.out = memory.input("x", x, dtype, layout).view(), out.view()
    params.conv_state, params.weight = state.view(), memory.input("weight", weight).view()
    params.bias = memory.input("bias", bias).view() if length != 2 else abi.View()
    kernels.call("causal_conv1d_update", params)
    everything = np.concatenate([past, x], axis=2)
    expected = reference.causal_conv1d(everything, weight, bias if length != 2 else None, silu)[..., state_length:]
    assert_close("out", out.values(), expected, OUT[dtype])
    assert np.array_equal(state.values(), everything[..., -state_length:])


def test_infinite_inputs_reach_only_the_steps_they_belong_to(kernels: abi.Kernels, memory: Memory) -> None:
    x = np.zeros((1, 1, 16))
    x[..., 4] = np.inf
    params = abi.CausalConv1d(batch=1, dim=1, length=16, width=2)
    out = memory.output("out", x.shape)
    params.x, params.out = memory.input("x", x).view(), out.view()
    params.weight = memory.input("weight", np.ones((1, 2))).view()
    kernels.call("causal_conv1d_fwd", params)
    assert np.flatnonzero(~np.isfinite(out.values())).tolist() == [4, 5]


def test_an_empty_batch_zeroes_the_sums(kernels: abi.Kernels, memory: Memory) -> None:
    check(kernels, memory, "float32", "float32", 8, 4, "contiguous", silu=True, with_bias=True, batch=0)


@pytest.mark.parametrize(
    ("name", "params", "status", "words"),
    [
        ("causal_conv1d_fwd", abi.CausalConv1d(batch=1, dim=1, length=1, width=5), abi.UNSUPPORTED, "2, 3 or 4, got: `5`"),
        ("causal_conv1d_fwd", abi.CausalConv1d(batch=1, dim=1, length=0, width=4), abi.INVALID_ARGUMENT, "at least 1"),
        ("causal_conv1d_fwd", abi.CausalConv1d(batch=1, dim=1, length=1, width=4), abi.INVALID_ARGUMENT, "`x` is null"),
        (
            "causal_conv1d_fwd",
            abi.CausalConv1d(batch=1, dim=1, length=1, width=4, weight_dtype=7),
            abi.UNSUPPORTED,
            "dtype of the weight: `7`",
        ),
        (
            "causal_conv1d_update",
            abi.CausalConv1dUpdate(batch=1, dim=1, length=1, width=4, state_length=2),
            abi.INVALID_ARGUMENT,
            "at least width - 1 inputs, got: `2`",
        ),
    ],
)  # fmt: skip
def test_refused_arguments(kernels: abi.Kernels, name: str, params: object, status: int, words: str) -> None:
    with pytest.raises(abi.KernelError) as refused:
        kernels.call(name, params)
    assert refused.value.status == status
    assert words in str(refused.value)

"""The CUDA selective scan, launcher and kernels, on the emulated GPU against float64."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, replace
from typing import Any, Dict, Optional

import numpy as np
import pytest

from tests.kernels import abi, reference
from tests.kernels.arrays import Floats, Memory, Tensor, assert_close, decode, encode, pointer_of, view_of
from tests.kernels.conftest import ORDERS

OUT = {"float32": 2e-5, "float16": 2e-3, "bfloat16": 1.2e-2}  # rounding of the output dominates
SUMS = 5e-5  # outputs in float32 whatever the dtype
IN_DTYPE = ("out", "du", "ddelta", "dz")


@dataclass(frozen=True)
class Case:
    """One call, forward and backward."""

    dtype: str = "float32"
    batch: int = 2
    dim: int = 4
    length: int = 65
    state: int = 4
    groups: int = 1
    variable_B: bool = True
    variable_C: bool = True
    z: bool = True
    D: bool = True
    delta_bias: bool = True
    softplus: bool = True
    initial_state: bool = False
    dlast_state: bool = False
    layout: str = "contiguous"


def _inputs(case: Case) -> Dict[str, Floats]:
    random = np.random.default_rng(case.length * 1000 + case.state)
    rows, states = (case.batch, case.dim, case.length), (case.batch, case.dim, case.state)
    varying, constant = (case.batch, case.groups, case.state, case.length), (case.dim, case.state)
    delta = random.normal(0, 0.5, rows)
    values = {
        "u": random.normal(0, 1, rows),
        "delta": delta if case.softplus else np.abs(delta),
        "A": -0.5 * np.exp(random.normal(0, 0.5, constant)),
        "B": random.normal(0, 1, varying if case.variable_B else constant),
        "C": random.normal(0, 1, varying if case.variable_C else constant),
        "D": random.normal(0, 1, case.dim),
        "z": random.normal(0, 1, rows),
        "delta_bias": np.abs(random.normal(0, 0.3, case.dim)),
        "initial_state": random.normal(0, 1, states),
        "dlast_state": random.normal(0, 1, states),
        "dout": random.normal(0, 1, rows),
    }
    optional = ("D", "z", "delta_bias", "initial_state", "dlast_state")
    return {name: value for name, value in values.items() if name not in optional or getattr(case, name)}


def _dtype_of(case: Case, name: str) -> str:
    varying = {"B": case.variable_B, "C": case.variable_C}
    in_dtype = name in ("u", "delta", "z", "dout") or varying.get(name, False)
    return case.dtype if in_dtype else "float32"


def _params(case: Case, tensors: Dict[str, Tensor], outputs: Dict[str, Tensor]) -> abi.SelectiveScan:
    params = abi.SelectiveScan(
        batch=case.batch, dim=case.dim, length=case.length, state=case.state, groups=case.groups,
        dtype=abi.DTYPES.index(case.dtype), delta_softplus=case.softplus,
        variable_B=case.variable_B, variable_C=case.variable_C,
    )  # fmt: skip
    for name in ("u", "delta", "z", "A", "B", "C", "D", "delta_bias", "initial_state"):
        setattr(params, name, view_of(tensors.get(name)))
    params.out, params.last_state = outputs["out"].view(), outputs["last_state"].view()
    return params


def _gradient_tensors(case: Case, memory: Memory, inputs: Dict[str, Floats]) -> Dict[str, Optional[Tensor]]:
    rows, states = (case.batch, case.dim, case.length), (case.batch, case.dim, case.state)
    return {
        "du": memory.output("du", rows, case.dtype, case.layout),
        "ddelta": memory.output("ddelta", rows, case.dtype, case.layout),
        "dz": memory.output("dz", rows, case.dtype, case.layout) if case.z else None,
        "dA": memory.output("dA", (case.dim, case.state)),
        "dB": memory.output("dB", inputs["B"].shape),
        "dC": memory.output("dC", inputs["C"].shape),
        "dD": memory.output("dD", (case.dim,)) if case.D else None,
        "ddelta_bias": memory.output("ddelta_bias", (case.dim,)) if case.delta_bias else None,
        "dinitial_state": memory.output("dinitial_state", states) if case.initial_state else None,
    }


def run(kernels: abi.Kernels, memory: Memory, case: Case) -> Dict[str, Tensor]:
    """Forward and backward on the emulated GPU; each result is compared with the reference."""
    inputs = _inputs(case)
    tensors = {name: memory.input(name, value, _dtype_of(case, name), case.layout) for name, value in inputs.items()}
    outputs = {
        "out": memory.output("out", (case.batch, case.dim, case.length), case.dtype, case.layout),
        "last_state": memory.output("last_state", (case.batch, case.dim, case.state), "float32", case.layout),
    }
    params = _params(case, tensors, outputs)
    count = kernels.checkpoints(params)
    checkpoints = memory.output("checkpoints", (count,)) if count else None
    params.checkpoints = pointer_of(checkpoints)
    kernels.call("selective_scan_fwd", params)

    gradients = _gradient_tensors(case, memory, inputs)
    backward = abi.SelectiveScanBackward(
        forward=params, dout=tensors["dout"].view(), dlast_state=view_of(tensors.get("dlast_state"))
    )
    for name, tensor in gradients.items():
        in_view = name in ("du", "ddelta", "dz")
        setattr(backward, name, view_of(tensor) if in_view else pointer_of(tensor))
    kernels.call("selective_scan_bwd", backward)
    return {**outputs, **{name: tensor for name, tensor in gradients.items() if tensor is not None}}


def check(kernels: abi.Kernels, memory: Memory, case: Case) -> None:
    results = run(kernels, memory, case)
    rounded = {}
    for name, value in _inputs(case).items():
        dtype = _dtype_of(case, name)
        rounded[name] = decode(encode(value, dtype), dtype)
    expected = {key: value for part in reference.selective_scan(rounded, case.softplus) for key, value in part.items()}
    for name, tensor in results.items():
        tolerance = OUT[case.dtype] if name in IN_DTYPE else SUMS
        assert_close(name, tensor.values(), expected[name], tolerance)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("length", [1, 7, 65, 257, 2051])
@pytest.mark.parametrize("dtype", abi.DTYPES)
def test_every_kernel_in_every_order(kernels: abi.Kernels, memory: Memory, dtype: str, length: int, order: str) -> None:
    memory.driver.emulation_order(ORDERS.index(order), length)
    rare = length % 2 == 1 and dtype != "float16"
    case = Case(
        dtype=dtype, length=length, groups=2 if length < 65 else 1, initial_state=rare, dlast_state=rare, state=3,
        batch=1 if length > 1000 else 2, dim=2 if length > 1000 else 4,
    )  # fmt: skip
    check(kernels, memory, case)


BASE = Case(length=72, initial_state=True, dlast_state=True, groups=2)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("option", ["z", "D", "delta_bias", "softplus", "initial_state", "dlast_state"])
def test_each_option_left_out(kernels: abi.Kernels, memory: Memory, option: str, dtype: str) -> None:
    memory.driver.emulation_order(2, 3)
    absent: Any = {option: False}
    check(kernels, memory, replace(replace(BASE, dtype=dtype), **absent))


@pytest.mark.parametrize("dtype", abi.DTYPES)
@pytest.mark.parametrize(("variable_B", "variable_C"), [(False, False), (True, False), (False, True)])
def test_constant_projections(
    kernels: abi.Kernels, memory: Memory, variable_B: bool, variable_C: bool, dtype: str
) -> None:
    memory.driver.emulation_order(2, 4)
    check(kernels, memory, replace(BASE, dtype=dtype, variable_B=variable_B, variable_C=variable_C, length=300))


@pytest.mark.parametrize("dtype", abi.DTYPES)
@pytest.mark.parametrize("layout", ["transposed", "strided", "padded"])
def test_layouts(kernels: abi.Kernels, memory: Memory, layout: str, dtype: str) -> None:
    check(kernels, memory, replace(BASE, dtype=dtype, layout=layout))
    check(kernels, memory, replace(BASE, dtype=dtype, layout=layout, variable_B=False, variable_C=False))


@pytest.mark.parametrize("state", [1, 33, 256])
def test_states(kernels: abi.Kernels, memory: Memory, state: int) -> None:
    check(kernels, memory, replace(BASE, state=state, length=9, batch=1))


def test_checkpoints_join_many_chunks(kernels: abi.Kernels, memory: Memory) -> None:
    check(kernels, memory, replace(BASE, length=5000, state=1, batch=1, dim=1, groups=1))


def test_more_rows_than_a_grid_axis_other_than_x_could_hold(kernels: abi.Kernels, memory: Memory) -> None:
    rows = 65536 + 3
    values = np.linspace(-1, 1, rows).reshape(1, rows, 1)
    ones = np.ones((rows, 1))
    params = abi.SelectiveScan(batch=1, dim=rows, length=1, state=1, groups=1)
    tensors = {
        "u": memory.input("u", values), "delta": memory.input("delta", np.ones_like(values)),
        "A": memory.input("A", -ones), "B": memory.input("B", ones), "C": memory.input("C", ones),
        "out": memory.output("out", values.shape),
    }  # fmt: skip
    for name, tensor in tensors.items():
        setattr(params, name, tensor.view())
    kernels.call("selective_scan_fwd", params)
    assert_close("out", tensors["out"].values(), values, 1e-6)


def test_an_empty_batch_zeroes_the_sums(kernels: abi.Kernels, memory: Memory) -> None:
    results = run(kernels, memory, Case(batch=0, dim=4, length=5))
    for name in ("dA", "dD", "ddelta_bias"):
        assert not results[name].values().any()


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"length": 0}, abi.INVALID_ARGUMENT, "the length must be at least 1, got: `0`"),
        ({"state": 257}, abi.UNSUPPORTED, "1 to 256 elements, got: `257`"),
        ({"groups": 3}, abi.INVALID_ARGUMENT, "dim must be a multiple of groups, got: `4, 3`"),
        ({"dtype": 3}, abi.UNSUPPORTED, "unknown dtype: `3`"),
        ({"batch": -1}, abi.INVALID_ARGUMENT, "must not be negative"),
        ({"batch": 1 << 40, "dim": 1 << 20}, abi.INVALID_ARGUMENT, "overflow 64 bits"),
        ({}, abi.INVALID_ARGUMENT, "`u` is null"),
    ],
)
def test_refused_arguments(kernels: abi.Kernels, change: Dict[str, int], status: int, words: str) -> None:
    params = abi.SelectiveScan(batch=2, dim=4, length=5, state=2, groups=1)
    for name, value in change.items():
        setattr(params, name, value)
    with pytest.raises(abi.KernelError) as refused:
        kernels.call("selective_scan_fwd", params)
    assert refused.value.status == status
    assert words in str(refused.value)
    assert str(refused.value).startswith("selective_scan_fwd: ")


def test_backward_over_several_chunks_needs_checkpoints(kernels: abi.Kernels) -> None:
    params = abi.SelectiveScanBackward()
    forward = params.forward
    forward.batch, forward.dim, forward.length, forward.state, forward.groups = 1, 1, 5000, 1, 1
    here = abi.View(ctypes.addressof(params))
    for name in ("u", "delta", "A", "B", "C"):
        setattr(forward, name, here)
    params.dout = params.du = params.ddelta = here
    params.dA = params.dB = params.dC = ctypes.addressof(params)
    with pytest.raises(abi.KernelError, match="5000 steps needs the forward call's checkpoints"):
        kernels.call("selective_scan_bwd", params)

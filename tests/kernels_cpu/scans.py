"""Selective scans for the tests: random arguments in any dtype and layout, a call, and the comparison."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import Any, Dict, Optional, Tuple

import numpy as np

from tests.kernels_cpu import oracle
from tests.kernels_cpu.abi import DTYPES, Kernels, Scan, ScanBackward, address, decode, encode, unlike, view

Array = Any


@dataclass
class Case:
    """What is asked of the kernels. `layout`: how (batch, dim, length) tensors lie in memory."""

    batch: int = 2
    dim: int = 5
    length: int = 33
    state: int = 4
    groups: int = 1
    dtype: str = "float32"
    variable_B: bool = True
    variable_C: bool = True
    options: Tuple[str, ...] = ("z", "D", "delta_bias", "softplus", "initial_state", "dlast_state")
    layout: str = "channel-first"
    seed: int = 0
    scale_A: float = -1.0
    arrays: Dict[str, Array] = field(default_factory=dict)  # given in place of random ones, float64


def lay_out(array: Array, layout: str) -> Array:
    """The same values as a view with other strides."""
    if layout == "channel-last":
        return np.ascontiguousarray(array.transpose(0, 2, 1)).transpose(0, 2, 1)
    if layout == "strided":
        roomy = np.full((array.shape[0], array.shape[1] + 1, 2 * array.shape[2] + 3), 7, array.dtype)
        inner = roomy[:, 1:, 1 : 1 + 2 * array.shape[2] : 2]
        inner[...] = array
        return inner
    if layout == "reversed":
        return np.ascontiguousarray(array[:, :, ::-1])[:, :, ::-1]
    return np.ascontiguousarray(array)


def make_arguments(case: Case) -> Dict[str, Optional[Array]]:
    """In memory, as the kernels get them."""
    random = np.random.default_rng(case.seed)
    data = (case.batch, case.dim, case.length)
    weights = (case.batch, case.groups, case.state, case.length)
    values: Dict[str, Optional[Array]] = {
        "u": random.standard_normal(data),
        "delta": 0.5 * random.random(data),
        "A": case.scale_A * (0.2 + random.random((case.dim, case.state))),
        "B": random.standard_normal(weights if case.variable_B else (case.dim, case.state)),
        "C": random.standard_normal(weights if case.variable_C else (case.dim, case.state)),
        "z": random.standard_normal(data),
        "D": random.standard_normal(case.dim),
        "delta_bias": 0.5 * random.random(case.dim) - 0.4,
        "initial_state": random.standard_normal((case.batch, case.dim, case.state)),
        "dout": random.standard_normal(data),
        "dlast_state": random.standard_normal((case.batch, case.dim, case.state)),
    }
    values.update(case.arrays)
    for name in ("z", "D", "delta_bias", "initial_state", "dlast_state"):
        if name not in case.options:
            values[name] = None
    low = {"u", "delta", "z", "dout"} | ({"B"} if case.variable_B else set()) | ({"C"} if case.variable_C else set())
    made: Dict[str, Optional[Array]] = {}
    for name, value in values.items():
        if value is None:
            made[name] = None
            continue
        stored = encode(value, case.dtype if name in low else "float32")
        made[name] = lay_out(stored, case.layout) if name in ("u", "delta", "z", "dout") else stored
    return made


def wide_arguments(case: Case, arguments: Dict[str, Optional[Array]]) -> Dict[str, Optional[Array]]:
    """The same in float64, for the oracle."""
    wide: Dict[str, Optional[Array]] = {}
    for name, array in arguments.items():
        is_data = name in ("u", "delta", "z", "dout") or (name in "BC" and array is not None and array.ndim == 4)
        wide[name] = None if array is None else decode(array, case.dtype if is_data else "float32")
    return wide


def run_scan(
    kernels: Kernels, case: Case, arguments: Dict[str, Optional[Array]], threads: int = 1, backward: bool = True
) -> Dict[str, Array]:
    """Every output of the forward and the backward call, as stored."""
    data, states = (case.batch, case.dim, case.length), (case.batch, case.dim, case.state)
    result: Dict[str, Array] = {
        "out": lay_out(unlike(data, case.dtype), case.layout),
        "last_state": unlike(states, "float32"),
    }
    shape = (case.batch, case.dim, case.length, case.state, case.groups)
    flags = (DTYPES[case.dtype], int("softplus" in case.options), int(case.variable_B), int(case.variable_C))
    params = Scan(*shape, *flags)
    for name in ["u", "delta", "z", "A", "B", "C", "D", "delta_bias", "initial_state"]:
        setattr(params, name, view(arguments[name]))
    params.out, params.last_state = view(result["out"]), view(result["last_state"])
    checkpoints = np.full(kernels.checkpoints(params) if backward else 0, np.nan, np.float32)
    params.checkpoints = address(checkpoints) if backward else None
    kernels.call("selective_scan_fwd", params, threads)
    if not backward:
        return result

    for name in ("du", "ddelta", "dz"):
        result[name] = lay_out(unlike(data, case.dtype), case.layout)
    for name in ("A", "B", "C", "D", "delta_bias"):
        array = arguments[name]
        if array is not None:
            result["d" + name] = unlike(array.shape, "float32")
    result["dinitial_state"] = unlike(states, "float32")
    if arguments["z"] is None:
        del result["dz"]
    back = ScanBackward(forward=params)
    back.dout, back.dlast_state = view(arguments["dout"]), view(arguments["dlast_state"])
    for name in ("du", "ddelta", "dz"):
        setattr(back, name, view(result.get(name)))
    for name in ["dA", "dB", "dC", "dD", "ddelta_bias", "dinitial_state"]:
        setattr(back, name, ctypes.c_void_p(address(result.get(name))))
    kernels.call("selective_scan_bwd", back, threads)
    return result


# Largest error that is allowed, in parts of the largest element: twice the step of the dtype, and float32's own sums.
TOLERANCE = {"float32": 4e-6, "float16": 2e-3, "bfloat16": 1.6e-2}


def check_scan(kernels: Kernels, case: Case, threads: int = 1) -> None:
    arguments = make_arguments(case)
    wide = wide_arguments(case, arguments)
    result = run_scan(kernels, case, arguments, threads)
    softplussed = "softplus" in case.options
    out, last, _ = oracle.selective_scan(wide, softplussed)
    expected = {"out": out, "last_state": last}
    expected.update(oracle.selective_scan_gradients(wide, softplussed, wide["dout"], wide["dlast_state"]))
    assert set(result) == set(expected)
    for name, stored in result.items():
        low = name in ("out", "du", "ddelta", "dz")
        got = decode(stored, case.dtype if low else "float32")
        error = np.abs(got - expected[name]).max() / max(np.abs(expected[name]).max(), 1e-3)
        # float16 and bfloat16 are the arguments' dtypes only; sums and states are float32 throughout.
        limit = TOLERANCE[case.dtype if low else "float32"]
        assert error <= limit, f"{name}: error {error:.2e} of the largest element in {case}"

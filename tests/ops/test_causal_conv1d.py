"""The convolution and its steps against the sum over taps in float64."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from mamba_ssm import oracle
from mamba_ssm._native import native
from mamba_ssm.backend import BackendError, forced_backend
from mamba_ssm.ops import causal_conv1d as ops
from tests.ops.comparing import CONV, WEIGHT, close, compare

# Their results are a tensor or a pair, as an argument says, which types cannot follow here.
causal_conv1d_fn: Any = ops.causal_conv1d_fn
causal_conv1d_ref: Any = ops.causal_conv1d_ref
causal_conv1d_update: Any = ops.causal_conv1d_update
causal_conv1d_update_ref: Any = ops.causal_conv1d_update_ref


@dataclass(frozen=True)
class Case:
    """One call; each row below varies one thing."""

    dtype: torch.dtype = torch.float32
    weight_dtype: torch.dtype = torch.float32
    batch: int = 2
    dim: int = 8
    length: int = 37
    width: int = 4
    bias: bool = True
    activation: str | None = "silu"
    channel_last: bool = False


BASE = Case()
CASES = [
    BASE,
    *(replace(BASE, dtype=dtype) for dtype in (torch.float16, torch.bfloat16)),
    *(replace(BASE, weight_dtype=dtype) for dtype in (torch.float16, torch.bfloat16)),
    replace(BASE, dtype=torch.bfloat16, weight_dtype=torch.bfloat16),
    *(replace(BASE, length=length) for length in (1, 2, 3, 4, 8, 16, 64, 129, 372)),
    *(replace(BASE, width=width) for width in (2, 3)),
    replace(BASE, width=2, length=1),
    *(replace(BASE, dim=dim) for dim in (1, 3, 65)),
    replace(BASE, bias=False),
    replace(BASE, activation=None),
    replace(BASE, activation="swish"),
    replace(BASE, channel_last=True),
    replace(BASE, channel_last=True, dtype=torch.float16, width=3),
]


def name_of(case: Case) -> str:
    changed = [f"{key}={value}" for key, value in vars(case).items() if value != getattr(BASE, key)]
    return " ".join(changed).replace("torch.", "") or "base"


def draw(case: Case) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(case.batch, case.dim, case.length, generator=generator).to(case.dtype)
    if case.channel_last:
        x = x.transpose(1, 2).contiguous().transpose(1, 2)
    inputs = {"x": x, "weight": torch.randn(case.dim, case.width, generator=generator).to(case.weight_dtype)}
    if case.bias:
        inputs["bias"] = torch.randn(case.dim, generator=generator).to(case.weight_dtype)
    return inputs


def plain(case: Case, **inputs: Tensor) -> Tensor:
    silu = case.activation is not None
    return oracle.conv1d(inputs.pop("x"), inputs.pop("weight"), inputs.pop("bias", None), silu, **inputs)


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_results_and_gradients(case: Case, device: str) -> None:
    rtol, atol = CONV[case.dtype]
    wide = CONV[case.weight_dtype]
    weight = (max(rtol, WEIGHT[0], wide[0]), max(atol, WEIGHT[1], wide[1]))
    compare(
        lambda **inputs: causal_conv1d_fn(**inputs, activation=case.activation),
        lambda **inputs: plain(case, **inputs),
        draw(case),
        (rtol, atol),
        {"weight": weight, "bias": weight},
        device,
    )


def test_a_channel_last_input_gives_a_channel_last_output(device: str) -> None:
    inputs = {name: value.to(device) for name, value in draw(replace(BASE, channel_last=True)).items()}
    if forced_backend() != "reference":
        assert causal_conv1d_fn(**inputs).stride(1) == 1


@pytest.mark.parametrize("length", [1, 2, 3, 20])
def test_initial_and_final_states(length: int, device: str) -> None:
    inputs = draw(replace(BASE, length=length))
    inputs["initial_states"] = torch.randn(2, 8, 3, generator=torch.Generator().manual_seed(1))
    compare(
        lambda **each: causal_conv1d_fn(**each, activation="silu"),
        lambda **each: plain(BASE, **each),
        inputs,
        CONV[torch.float32],
        {"weight": WEIGHT, "bias": WEIGHT},
        device,
    )
    here = {name: value.to(device) for name, value in inputs.items()}
    _, states = causal_conv1d_fn(**here, return_final_states=True)
    assert torch.equal(states, torch.cat([here["initial_states"], here["x"]], dim=-1)[..., -3:])
    memory = torch.empty_like(states)
    causal_conv1d_fn(**here, return_final_states=True, final_states_out=memory)
    assert torch.equal(memory, states)


def test_two_halves_are_the_whole(device: str) -> None:
    inputs = {name: value.to(device) for name, value in draw(BASE).items()}
    whole = causal_conv1d_fn(**inputs)
    x = inputs.pop("x")
    first, states = causal_conv1d_fn(x[..., :20], **inputs, return_final_states=True)
    second = causal_conv1d_fn(x[..., 20:], **inputs, initial_states=states)
    assert torch.allclose(torch.cat([first, second], dim=-1), whole, atol=1e-6)


def test_packed_sequences() -> None:
    inputs = draw(BASE)
    seq_idx = torch.tensor([[0] * 10 + [1] * 20 + [-1] * 7, [0] * 1 + [1] * 2 + [2] * 34], dtype=torch.int32)
    want = plain(BASE, **{name: value.double() for name, value in inputs.items()}, seq_idx=seq_idx)
    got = causal_conv1d_ref(**inputs, seq_idx=seq_idx, activation="silu")
    close("out", got, want, CONV[torch.float32])
    assert torch.equal(got[0, :, 30:], torch.zeros(8, 7))
    if native().serves("cpu"):
        with pytest.warns(RuntimeWarning, match="slow reference, since the cpu kernels do not serve `seq_idx`"):
            again = causal_conv1d_fn(**inputs, seq_idx=seq_idx, activation="silu")
    else:
        again = causal_conv1d_fn(**inputs, seq_idx=seq_idx, activation="silu")
    assert torch.equal(again, got)


def test_packed_sequences_are_refused_by_forced_kernels(device: str) -> None:
    inputs = {name: value.to(device) for name, value in draw(BASE).items()}
    seq_idx = torch.zeros(2, 37, dtype=torch.int32, device=device)
    if forced_backend() == "reference":
        assert torch.allclose(causal_conv1d_fn(**inputs, seq_idx=seq_idx), causal_conv1d_fn(**inputs))
        return
    with pytest.raises(BackendError, match="do not serve `seq_idx`\nhint"):
        causal_conv1d_fn(**inputs, seq_idx=seq_idx)


@pytest.mark.parametrize("width", [1, 5, 8])
def test_widths_of_the_reference_only(width: int) -> None:
    inputs = draw(replace(BASE, width=width))
    want = plain(replace(BASE, activation=None), **{name: value.double() for name, value in inputs.items()})
    if native().serves("cpu"):
        with pytest.warns(RuntimeWarning, match=f"a width of {width}"):
            got = causal_conv1d_fn(**inputs)
    else:
        got = causal_conv1d_fn(**inputs)
    close("out", got, want, CONV[torch.float32])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("columns", [3, 4, 7])
@pytest.mark.parametrize("steps", [1, 5])
def test_update(steps: int, columns: int, dtype: torch.dtype, device: str) -> None:
    case = replace(BASE, dtype=dtype, length=3 * steps)
    inputs = draw(case)
    want = plain(case, **{name: value.double() for name, value in inputs.items()})
    x, weight, bias = (inputs[name].to(device) for name in ("x", "weight", "bias"))
    memory = torch.zeros(2, 8, columns, dtype=dtype, device=device)
    parts = [
        causal_conv1d_update(x[..., t : t + steps], memory, weight, bias, "silu") for t in range(0, 3 * steps, steps)
    ]
    close("out", torch.cat(parts, dim=-1), want, CONV[dtype])
    seen = torch.cat([torch.zeros(2, 8, columns, dtype=dtype, device=device), x], dim=-1)
    assert torch.equal(memory, seen[..., -columns:])


def test_update_of_single_steps_and_of_a_strided_state(device: str) -> None:
    x, weight, bias = (draw(BASE)[name].to(device) for name in ("x", "weight", "bias"))
    plain_state = torch.randn(2, 8, 4, device=device)
    strided = plain_state.transpose(1, 2).contiguous().transpose(1, 2)
    expected = causal_conv1d_update_ref(x[..., 0], plain_state, weight, bias, "silu")
    assert expected.shape == (2, 8)
    assert torch.allclose(causal_conv1d_update(x[..., 0], strided, weight, bias, "silu"), expected, atol=1e-6)
    assert torch.equal(strided, plain_state)


def test_update_with_a_ring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAMBA_SSM_BACKEND", "reference")
    x, weight, bias = (draw(BASE)[name] for name in ("x", "weight", "bias"))
    ring, line = torch.zeros(2, 8, 5), torch.zeros(2, 8, 5)
    seen = torch.zeros(2, dtype=torch.int32)
    for start, stop in ((0, 1), (1, 4), (4, 11), (11, 12)):
        got = causal_conv1d_update(x[..., start:stop], ring, weight, bias, "silu", cache_seqlens=seen)
        want = causal_conv1d_update(x[..., start:stop], line, weight, bias, "silu")
        assert torch.allclose(got, want, atol=1e-6)
        seen += stop - start
    order = (torch.arange(5) + 12) % 5
    assert torch.equal(ring[..., order], line)


def test_update_of_chosen_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAMBA_SSM_BACKEND", "reference")
    x, weight, bias = (draw(replace(BASE, batch=3))[name] for name in ("x", "weight", "bias"))
    states = torch.randn(5, 8, 4)
    before = states.clone()
    entries = torch.tensor([4, -1, 0], dtype=torch.int32)
    got = causal_conv1d_update(x[..., 0], states, weight, bias, "silu", conv_state_indices=entries)
    chosen = before[[4, 0]]
    want = causal_conv1d_update(x[[0, 2], :, 0], chosen, weight, bias, "silu")
    assert torch.allclose(got[[0, 2]], want, atol=1e-6)
    assert torch.equal(got[1], torch.zeros(8))
    assert torch.equal(states[[4, 0]], chosen)
    assert torch.equal(states[1:4], before[1:4])


@pytest.mark.parametrize(
    "change, error, words",
    [
        ({"weight": [[0.0]]}, TypeError, "`weight` must be a tensor, got list"),
        ({"x": torch.zeros(2, 8)}, ValueError, "`x` must be (batch, dim, length), got the shape (2, 8)"),
        ({"weight": torch.zeros(7, 4)}, ValueError, "`weight` must have the shape (8, 4), got (7, 4)"),
        ({"bias": torch.zeros(7)}, ValueError, "`bias` must have the shape (8,), got (7,)"),
        ({"bias": torch.zeros(8).half()}, TypeError, "`bias` must be float32, the dtype of `weight`, got float16"),
        ({"x": torch.zeros(2, 8, 37).double()}, TypeError, "`x` must be float32 or float16 or bfloat16"),
        ({"activation": "relu"}, ValueError, "`activation` must be None"),
        ({"seq_idx": torch.zeros(2, 37)}, TypeError, "`seq_idx` must be int32, got float32"),
        ({"initial_states": torch.zeros(2, 8, 4)}, ValueError, "`initial_states` must have the shape (2, 8, 3)"),
        ({"final_states_out": torch.zeros(2, 8, 3)}, ValueError, "needs `return_final_states=True`"),
        (
            {"seq_idx": torch.zeros(2, 37, dtype=torch.int32), "return_final_states": True},
            ValueError,
            "cannot be used together",
        ),
    ],
)
def test_wrong_arguments(change: dict[str, object], error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        causal_conv1d_fn(**{**draw(BASE), **change})
    assert words in str(caught.value)


def test_wrong_arguments_of_an_update() -> None:
    weight = torch.zeros(8, 4)
    with pytest.raises(ValueError, match="at least width - 1 = 3 columns, got 2"):
        causal_conv1d_update(torch.zeros(2, 8), torch.zeros(2, 8, 2), weight)
    with pytest.raises(ValueError, match=r"`conv_state` must have the shape \(2, 8, 4\), got \(3, 8, 4\)"):
        causal_conv1d_update(torch.zeros(2, 8), torch.zeros(3, 8, 4), weight)
    with pytest.raises(TypeError, match="`conv_state` must be float32, the dtype of `x`, got float16"):
        causal_conv1d_update(torch.zeros(2, 8), torch.zeros(2, 8, 4).half(), weight)
    # Rows that share their memory would overwrite each other.
    with pytest.raises(ValueError, match="`conv_state` must not be an expanded tensor\nhint: "):
        causal_conv1d_update(torch.zeros(2, 8), torch.zeros(1, 8, 4).expand(2, 8, 4), weight)

"""The Mamba block: its parameters, its forward pass against the oracle, and generation step by step."""

from __future__ import annotations

import inspect
import warnings
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

from mamba_ssm import Mamba, oracle
from tests.ops.comparing import close


@dataclass
class Cache:
    """The attributes of an inference cache that a block relies on."""

    seqlen_offset: int = 0
    batch_size_offset: int = 0
    key_value_memory_dict: dict[int, Any] = field(default_factory=dict)


def block(device: str, **options: Any) -> Mamba:
    torch.manual_seed(0)
    options = {"d_model": 24, "d_state": 8, "layer_idx": 3, **options}
    return Mamba(**options).to(device)


def test_parameters() -> None:
    shapes = {name: tuple(value.shape) for name, value in Mamba(48, d_state=8, bias=True).state_dict().items()}
    assert shapes == {
        "A_log": (96, 8),
        "D": (96,),
        "in_proj.weight": (192, 48),
        "in_proj.bias": (192,),
        "conv1d.weight": (96, 1, 4),
        "conv1d.bias": (96,),
        "x_proj.weight": (3 + 16, 96),
        "dt_proj.weight": (96, 3),
        "dt_proj.bias": (96,),
        "out_proj.weight": (48, 96),
        "out_proj.bias": (48,),
    }
    assert set(Mamba(48, conv_bias=False).state_dict()) == {
        "A_log", "D", "in_proj.weight", "conv1d.weight", "x_proj.weight", "dt_proj.weight", "dt_proj.bias", "out_proj.weight"
    }  # fmt: skip


def test_the_constructor_is_the_public_one() -> None:
    names = list(inspect.signature(Mamba).parameters)
    assert names == [
        "d_model", "d_state", "d_conv", "expand", "dt_rank", "dt_min", "dt_max", "dt_init", "dt_scale",
        "dt_init_floor", "conv_bias", "bias", "use_fast_path", "layer_idx", "device", "dtype",
    ]  # fmt: skip


def test_initial_values() -> None:
    model = Mamba(64, dt_min=0.01, dt_max=0.2)
    steps = torch.nn.functional.softplus(model.dt_proj.bias)
    assert steps.min() >= 0.0099
    assert steps.max() <= 0.201
    assert torch.allclose(torch.exp(model.A_log[5]), torch.arange(1.0, 17.0))
    half = Mamba(64, dtype=torch.bfloat16)
    assert (half.A_log.dtype, half.D.dtype, half.in_proj.weight.dtype) == (torch.float32, torch.float32, torch.bfloat16)
    with pytest.raises(ValueError, match="`dt_init` must be"):
        Mamba(64, dt_init="zero")


@pytest.mark.parametrize("options", [{}, {"bias": True}, {"conv_bias": False}, {"d_conv": 2}, {"use_fast_path": False}])
def test_forward(options: dict[str, Any], device: str) -> None:
    model = block(device, **options)
    hidden = torch.randn(2, 70, 24)
    want = oracle.block(hidden.double(), {name: value.double().cpu() for name, value in model.state_dict().items()})
    close("out", model(hidden.to(device)), want, (6e-4, 1e-3))


def test_bfloat16(device: str) -> None:
    model = block(device).to(torch.bfloat16)
    hidden = torch.randn(2, 40, 24).bfloat16()
    out = model(hidden.to(device))
    out.float().sum().backward()
    assert out.dtype == torch.bfloat16
    want = oracle.block(hidden.double(), {name: value.double().cpu() for name, value in model.state_dict().items()})
    close("out", out, want, (3e-2, 5e-2))


@pytest.mark.parametrize("prompt", [1, 2, 9])
def test_steps_continue_a_prompt(prompt: int, device: str) -> None:
    model, cache = block(device), Cache()
    hidden = torch.randn(2, 20, 24, device=device)
    with torch.no_grad():
        whole = model(hidden)
        parts = [model(hidden[:, :prompt], inference_params=cache)]
        for t in range(prompt, 20):
            cache.seqlen_offset = t
            parts.append(model(hidden[:, t : t + 1], inference_params=cache))
    assert torch.allclose(torch.cat(parts, dim=1), whole, atol=1e-4)
    assert list(cache.key_value_memory_dict) == [3]


def test_step_by_step_from_nothing(device: str) -> None:
    model = block(device)
    conv_state, ssm_state = model.allocate_inference_cache(2, 20)
    assert conv_state.shape == (2, 48, 4)
    assert ssm_state.shape == (2, 48, 8)
    hidden = torch.randn(2, 20, 24, device=device)
    outputs = []
    with torch.no_grad():
        for t in range(20):
            out, same_conv, same_ssm = model.step(hidden[:, t : t + 1], conv_state, ssm_state)
            assert same_conv is conv_state
            assert same_ssm is ssm_state
            outputs.append(out)
    assert torch.allclose(torch.cat(outputs, dim=1), model(hidden), atol=1e-4)


def test_no_gradient_flows_through_the_states(device: str) -> None:
    """Half a gradient would be worse than none, and a graph that grows with every step would fill the memory."""
    model, cache = block(device), Cache()
    hidden = torch.randn(2, 6, 24, device=device)
    assert model(hidden[:, :5], inference_params=cache).requires_grad
    cache.seqlen_offset = 5
    assert not model(hidden[:, 5:], inference_params=cache).requires_grad
    assert not any(state.requires_grad for state in cache.key_value_memory_dict[3])


def test_an_empty_sequence(device: str) -> None:
    assert block(device)(torch.zeros(2, 0, 24, device=device)).shape == (2, 0, 24)


def test_a_part_of_a_larger_batch(device: str) -> None:
    model, cache = block(device), Cache()
    cache.key_value_memory_dict[3] = model.allocate_inference_cache(5, 20)
    cache.batch_size_offset = 2
    model(torch.randn(2, 6, 24, device=device), inference_params=cache)
    touched = cache.key_value_memory_dict[3][1].abs().sum(dim=(1, 2)) > 0
    assert touched.tolist() == [False, False, True, True, False]


def test_wrong_arguments() -> None:
    model = block("cpu", layer_idx=None)
    with pytest.raises(ValueError, match=r"must be \(batch, length, 24\), got \(2, 5, 23\)"):
        model(torch.zeros(2, 5, 23))
    with pytest.raises(ValueError, match="hint: construct it with `layer_idx`"):
        model(torch.zeros(2, 5, 24), inference_params=Cache())
    with pytest.raises(ValueError, match="one step at a time"):
        model.step(torch.zeros(2, 2, 24), *model.allocate_inference_cache(2, 1))


def test_a_traced_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """While torch.jit traces, sizes are tensors: no check may take two equal ones for different."""
    monkeypatch.setenv("MAMBA_SSM_BACKEND", "reference")
    model, hidden = block("cpu"), torch.randn(2, 5, 24)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # each check of a shape is a TracerWarning; newer releases deprecate tracing
        traced = torch.jit.trace(model, hidden, check_trace=False)  # type: ignore[no-untyped-call,unused-ignore]
        assert torch.allclose(traced(hidden), model(hidden), atol=1e-5)

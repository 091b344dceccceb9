"""The ops as the bindings define them: what they refuse, and what tracers are told about them."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from torch import Tensor

from mamba_ssm import Mamba
from mamba_ssm._native import native

pytestmark = pytest.mark.skipif(not native().serves("cpu"), reason=f"no CPU kernels here: {native().why_not('cpu')}")
TORCH = tuple(int(part) for part in torch.__version__.split(".")[:2])


def scan(**changes: Any) -> tuple[Any, ...]:
    generator = torch.Generator().manual_seed(0)
    arguments = {
        "u": torch.randn(2, 4, 33, generator=generator),
        "delta": torch.rand(2, 4, 33, generator=generator),
        "A": -torch.rand(4, 8, generator=generator),
        "B": torch.randn(2, 2, 8, 33, generator=generator),
        "C": torch.randn(2, 2, 8, 33, generator=generator),
        "D": torch.randn(4, generator=generator),
        "z": torch.randn(2, 4, 33, generator=generator),
        "delta_bias": torch.randn(4, generator=generator),
        "delta_softplus": True,
        "initial_state": torch.randn(2, 4, 8, generator=generator),
    }
    return tuple({**arguments, **changes}.values())


def forward(arguments: tuple[Any, ...], save: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    out, last_state, checkpoints = torch.ops.mamba_ssm.selective_scan_fwd(*arguments, save, -1)
    return out, last_state, checkpoints


@pytest.mark.parametrize(
    "change, words",
    [
        ({"u": torch.zeros(4, 33)}, "`u` must have 3 dimensions, got the shape (4, 33)"),
        ({"u": torch.zeros(0, 4, 33)}, "`u` must not be empty, got the shape (0, 4, 33)"),
        ({"u": torch.zeros(2, 4, 33).double()}, "`u` must be float32, float16 or bfloat16, got Double"),
        ({"delta": torch.zeros(2, 4, 32)}, "`delta` must have the shape (2, 4, 33), got (2, 4, 32)"),
        ({"delta": torch.zeros(2, 4, 33).half()}, "`delta` must be float32, got Half"),
        ({"A": torch.zeros(4, 257)}, "`A` must have between 1 and 256 columns (the state), got 257"),
        ({"B": torch.zeros(2, 3, 8, 33)}, "`B` must have a number of groups that divides dim = 4, got 3"),
        ({"B": torch.zeros(2, 8, 33)}, "`B` must have 2 or 4 dimensions"),
        ({"C": torch.zeros(2, 1, 8, 33)}, "`C` must have the shape (2, 2, 8, 33), got (2, 1, 8, 33)"),
        ({"D": torch.zeros(4).bfloat16()}, "`D` must be float32, got BFloat16"),
        ({"z": torch.zeros(2, 5, 33)}, "`z` must have the shape"),
        ({"initial_state": torch.zeros(2, 4, 7)}, "`initial_state` must have the shape (2, 4, 8), got (2, 4, 7)"),
    ],
)
def test_the_scan_refuses(change: dict[str, Tensor], words: str) -> None:
    with pytest.raises(RuntimeError) as caught:
        forward(scan(**change))
    assert "mamba_ssm::selective_scan_fwd: " in str(caught.value)
    assert words in str(caught.value)


def test_the_convolution_refuses() -> None:
    x, weight = torch.zeros(2, 4, 9), torch.zeros(4, 4)
    ops = torch.ops.mamba_ssm
    with pytest.raises(RuntimeError, match=r"`weight` must have 2, 3 or 4 columns \(the width\), got 5"):
        ops.causal_conv1d_fwd(x, torch.zeros(4, 5), None, True, -1)
    with pytest.raises(RuntimeError, match=r"`bias` must have the shape \(4\), got \(3\)"):
        ops.causal_conv1d_fwd(x, weight, torch.zeros(3), True, -1)
    with pytest.raises(RuntimeError, match=r"`dout` must have the shape \(2, 4, 9\), got \(2, 4, 8\)"):
        ops.causal_conv1d_bwd(torch.zeros(2, 4, 8), x, weight, None, True, -1)
    with pytest.raises(RuntimeError, match="`conv_state` must hold at least width - 1 = 3 columns, got 2"):
        ops.causal_conv1d_update(x, torch.zeros(2, 4, 2), weight, None, True, -1)
    with pytest.raises(RuntimeError, match="`conv_state` must be float32, got Half"):
        ops.causal_conv1d_update(x, torch.zeros(2, 4, 4).half(), weight, None, True, -1)


def test_backward_refuses_checkpoints_of_another_call() -> None:
    arguments = scan()
    dout = torch.ones(2, 4, 33)
    with pytest.raises(RuntimeError, match="`checkpoints` must have the shape"):
        torch.ops.mamba_ssm.selective_scan_bwd(dout, *arguments, torch.zeros(3), None, -1)


def test_backward_without_checkpoints_runs_the_forward_pass_again() -> None:
    arguments = scan()
    dout, dlast = torch.randn(2, 4, 33), torch.randn(2, 4, 8)
    kept = forward(arguments)[2]
    none = forward(arguments, save=False)[2]
    assert none.shape == (0,)
    with_them = torch.ops.mamba_ssm.selective_scan_bwd(dout, *arguments, kept, dlast, -1)
    without = torch.ops.mamba_ssm.selective_scan_bwd(dout, *arguments, none, dlast, -1)
    assert all(torch.equal(a, b) for a, b in zip(with_them, without))


def test_the_gradients_of_both_states() -> None:
    from mamba_ssm import oracle

    arguments = scan()
    exact: list[Any] = [each.double().requires_grad_() if isinstance(each, Tensor) else each for each in arguments]
    out, last_state = oracle.scan(*exact)
    dout, dlast = torch.randn(2, 4, 33), torch.randn(2, 4, 8)
    tensors = [each for each in exact if isinstance(each, Tensor)]
    want = torch.autograd.grad([out, last_state], tensors, [dout.double(), dlast.double()])
    got = torch.ops.mamba_ssm.selective_scan_bwd(dout, *arguments, forward(arguments)[2], dlast, -1)
    # u, delta, A, B, C, D, z, delta_bias, initial_state: z comes before delta_bias in both
    for mine, exactly in zip(got, want):
        assert torch.allclose(mine.double(), exactly, rtol=1e-3, atol=1e-3)


def test_absent_inputs_have_empty_gradients() -> None:
    arguments = scan(D=None, z=None, delta_bias=None, initial_state=None)
    gradients = torch.ops.mamba_ssm.selective_scan_bwd(
        torch.ones(2, 4, 33), *arguments, forward(arguments)[2], None, -1
    )
    assert [gradient.numel() for gradient in gradients[5:]] == [0, 0, 0, 0]


def test_results_do_not_depend_on_the_threads() -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = forward(scan())
        torch.set_num_threads(3)
        three = forward(scan())
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, b) for a, b in zip(one, three))


def test_shapes_without_values() -> None:
    arguments = [each.to("meta") if isinstance(each, Tensor) else each for each in scan()]
    for fake, real in zip(forward(tuple(arguments)), forward(scan())):
        assert (fake.shape, fake.dtype, fake.stride()) == (real.shape, real.dtype, real.stride())
    x = torch.zeros(2, 9, 4, device="meta").transpose(1, 2)
    fake = torch.ops.mamba_ssm.causal_conv1d_fwd(x, torch.zeros(4, 3, device="meta"), None, True, -1)
    assert fake.stride() == (36, 1, 4)


@pytest.mark.skipif(TORCH < (2, 4), reason="torch.library.opcheck came with torch 2.4")
def test_opcheck() -> None:
    from torch.library import opcheck

    arguments = scan()
    opcheck(torch.ops.mamba_ssm.selective_scan_fwd, (*arguments, True, -1))
    checkpoints = forward(arguments)[2]
    dout = torch.ones(2, 4, 33)
    opcheck(torch.ops.mamba_ssm.selective_scan_bwd, (dout, *arguments, checkpoints, torch.zeros(2, 4, 8), -1))
    x, weight, bias = torch.randn(2, 9, 4).transpose(1, 2), torch.randn(4, 3), torch.randn(4)
    opcheck(torch.ops.mamba_ssm.causal_conv1d_fwd, (x, weight, bias, True, -1))
    opcheck(torch.ops.mamba_ssm.causal_conv1d_bwd, (torch.ones(2, 4, 9), x, weight, bias, True, -1))
    opcheck(torch.ops.mamba_ssm.causal_conv1d_update, (x, torch.randn(2, 4, 3), weight, bias, True, -1))


@pytest.mark.filterwarnings("default")
@pytest.mark.skipif(
    TORCH < (2, 0) or (TORCH < (2, 1) and sys.version_info >= (3, 11)),
    reason="torch.compile came with torch 2.0, and for Python 3.11 with 2.1",
)
def test_compiled() -> None:
    torch.manual_seed(0)
    model = Mamba(16)
    # Before 2.6 the compiler cannot take the kernels' calls into its graph, and runs them between graphs; 2.3 then trips
    # over its own dynamic shapes.
    whole = TORCH >= (2, 6)
    compiled = torch.compile(model, fullgraph=whole, dynamic=None if whole else False, backend="aot_eager")
    for length in (20, 21, 40):
        hidden = torch.randn(2, length, 16)
        expected = model(hidden)
        want = torch.autograd.grad(expected.sum(), list(model.parameters()))
        out = compiled(hidden)
        got = torch.autograd.grad(out.sum(), list(model.parameters()))
        assert torch.allclose(out, expected, atol=1e-5)
        assert all(torch.allclose(a, b, atol=1e-4) for a, b in zip(got, want))

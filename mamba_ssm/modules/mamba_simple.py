"""The Mamba block (Gu & Dao 2023, section 3.4): projection, causal convolution, selective scan, gate, projection."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from mamba_ssm.ops.causal_conv1d import causal_conv1d_update, convolve
from mamba_ssm.ops.selective_scan_interface import mamba_inner_fn, scan


class Mamba(nn.Module):
    """A Mamba block over sequences of width d_model.

    Args:
        d_model: width of the input and the output.
        d_state: states per channel. d_conv: width of the convolution; kernels serve 2, 3 and 4.
        expand: the inner width is expand * d_model.
        dt_rank: rank of the projection to the step sizes; "auto" is ceil(d_model / 16).
        dt_min, dt_max, dt_init_floor: the initial step sizes are spread between these logarithmically.
        dt_init: "random" or "constant"; dt_scale: initial scale of dt_proj.
        conv_bias, bias: whether the convolution, the linear layers have biases.
        use_fast_path: run the block as one mamba_inner_fn where no cache is given; the result is the same.
        layer_idx: the key of this layer's states in an inference cache.
    """

    def __init__(
        self,
        d_model: int,
        d_state: int = 16,
        d_conv: int = 4,
        expand: int = 2,
        dt_rank: int | str = "auto",
        dt_min: float = 0.001,
        dt_max: float = 0.1,
        dt_init: str = "random",
        dt_scale: float = 1.0,
        dt_init_floor: float = 1e-4,
        conv_bias: bool = True,
        bias: bool = False,
        use_fast_path: bool = True,
        layer_idx: int | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        self.d_model = d_model
        self.d_state = d_state
        self.d_conv = d_conv
        self.expand = expand
        self.d_inner = int(expand * d_model)
        self.dt_rank = _rank(d_model, dt_rank)
        self.use_fast_path = use_fast_path
        self.layer_idx = layer_idx

        self.in_proj = nn.Linear(d_model, 2 * self.d_inner, bias=bias, **factory)
        self.conv1d = nn.Conv1d(
            self.d_inner, self.d_inner, d_conv, groups=self.d_inner, padding=d_conv - 1, bias=conv_bias, **factory
        )
        self.activation = "silu"
        self.act = nn.SiLU()
        self.x_proj = nn.Linear(self.d_inner, self.dt_rank + 2 * d_state, bias=False, **factory)
        self.dt_proj = nn.Linear(self.dt_rank, self.d_inner, bias=True, **factory)
        self._initialise_steps(dt_min, dt_max, dt_init, dt_scale, dt_init_floor)
        # A = -exp(A_log) starts as -1, -2, ... -d_state in every channel: the S4D-real initialisation.
        levels = torch.arange(1, d_state + 1, dtype=torch.float32, device=device)
        self.A_log = nn.Parameter(torch.log(levels).repeat(self.d_inner, 1))
        self.A_log._no_weight_decay = True  # type: ignore[attr-defined]
        self.D = nn.Parameter(torch.ones(self.d_inner, device=device))
        self.D._no_weight_decay = True  # type: ignore[attr-defined]
        self.out_proj = nn.Linear(self.d_inner, d_model, bias=bias, **factory)

    def _initialise_steps(self, dt_min: float, dt_max: float, dt_init: str, dt_scale: float, floor: float) -> None:
        """Set dt_proj so that the step sizes, softplus of its output, start between dt_min and dt_max."""
        std = dt_scale * self.dt_rank**-0.5
        if dt_init == "constant":
            nn.init.constant_(self.dt_proj.weight, std)
        elif dt_init == "random":
            nn.init.uniform_(self.dt_proj.weight, -std, std)
        else:
            raise ValueError(f'Mamba: `dt_init` must be "random" or "constant", got `{dt_init}`')
        bias = self.dt_proj.bias
        uniform = torch.rand(self.d_inner, device=bias.device)
        steps = torch.exp(uniform * (math.log(dt_max) - math.log(dt_min)) + math.log(dt_min)).clamp(min=floor)
        with torch.no_grad():
            bias.copy_(steps + torch.log(-torch.expm1(-steps)))  # the inverse of softplus
        # For initialisers that zero the biases of all linear layers: leave this one.
        bias._no_reinit = True  # type: ignore[union-attr,attr-defined,unused-ignore]

    def forward(self, hidden_states: Tensor, inference_params: Any = None) -> Tensor:
        """(batch, length, d_model) to the same shape.

        `inference_params` is any object with `key_value_memory_dict`, `seqlen_offset` and, where batches are served in
        parts, `batch_size_offset`; with a `seqlen_offset` above 0 the input is the next step, of length 1. The states
        are read and updated in place.
        """
        if hidden_states.dim() != 3 or hidden_states.shape[2] != self.d_model:
            raise ValueError(
                f"Mamba: `hidden_states` must be (batch, length, {self.d_model}), got {tuple(hidden_states.shape)}"
            )
        states: tuple[Tensor, Tensor] | None = None
        if inference_params is not None:
            states = self._get_states_from_cache(inference_params, hidden_states.shape[0])
            if inference_params.seqlen_offset > 0:
                return self.step(hidden_states, *states)[0]
        xz = self.in_proj(hidden_states).transpose(1, 2)
        if self.use_fast_path and states is None:
            return mamba_inner_fn(
                xz,
                self.conv1d.weight,
                self.conv1d.bias,
                self.x_proj.weight,
                self.dt_proj.weight,
                self.out_proj.weight,
                self.out_proj.bias,
                self._A(),
                D=self.D.float(),
                delta_bias=self.dt_proj.bias.float(),
                delta_softplus=True,
            )
        return self._forward_keeping_states(xz, states)

    def _forward_keeping_states(self, xz: Tensor, states: tuple[Tensor, Tensor] | None) -> Tensor:
        x, z = xz.chunk(2, dim=1)
        if states is not None:
            # The last d_conv inputs, zeros before the start; a negative pad cuts.
            states[0].copy_(functional.pad(x.detach(), (self.d_conv - x.shape[-1], 0)))
        x = convolve("Mamba", x, self.conv1d.weight.squeeze(1), self.conv1d.bias, silu=True)
        parts = [self.dt_rank, self.d_state, self.d_state]
        delta, B, C = self.x_proj(x.transpose(1, 2)).split(parts, dim=-1)
        delta = functional.linear(delta, self.dt_proj.weight)
        delta, B, C = (each.transpose(1, 2).to(x.dtype) for each in (delta, B, C))
        y, last_state = scan("Mamba", x, delta, self._A(), B, C, self.D, z, self.dt_proj.bias, True)
        if states is not None:
            states[1].copy_(last_state)
        out: Tensor = self.out_proj(y.transpose(1, 2))
        return out

    @torch.no_grad()  # type: ignore[untyped-decorator,unused-ignore]
    def step(self, hidden_states: Tensor, conv_state: Tensor, ssm_state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """One step of generation: (batch, 1, d_model) to the same shape; both states are updated in place. No gradient
        flows through it, as none flows through the states.

        conv_state: (batch, d_inner, d_conv). ssm_state: (batch, d_inner, d_state).
        Returns out, conv_state, ssm_state.
        """
        if hidden_states.dim() != 3 or hidden_states.shape[1] != 1:
            raise ValueError(f"Mamba.step: one step at a time, (batch, 1, d_model), got {tuple(hidden_states.shape)}")
        dtype = hidden_states.dtype
        x, z = self.in_proj(hidden_states.squeeze(1)).chunk(2, dim=-1)
        x = causal_conv1d_update(
            x.to(conv_state.dtype), conv_state, self.conv1d.weight.squeeze(1), self.conv1d.bias, self.activation
        ).to(x.dtype)
        delta, B, C = self.x_proj(x).split([self.dt_rank, self.d_state, self.d_state], dim=-1)
        delta = functional.softplus(functional.linear(delta, self.dt_proj.weight).float() + self.dt_proj.bias.float())
        decay = torch.exp(delta[..., None] * self._A())
        wide = x.float()
        state = ssm_state.float() * decay + (delta * wide)[..., None] * B.float()[:, None]
        ssm_state.copy_(state)
        y = (state * C.float()[:, None]).sum(-1) + self.D.float() * wide
        out = self.out_proj((y * functional.silu(z.float())).to(z.dtype))
        return out.unsqueeze(1).to(dtype), conv_state, ssm_state

    def allocate_inference_cache(
        self, batch_size: int, max_seqlen: int, dtype: torch.dtype | None = None, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Zeroed conv_state (batch, d_inner, d_conv) and ssm_state (batch, d_inner, d_state); `max_seqlen` is of no
        matter, since the states do not grow."""
        device = self.out_proj.weight.device
        conv_dtype = self.conv1d.weight.dtype if dtype is None else dtype
        ssm_dtype = self.dt_proj.weight.dtype if dtype is None else dtype
        conv_state = torch.zeros(batch_size, self.d_inner, self.d_conv, device=device, dtype=conv_dtype)
        ssm_state = torch.zeros(batch_size, self.d_inner, self.d_state, device=device, dtype=ssm_dtype)
        return conv_state, ssm_state

    def _get_states_from_cache(
        self, inference_params: Any, batch_size: int, initialize_states: bool = False
    ) -> tuple[Tensor, Tensor]:
        """This layer's states, allocated at first use; zeroed on request."""
        if self.layer_idx is None:
            raise ValueError("Mamba: an inference cache needs the layer's number\nhint: construct it with `layer_idx`")
        memory = inference_params.key_value_memory_dict
        if self.layer_idx not in memory:
            memory[self.layer_idx] = self.allocate_inference_cache(batch_size, 0)
        conv_state, ssm_state = memory[self.layer_idx]
        if initialize_states:
            conv_state.zero_()
            ssm_state.zero_()
        # A cache for a larger batch, of which this call serves a part.
        start = int(getattr(inference_params, "batch_size_offset", 0) or 0)
        if conv_state.shape[0] != batch_size:
            conv_state = conv_state[start : start + batch_size]
            ssm_state = ssm_state[start : start + batch_size]
        return conv_state, ssm_state

    def _A(self) -> Tensor:
        return -torch.exp(self.A_log.float())


def _rank(d_model: int, dt_rank: int | str) -> int:
    if isinstance(dt_rank, str):
        if dt_rank != "auto":
            raise ValueError(f'Mamba: `dt_rank` must be a number or "auto", got `{dt_rank}`')
        return math.ceil(d_model / 16)
    return dt_rank

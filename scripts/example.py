"""The example of the README: one Mamba block, forward and backward, on whatever device is here."""

from __future__ import annotations

import torch

import mamba_ssm
from mamba_ssm import Mamba

device = "cuda" if torch.cuda.is_available() else "cpu"
block = Mamba(d_model=64, d_state=16, d_conv=4, expand=2).to(device)
x = torch.randn(2, 128, 64, device=device, requires_grad=True)  # (batch, length, d_model)

y = block(x)
y.sum().backward()

assert y.shape == x.shape
assert x.grad is not None
assert bool(torch.isfinite(x.grad).all())
print(mamba_ssm.backend_info())

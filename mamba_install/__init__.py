"""Finds, fetches, checks and proves the wheel of `mamba_ssm` or `causal_conv1d` that fits an environment."""

from __future__ import annotations

__version__ = "0.1.0"

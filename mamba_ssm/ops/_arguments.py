"""Argument checks shared by the public functions: what was expected, what came, under the argument's name."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

KERNEL_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def check_tensors(op: str, **values: object) -> None:
    """Raise TypeError unless every value is an ordinary (strided) tensor, or None where it may be left out."""
    for name, value in values.items():
        if value is None:
            continue
        if not isinstance(value, Tensor):
            raise TypeError(f"{op}: `{name}` must be a tensor, got {type(value).__name__}")
        if value.layout != torch.strided:
            raise TypeError(
                f"{op}: `{name}` must be a strided tensor, got {value.layout}\nhint: convert it with .to_dense()"
            )


def check_shape(op: str, name: str, tensor: Tensor, *shapes: Sequence[int]) -> None:
    """Raise ValueError unless the tensor has one of these shapes."""
    for shape in shapes:
        if tensor.shape == tuple(shape):
            return
    expected = " or ".join(str(tuple(shape)) for shape in shapes)
    raise ValueError(f"{op}: `{name}` must have the shape {expected}, got {tuple(tensor.shape)}")


def check_dims(op: str, name: str, tensor: Tensor, layout: str, *dims: int) -> None:
    """Raise ValueError unless the tensor has one of these numbers of dimensions; `layout` describes them."""
    if tensor.dim() not in dims:
        raise ValueError(f"{op}: `{name}` must be {layout}, got the shape {tuple(tensor.shape)}")


def check_dtype(op: str, name: str, tensor: Tensor, expected: tuple[torch.dtype, ...], of: str | None = None) -> None:
    """Raise TypeError unless the tensor has one of these dtypes; `of` names the argument that fixed the dtype."""
    if tensor.dtype in expected:
        return
    wanted = " or ".join(str(each).replace("torch.", "") for each in expected)
    suffix = f", the dtype of `{of}`" if of else ""
    raise TypeError(f"{op}: `{name}` must be {wanted}{suffix}, got {str(tensor.dtype).replace('torch.', '')}")


def check_device(op: str, lead_name: str, lead: Tensor, **others: Tensor | None) -> None:
    """Raise ValueError unless all tensors are on the device of the first."""
    for name, tensor in others.items():
        if tensor is not None and tensor.device != lead.device:
            raise ValueError(
                f"{op}: `{name}` must be on the device of `{lead_name}`, {lead.device}, got {tensor.device}"
            )


def wants_silu(op: str, activation: str | None) -> bool:
    """Whether the activation is silu; raises ValueError for one that does not exist."""
    if activation not in (None, "silu", "swish"):
        raise ValueError(f'{op}: `activation` must be None, "silu" or "swish", got `{activation}`')
    return activation is not None

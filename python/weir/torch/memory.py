"""memory - elements of torch's tensors in the core's memory and back, with all bits.

A view is a tensor of torch over memory of the core (DLPack, no copy). The core never moves a tensor
whose address it has given away, so a budget then keeps it where it is.
"""
from __future__ import annotations

import torch

from .. import _capi as capi
from ..core import Device
from ..exchange import CPU
from ..typing import Array, Handle
from .table import torch_type, type_of

# Types that NumPy lacks, by one of the same size.
SAME_SIZE = {torch.bfloat16: torch.int16}


def _array(t: torch.Tensor) -> Array:
    shared: Array = (t.view(SAME_SIZE[t.dtype]) if t.dtype in SAME_SIZE else t).numpy()
    return shared


def write(handle: Handle, t: torch.Tensor) -> None:
    """Copies the elements of a tensor of the same shape and type to the core."""
    if t.requires_grad or not t.is_cpu or not t.is_contiguous():
        t = t.detach().cpu().contiguous()
    capi.write(handle, _array(t))


def read(handle: Handle) -> torch.Tensor:
    """A new tensor with the core's elements, shape and type."""
    kind, shape = capi.weir_tensor_desc(handle)
    out = torch.empty(shape, dtype=torch_type(kind))
    capi.read(handle, _array(out))
    return out


def same(t: torch.Tensor, handle: Handle) -> bool:
    """True if a tensor lies in the memory of the core's."""
    return bool(t.data_ptr() == capi.memory(handle)[0])


def new_state(device: Device, t: torch.Tensor, name: str | None = None) -> Handle:
    """A state of the core with the elements of a tensor."""
    handle = capi.weir_state(device.handle, (type_of(t.dtype), tuple(t.shape)), name)
    write(handle, t)
    return handle


def new_param(device: Device, t: torch.Tensor, name: str) -> Handle:
    """A parameter of the core with the elements of a tensor."""
    handle = capi.weir_param(device.handle, (type_of(t.dtype), tuple(t.shape)), name)
    write(handle, t)
    return handle


class _Export:
    """A tensor of the core as what torch.from_dlpack takes."""

    def __init__(self, handle: Handle) -> None:
        self.handle = handle

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU, 0

    def __dlpack__(self, **how: object) -> object:
        return capi.dlpack_export(self.handle, False, False, False)


def view(handle: Handle) -> torch.Tensor:
    """A tensor over the memory of the core, which lives as long as the view."""
    return torch.from_dlpack(_Export(handle))       # type: ignore

"""names - names of calls and tensors in dumps, plans, explanations, pictures, traces and errors.

    with weir.name_scope("decoder"):
        y = attention(x)            # "decoder/attention/..."

A layer that has a name opens a scope when it is called; a tensor tells the core its name.
"""
from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from . import _capi as capi
from . import core

if TYPE_CHECKING:
    from .singa_wrap import CTensor

__all__ = ["layer_scope", "name_scope", "tell"]

_LONGEST = 255      # bytes of a name that the core takes in any scope


def _plain(name: str) -> str:
    """The name without what the core refuses: control characters, and too many of others."""
    return "".join("?" if c < " " or c == "\x7f" else c for c in name)[:_LONGEST // 4]


@contextlib.contextmanager
def name_scope(name: str, device: core.Device | None = None) -> Iterator[None]:
    """Inside, operations of a device (the default one) belong to `name`: "block1/relu". Scopes
    nest; names change no plan and no bit."""
    handle = (core.cpu() if device is None else device).handle
    capi.weir_name_scope_begin(handle, name)
    try:
        yield
    finally:
        capi.weir_name_scope_end(handle)


class layer_scope:
    """The scope of a layer, "block/conv1" for the layer "block.conv1"; inside "block" what is below
    it, "conv1"."""

    __slots__ = ("_device", "_name", "_outer")

    def __init__(self, device: core.Device, name: str) -> None:
        self._device, self._name, self._outer = device, name, device.inside

    def __enter__(self) -> None:
        device, name, outer = self._device, self._name, self._outer
        below = name[len(outer) + 1:] if outer and name.startswith(outer + ".") else name
        capi.weir_name_scope_begin(device.handle, _plain(below.replace(".", "/")))
        device.inside = name

    def __exit__(self, *_: object) -> None:
        self._device.inside = self._outer
        capi.weir_name_scope_end(self._device.handle)


def tell(raw: CTensor, name: str) -> None:
    """Gives the elements of a raw tensor a name in all texts."""
    capi.weir_set_name(raw.handle, _plain(name))

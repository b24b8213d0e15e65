"""taping - the switch that has calls remembered for gradients, and what the tape needs of a tensor.

Tensors and operators use each other: an operator makes Tensors, a Tensor's methods are operators.
This module has what both build on, so that neither imports the other.
"""
import contextlib

from weir import _capi as capi
from weir import core

_training = False       # autograd.training, which scripts assign


def is_training():
    """The value of autograd.training."""
    return _training


def set_training(on):
    """Sets autograd.training."""
    global _training
    _training = on


_no_grad_blocks = 0     # open blocks of no_grad


@contextlib.contextmanager
def no_grad():
    """Inside, no call is remembered for gradients, whatever autograd.training is; what else
    that decides (dropout, batch statistics) does not change."""
    global _no_grad_blocks
    _no_grad_blocks += 1
    try:
        yield
    finally:
        _no_grad_blocks -= 1


def taping():
    """True if calls are remembered for gradients."""
    return is_training() and not _no_grad_blocks


class Taped:
    """What a Tensor is to the tape: raw elements (data), a creator, flags. Tensor derives from it.
    """

    __slots__ = ()

    made: type      # the class Tensor itself: x.made(data=...) is a new one


def prepare(x):
    """The handle of an input of a taped call, watched by the core if x wants a gradient."""
    handle = x.data.handle
    if x.requires_grad:
        if not capi.weir_tensor_needs_grad(handle) and core.is_float(x.dtype):
            capi.weir_tensor_set_needs_grad(handle, True)
    elif capi.weir_tensor_needs_grad(handle):
        return capi.weir_detach(handle)
    return handle

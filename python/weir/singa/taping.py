"""taping - are calls remembered for gradients, and what the tape asks of a tensor.

Tensors and operators need each other: an operator makes Tensors, a Tensor's methods are operators.
What both stand on is here.
"""
import contextlib

from weir import capi
from weir import core

_training = False       # autograd.training, which scripts assign


def is_training():
    return _training


def set_training(on):
    global _training
    _training = on


_quiet = 0      # blocks of no_grad that are open


@contextlib.contextmanager
def no_grad():
    """Inside, nothing is remembered for gradients, whatever autograd.training says; the other
    things it decides (dropout, statistics of batches) stay as they are."""
    global _quiet
    _quiet += 1
    try:
        yield
    finally:
        _quiet -= 1


def taping():
    """Are calls remembered for gradients?"""
    return is_training() and not _quiet


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

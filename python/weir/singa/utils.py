"""utils - SINGA's helpers of layers and its ONNX reader: padding, progress, walks over graphs."""
from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Sequence
from typing import TypeAlias, Union

from weir import _capi as capi
from . import singa_wrap as singa
from .raw.handles import vjp
from weir.typing import Handle
from .raw.handles import ConvHandle, PoolingHandle
from .raw.tensor import CTensor
from .tape import Operator
from .taping import Taped
from .tensor import Tensor


def update_progress(progress: float, info: str) -> None:
    """Draws a bar of 20 characters and a text on one line of standard output; progress: 0 to 1."""
    if not isinstance(progress, (int, float)):
        progress, info = 0, "error: progress must be a number"
    done = min(max(float(progress), 0.0), 1.0)
    filled = round(20 * done)
    sys.stdout.write(f"\r[{'#' * filled}{'-' * (20 - filled)}] {100 * done:5.1f}% {info}")
    if done == 1.0:
        sys.stdout.write("\n")
    sys.stdout.flush()


def force_unicode(s: str | bytes) -> str:
    """Text of bytes or text."""
    return s.decode("utf-8") if isinstance(s, bytes) else s


WindowHandle: TypeAlias = Union[ConvHandle, PoolingHandle]
Leaf: TypeAlias = Union[Operator, Taped]
# Operators, parameters and inputs by their names.
Sorted: TypeAlias = tuple["OrderedDict[str, Operator]", "OrderedDict[str, Leaf]",
                          "OrderedDict[str, Leaf]"]


# ---- padding; SAME: as many windows as ceil(size / stride) ----

def get_padding_shape(pad_mode: str, input_spatial_shape: Sequence[int],
                      kernel_spatial_shape: Sequence[int],
                      strides_spatial: Sequence[int]) -> tuple[list[int], tuple[int, ...]]:
    """([top, bottom, left, right] of what both sides have, (top, bottom, left, right) of the odd
    cell that SAME_UPPER puts at the end and SAME_LOWER at the beginning)."""
    pads, odd = [], []
    for size, kernel, stride in zip(input_spatial_shape, kernel_spatial_shape, strides_spatial):
        whole = max((-(-size // stride) - 1) * stride + kernel - size, 0)
        pads += [whole // 2] * 2
        odd += [0, whole % 2] if pad_mode == "SAME_UPPER" else [whole % 2, 0]
    return pads, tuple(odd)


def get_output_shape(auto_pad: str, input_spatial_shape: Sequence[int],
                     kernel_spatial_shape: Sequence[int],
                     strides_spatial: Sequence[int]) -> list[int]:
    """Returns the sizes of the output of windows with this padding mode."""
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        return [-(-size // stride) for size, stride in zip(input_spatial_shape, strides_spatial)]
    if auto_pad in ("VALID", "NOTSET"):
        return [(size - kernel) // stride + 1 for size, kernel, stride in
                zip(input_spatial_shape, kernel_spatial_shape, strides_spatial)]
    raise ValueError(f"unknown auto_pad {auto_pad!r} (expected SAME_UPPER, SAME_LOWER, VALID or "
                         "NOTSET)")


def handle_odd_pad_fwd(x: CTensor, odd_padding: Sequence[int], is_pool: bool = False) -> CTensor:
    """A raw image with (top, bottom, left, right) more cells: 0, or for pools the outermost."""
    top, bottom, left, right = odd_padding
    mode = capi.WEIR_PAD_EDGE if is_pool else capi.WEIR_PAD_CONSTANT
    padded = capi.weir_pad(x.handle, (0, 0, top, left), (0, 0, bottom, right), mode, 0.0)
    return singa.result(padded, x.device())


def handle_odd_pad_bwd(dx: CTensor, odd_padding: Sequence[int], is_pool: bool = False) -> CTensor:
    """The gradient of x, given that of handle_odd_pad_fwd's result. Of pools what the repeated
    cells get goes to the outermost ones, which SINGA leaves out."""
    top, bottom, left, right = odd_padding
    shape = dx.shape()
    x = singa.Tensor((shape[0], shape[1], shape[2] - top - bottom, shape[3] - left - right),
                     dx.device(), dx.data_type())

    def forward(handle: Handle) -> Handle:
        return handle_odd_pad_fwd(singa.result(handle, dx.device()), odd_padding, is_pool).handle

    return singa.result(vjp(dx.device(), forward, [x.handle], dx.handle)[0], dx.device())


def same_pad_shape_check(handle: WindowHandle, pad_mode: str, x: CTensor) -> WindowHandle:
    """The handle for a SAME padding of the raw image x: a new one if it has another padding."""
    kernel, stride = (handle.kernel_h, handle.kernel_w), (handle.stride_h, handle.stride_w)
    pads, _ = get_padding_shape(pad_mode, x.shape()[2:], kernel, stride)
    if (handle.pad_h, handle.pad_w) == (pads[0], pads[2]):
        return handle
    return re_new_handle(handle, x, padding=(pads[0], pads[2]))


def re_new_handle(handle: WindowHandle, x: CTensor, is_pool: bool | None = None,
                  padding: tuple[int, int] | None = None) -> WindowHandle:
    """A handle like this one for the raw image x. is_pool is what the handle says itself."""
    del is_pool
    kernel, stride = (handle.kernel_h, handle.kernel_w), (handle.stride_h, handle.stride_w)
    padding = (handle.pad_h, handle.pad_w) if padding is None else padding
    if isinstance(handle, PoolingHandle):
        return singa.PoolingHandle(x, kernel, stride, padding, handle.is_max_pooling)
    return singa.ConvHandle(x, kernel, stride, padding, x.shape(1), handle.num_filters,
                            handle.bias_term, handle.group)


# ---- graphs of operators ----

def post_order_recursive(root: Operator, root_t: Tensor | None) -> Sorted:
    """(nodes, weights, inputs) below an operator and its Tensor, sources first, by names: operators
    by their names, parameters and other leaves by those of their Tensors. It does not recurse."""
    nodes: OrderedDict[str, Operator] = OrderedDict()
    weights: OrderedDict[str, Leaf] = OrderedDict()
    inputs: OrderedDict[str, Leaf] = OrderedDict()
    waiting: list[tuple[Operator, Taped | None, bool]] = [(root, root_t, False)]
    seen: set[int] = set()
    while waiting:
        op, t, sources_done = waiting.pop()
        if sources_done:
            nodes[op.name] = op
            continue
        if id(op) in seen:
            continue
        seen.add(id(op))
        if not op.src:
            leaf = op if t is None else t
            (weights if getattr(leaf, "stores_grad", False) else inputs)[op.name] = leaf
            continue
        waiting.append((op, t, True))
        waiting.extend((source, tensor, False) for source, _, tensor, _ in reversed(op.src))
    return nodes, weights, inputs

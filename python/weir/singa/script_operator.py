"""script_operator - operators that a script derives from Operator, as callbacks of the core.

Their forward and backward get raw tensors of a device of their own, whatever device the call is
made on: they may run in the middle of a graph. What they make without a device is there too. At
once, forward runs on the real values; while the device records, it runs once on zeros first, to
learn the results' shapes, and then at every run.
"""
from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np

from weir import _capi as capi
from weir import core
from .taping import prepare
from weir.typing import Array, Desc, Handle
from .raw.tensor import CTensor, result

if TYPE_CHECKING:
    from typing_extensions import Buffer
    from .tape import Gradients, Operator
    from .tensor_class import Tensor


def _raw(desc: Desc, data: Array | memoryview | None) -> CTensor:
    """A raw tensor of the scratch device with these elements (None: zeros)."""
    dtype, shape = desc
    raw = CTensor(shape, core.scratch(), core.singa_dtype(dtype))
    if data is None:
        capi.weir_write_fill(raw.value.writable(), 0.0)
    else:
        capi.write(raw.value.writable(), data)
    return raw


def _tuple(ys: Gradients | Sequence[CTensor]) -> tuple[CTensor | None, ...]:
    return tuple(ys) if isinstance(ys, (tuple, list)) else (cast("CTensor | None", ys),)


Operand: TypeAlias = tuple[Desc, memoryview | None]


class _Call:
    """The callbacks of an operator. `ready` holds results computed at once until the core asks.

    The operator owns it and what the core calls, so it is referenced weakly; a graph holds both.
    """

    def __init__(self, operator: Operator) -> None:
        self._operator = weakref.ref(operator)
        self.ready: Sequence[CTensor] | None = None

    @property
    def operator(self) -> Operator:
        operator = self._operator()
        if operator is None:
            raise RuntimeError("a gradient needs an operator of the script that no longer exists")
        return operator

    def forward(self, reads: list[Operand], writes: list[Operand]) -> None:
        ready, self.ready = self.ready, None
        ys: Gradients | Sequence[CTensor] = ready
        if ys is None:
            with core.on_scratch():
                ys = self.operator.forward(*[_raw(desc, data) for desc, data in reads])
        self._give(_tuple(ys), writes, "forward")

    def backward(self, reads: list[Operand], writes: list[Operand]) -> None:
        raws = [_raw(desc, data) for desc, data in reads]
        dys: Sequence[CTensor | float] = raws
        if self.operator.takes_number:
            dys = [float(dy.to_numpy().item()) for dy in raws]
        with core.on_scratch():
            dxs = self.operator.backward(*dys)
        self._give(_tuple(dxs), writes, "backward")

    def _give(self, raws: Sequence[CTensor | None], writes: list[Operand], what: str) -> None:
        if len(raws) != len(writes):
            raise ValueError(f"{self.operator.name}: {what} returned {len(raws)} tensors, "
                             f"expected {len(writes)}")
        for raw, (desc, data) in zip(raws, writes):
            if data is None or not data.nbytes:
                continue
            dtype, shape = desc
            array = np.zeros(shape, np.float32) if raw is None else raw.to_numpy()
            if array.size != int(np.prod(shape, dtype=np.int64)):
                raise ValueError(f"{self.operator.name}: {what} returned shape {array.shape}, "
                                 f"expected {shape}")
            kind = core.numpy_dtype(core.singa_dtype(dtype))
            data[:] = memoryview(cast("Buffer", np.ascontiguousarray(array, kind))).cast("B")


def _probe(operator: Operator, xs: Sequence[Tensor]) -> tuple[CTensor, ...]:
    """The results of the operator, on zeros while the device records."""
    recording = xs[0].device.recording
    raws = [_raw(x.data.value.desc, None if recording else x.data.to_numpy()) for x in xs]
    with core.on_scratch():
        return cast("tuple[CTensor, ...]", _tuple(operator.forward(*raws)))


def run(operator: Operator, xs: Sequence[Tensor],
        taped: bool) -> tuple[list[Handle], tuple[CTensor, ...]]:
    """(handles of inputs, raw results) of a call of the operator with these Tensors."""
    if not xs:
        raise TypeError(f"{operator.name}: an operator needs an input")
    device = xs[0].device
    results = _probe(operator, xs)
    descs = [y.value.desc for y in results]
    calls = operator.__dict__.setdefault("_calls", {})      # one for all calls that look alike
    alike = len(xs), len(descs), taped
    call, owner = calls.get(alike) or (_Call(operator), None)
    handles = [x.data.handle for x in xs]
    call.ready = None if device.recording else results
    if taped:
        capi.weir_no_grad_end(device.handle)
    try:
        if taped:
            handles = [prepare(x) for x in xs]
        owner, made = capi.callback(owner, operator.name, call.forward,
                                       call.backward if taped else None, handles, descs)
    finally:
        call.ready = None
        if taped:
            capi.weir_no_grad_begin(device.handle)
    calls[alike] = call, owner
    device.hold((owner, operator))
    return handles, tuple(result(y, device) for y in made)

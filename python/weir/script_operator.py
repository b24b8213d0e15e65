"""script_operator - operators that a script derives from Operator, as callbacks of the core.

Their forward and backward get raw tensors of a device of their own, whatever device the call is
made on: they may run in the middle of a graph. At once, forward runs on the real values; while the
device records, it runs once on zeros first, to learn the results' shapes, and then at every run.
"""
import weakref

import numpy as np

from . import capi
from . import core
from . import singa_wrap as singa


def _raw(desc, data):
    """A raw tensor of the scratch device with these bytes (None: zeros)."""
    dtype, shape = desc
    raw = singa.Tensor(shape, core.scratch(), core.singa_dtype(dtype))
    if data is None:
        capi.weir_write_fill(raw.value.room(), 0.0)
    else:
        capi.write(raw.value.room(), data)
    return raw


def _tuple(ys):
    return tuple(ys) if isinstance(ys, (tuple, list)) else (ys,)


class _Call:
    """One call of one operator; what it computed at once waits here for the core to ask.

    The operator owns what the core calls, so it is referenced weakly here; a graph holds both.
    """

    def __init__(self, operator):
        self._operator = weakref.ref(operator)
        self.ready = None

    @property
    def operator(self):
        operator = self._operator()
        if operator is None:
            raise RuntimeError("an operator of the script is gone, but its gradient is asked for")
        return operator

    def compute(self, reads):
        raws = [_raw(desc, data) for desc, data in reads]
        return _tuple(self.operator.forward(*raws))

    def forward(self, reads, writes):
        ys, self.ready = self.ready, None
        self._give(self.compute(reads) if ys is None else ys, writes, "forward")

    def backward(self, reads, writes):
        dys = [_raw(desc, data) for desc, data in reads]
        self._give(_tuple(self.operator.backward(*dys)), writes, "backward")

    def _give(self, raws, writes, what):
        if len(raws) != len(writes):
            raise ValueError(f"{self.operator.name}: {what} gave {len(raws)} tensors, "
                             f"{len(writes)} are wanted")
        for raw, (desc, data) in zip(raws, writes):
            if data is None:
                continue
            dtype, shape = desc
            array = np.zeros(shape, np.float32) if raw is None else raw.to_numpy()
            if array.size != int(np.prod(shape, dtype=np.int64)):
                raise ValueError(f"{self.operator.name}: {what} gave shape {array.shape}, "
                                 f"{shape} is wanted")
            kind = core.numpy_dtype(core.singa_dtype(dtype))
            data[:] = memoryview(np.ascontiguousarray(array, kind)).cast("B")


def run(operator, xs):
    """Raw results of a call of the operator with these Tensors."""
    from .engine import is_training, prepare
    device = xs[0].device
    call = _Call(operator)
    if device.recording:
        probe = call.compute([(x.data.value.desc, None) for x in xs])
    else:
        probe = call.compute([(x.data.value.desc, memoryview(x.data.to_numpy()).cast("B"))
                              for x in xs])
        call.ready = probe
    descs = [y.value.desc for y in probe]
    taped = is_training() and any(x.requires_grad for x in xs)
    handles = [x.data.handle for x in xs]
    if taped:
        capi.weir_no_grad_end(device.handle)
    try:
        if taped:
            handles = [prepare(x) for x in xs]
        owner, results = capi.callback(operator.name, call.forward,
                                       call.backward if taped else None, handles, descs)
    finally:
        if taped:
            capi.weir_no_grad_begin(device.handle)
    operator._owner = owner
    device.hold((owner, operator))
    return tuple(singa.result(y, device) for y in results)

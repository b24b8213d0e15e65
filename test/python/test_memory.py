"""test_memory - what lives in a recorded step, and that tensors that are dropped are gone."""
import gc
import os

import numpy as np
import pytest

from conftest import run
from weir import _capi as capi, autograd, core, tensor
from weir.tensor import Tensor

pytestmark = pytest.mark.usefixtures("training")

A = autograd
BATCH, WIDE = 64, 512
MANY = 1000000 if os.environ.get("WEIR_LONG") else 100000


def param(*shape):
    return Tensor(data=np.full(shape, 0.01, np.float32), stores_grad=True)


def weights():
    return [param(32, WIDE), param(WIDE), param(WIDE, WIDE), param(WIDE), param(WIDE, 10),
            param(10)]


def data():
    return (Tensor(data=np.ones((BATCH, 32), np.float32), requires_grad=False),
            Tensor(data=np.zeros(BATCH, np.int32), dtype=tensor.int32, requires_grad=False))


def core_step(dev, x, t, ws):
    """The step by calls of the core alone, each handle dropped as early as can be."""
    handles = [w.data.handle for w in ws]
    h = x.data.handle
    capi.weir_no_grad_end(dev.handle)
    for w in handles:
        capi.weir_tensor_set_needs_grad(w, True)
    for i in range(0, 6, 2):
        h = capi.weir_add(capi.weir_matmul(h, handles[i]), handles[i + 1])
        h = capi.weir_relu(h) if i < 4 else h
    loss = capi.weir_reshape(capi.weir_cross_entropy(h, t.data.handle), (1,))
    del h
    capi.weir_no_grad_begin(dev.handle)
    grads = capi.gradients(loss, None, handles)
    while grads:
        capi.weir_assign(handles.pop(), capi.weir_affine(grads.pop(), -0.1, 0.0))
    return loss


def operator_step(x, t, ws):
    h = x
    for i in range(0, 6, 2):
        h = A.add_bias(A.matmul(h, ws[i]), ws[i + 1])
        h = A.relu(h) if i < 4 else h
    loss = A.softmax_cross_entropy(h, t)
    for p, g in A.backward(loss):
        p.data.value.put(capi.weir_affine(g.data.handle, -0.1, 0.0))
    return loss


def arena(dev, step):
    dev.begin_graph()
    result = step()
    graph, held = dev.end_graph()
    stats = capi.weir_graph_stats()
    capi.weir_graph_stats_of(graph, stats)
    del result, held
    return stats.arena_bytes, stats.persistent_bytes


def test_a_recorded_step_holds_no_more_than_the_core_needs():
    dev = core.cpu()
    x, t = data()
    wanted = arena(dev, lambda ws=weights(): core_step(dev, x, t, ws))
    gc.disable()                    # reference counts alone must do
    try:
        got = arena(dev, lambda ws=weights(): operator_step(x, t, ws))
    finally:
        gc.enable()
    assert got[0] <= wanted[0]
    assert got[1] <= wanted[1]


def test_intermediate_results_are_no_outputs():
    """The arena of a chain does not grow with its length."""
    dev, x = core.cpu(), param(256, 256)

    def chain(n):
        y = x
        for _ in range(n):
            y = A.softmax(A.transpose(A.tanh(y), (1, 0)))
        return A.reduce_sum(y)

    autograd.training = False
    assert arena(dev, lambda: chain(24)) == arena(dev, lambda: chain(6))


@pytest.mark.parametrize("name, call", [
    ("max", lambda x: A.max(x, A.negative(x))), ("mean", lambda x: A.mean(x, x, x)),
    ("gather", lambda x: A.gather(x, 1, [1, 0])), ("where", lambda x: A.where(x, x, [[1, 0] * 32])),
    ("scatter", lambda x: A.scatter_elements(x, [[1, 0]], [[1., 2.]])),
    ("bce", lambda x: A.binary_cross_entropy(A.sigmoid(x), x)),
    ("dropout", A.dropout), ("softmax", A.softmax), ("clip", lambda x: A.clip(x, 0, 1))])
def test_steps_leave_nothing(name, call, mode):
    dev, x = core.cpu(), param(64, 64)
    before = None
    for i in range(30):
        y = run(lambda: A.gradients(A.reduce_sum(call(x))), dev, mode)
        del y
        dev.ResetGraph()
        if i == 10:
            before = dev.memory().live, dev.memory().persistent
    assert (dev.memory().live, dev.memory().persistent) == before


def resident():
    with open("/proc/self/statm", encoding="ascii") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_tensors_that_are_dropped_are_gone():
    x, sizes = Tensor(data=np.ones(16, np.float32)), []
    live = core.cpu().memory().live
    gc.disable()
    try:
        for i in range(MANY):
            y = A.add(x, x) if i % 2 else Tensor((4, 4))        # noqa: F841
            if i in (MANY // 10, MANY - 1):
                del y
                assert core.cpu().memory().live == live
                sizes.append(resident())
    finally:
        gc.enable()
    assert sizes[1] - sizes[0] < 1 << 20

"""test_fit - tests of the largest batch: planned only, and true when it runs."""
import numpy as np
import pytest

import weir
from weir import tensor

from mlp import MLP, ready, params


def batch(n):
    return weir.empty((n, 4), "float32"), weir.empty((n,), "int32")


def test_the_largest_batch_fits_and_the_next_does_not():
    net, tx, tt = ready(use_graph=True)
    before = params(net)
    found = weir.largest_batch(net, batch, memory=20000)
    assert found.memory_bytes == 20000 and found.planned_peak_bytes <= 20000
    planned = {t.batch: t.planned_peak_bytes for t in found.tried if t.least_bytes is None}
    assert planned[found.batch] == found.planned_peak_bytes
    least = {t.batch: t.least_bytes for t in found.tried if t.batch not in planned}
    assert planned.get(found.batch + 1) is None and least[found.batch + 1] > 20000
    assert len(least) <= 8 and len(planned) <= 3
    for name, p in params(net).items():
        np.testing.assert_array_equal(p, before[name])
    net.graph(True, budget=20000)
    x = tensor.from_numpy(np.ones((found.batch, 4), np.float32))
    net(x, tensor.from_numpy(np.zeros(found.batch, np.int32)))
    assert net.graphs[-1].stats["planned_peak_bytes"] == found.planned_peak_bytes
    net(tx, tt)


def test_the_search_may_begin_anywhere():
    net, *_ = ready(use_graph=True)
    found = {weir.largest_batch(net, batch, memory="20kB", first=first).batch
             for first in (1, 3, 64, 300)}
    assert len(found) == 1
    assert weir.largest_batch(net, batch, memory="20kB", most=7).batch == 7
    assert weir.largest_batch(net, batch, most=3).memory_bytes > 1 << 20    # what is free


def test_every_batch_up_to_the_answer_fits_and_the_next_does_not():
    net, *_ = ready(use_graph=True)
    for memory in (16000, 20000, 30000):
        best = weir.largest_batch(net, batch, memory=memory).batch
        found = [weir.largest_batch(net, batch, memory=memory, first=n, most=n).batch
                 for n in range(max(1, best - 3), best + 2)]
        assert found == [*range(max(1, best - 3), best + 1), best]


def test_an_exception_ends_the_search():
    net, *_ = ready(use_graph=True)

    def broken(n):
        if n > 20:
            raise ZeroDivisionError(f"no batch of {n}")
        return batch(n)

    with pytest.raises(ZeroDivisionError, match="no batch of"):
        weir.largest_batch(net, broken, memory="1MB")
    assert weir.largest_batch(net, broken, memory="1MB", most=20).batch == 20


def test_mistakes():
    net, *_ = ready(use_graph=True)
    with pytest.raises(weir.BudgetError, match="the smallest that works"):
        weir.largest_batch(net, batch, memory=100)
    with pytest.raises(weir.InvalidError, match="first is 0"):
        weir.largest_batch(net, batch, first=0)
    with pytest.raises(weir.InvalidError, match="no Tensor"):
        weir.largest_batch(net, lambda n: ())
    with pytest.raises(weir.StateError, match="compile"):
        weir.largest_batch(MLP(), batch)

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
    tried = dict(found.tried)
    assert tried[found.batch] == found.planned_peak_bytes and tried[found.batch + 1] is None
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

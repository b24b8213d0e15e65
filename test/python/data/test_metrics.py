"""test_metrics - accuracy, top-k, confusion and F1 by hand; early stopping."""
import math

import numpy as np
import pytest

import weir
from weir import metrics

SCORES = np.array([[1, 3, 2], [5, 4, 3], [0, 0, 1], [2, 2, 2]], np.float32)
LABELS = np.array([1, 1, 0, 1], np.int32)


def test_accuracy_of_arrays_and_tensors():
    assert metrics.accuracy(SCORES, LABELS) == 0.25
    assert metrics.accuracy(weir.array(SCORES), weir.array(LABELS)) == 0.25
    assert metrics.accuracy(SCORES, [1, 0, 2, 0]) == 1


def test_topk():
    assert [metrics.topk_accuracy(SCORES, LABELS, k) for k in (1, 2, 3)] == [0.25, 1.0, 1.0]
    assert metrics.topk_accuracy(SCORES, [0, 2, 1, 2], 2) == 0
    assert metrics.topk_accuracy(SCORES, LABELS, 1) == metrics.accuracy(SCORES, LABELS)
    assert metrics.topk_accuracy([[math.nan, 1.0]], [0], 2) == 0


def test_confusion_and_f1():
    counts = metrics.confusion_matrix([1, 0, 1, 1], [1, 1, 0, 1], 3)
    assert counts.tolist() == [[0, 1, 0], [1, 2, 0], [0, 0, 0]]
    assert metrics.f1_scores(counts).tolist() == [0, 2 * 2 / 6, 0]
    assert metrics.f1_scores([[3, 0], [0, 1]]).tolist() == [1, 1]


def test_early_stop():
    watch = metrics.EarlyStop(2)
    assert [watch.improves(v) for v in (3.0, 2.0, 2.0)] == [True, True, False]
    assert not watch.stop
    twin = metrics.EarlyStop(2)
    twin.load_state_dict(watch.state_dict())
    for one in (watch, twin):
        assert not one.improves(math.nan) and one.stop and one.best == 2.0
    assert watch.improves(1.0) and not watch.stop
    rising = metrics.EarlyStop(1, min_delta=0.1, higher=True)
    assert rising.improves(0.5) and not rising.improves(0.55) and rising.stop


@pytest.mark.parametrize("call, error, words", [
    (lambda: metrics.accuracy(SCORES, LABELS[:2]), weir.ShapeError, r"\(4, 3\) and \(2,\)"),
    (lambda: metrics.accuracy(SCORES, [0, 0, 0, 3]), weir.OutOfRangeError, "3 .* from 0 to 2"),
    (lambda: metrics.accuracy(SCORES, [0.0] * 4), weir.DtypeError, "must be integers"),
    (lambda: metrics.topk_accuracy(SCORES, LABELS, 4), weir.InvalidError, "to the 3 classes"),
    (lambda: metrics.confusion_matrix([0], [0, 1], 2), weir.ShapeError, r"\(1,\) and \(2,\)"),
    (lambda: metrics.confusion_matrix([2], [0], 2), weir.OutOfRangeError, "class number is 2"),
    (lambda: metrics.f1_scores([[1, 2]]), weir.ShapeError, "square"),
    (lambda: metrics.EarlyStop(0), weir.InvalidError, "patience is 0"),
])
def test_mistakes(call, error, words):
    with pytest.raises(error, match=words):
        call()

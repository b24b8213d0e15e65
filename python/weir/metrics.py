"""metrics - how good predictions are: accuracy, top-k, confusion, F1; and when to stop early.

Arguments are tensors of Weir or of other libraries, or arrays: scores (samples, classes), and
labels (samples) as class numbers.
"""
from __future__ import annotations

import math
from collections.abc import Mapping
from typing import SupportsFloat, SupportsInt, TypeAlias, Union

import numpy as np
from numpy.typing import NDArray

from . import errors
from .tensor import Tensor
from .typing import Array, ArrayLike

__all__ = ["accuracy", "confusion_matrix", "EarlyStop", "f1_scores", "topk_accuracy"]

Values: TypeAlias = Union[Tensor, ArrayLike]


def _host(values: Values) -> Array:
    return values.numpy() if isinstance(values, Tensor) else np.asarray(values)


def _reals(x: Array) -> NDArray[np.float64]:
    """Any numbers in float64, in which their order is the same."""
    return x.astype(np.float64)


def _scores_and_labels(scores: Values, labels: Values,
             what: str) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    x, y = _host(scores), _host(labels)
    if x.ndim != 2 or y.shape != x.shape[:1] or 0 in x.shape:
        raise errors.ShapeError(f"{what}: scores must be (samples, classes), labels (samples), "
                                f"with 1 or more of each, not {x.shape} and {y.shape}")
    return _reals(x), _classes(y, x.shape[1], what)


def _classes(y: Array, n: int, what: str) -> NDArray[np.int64]:
    if not np.issubdtype(y.dtype, np.integer):
        raise errors.DtypeError(f"{what}: class numbers are {y.dtype} but must be integers")
    whole = y.astype(np.int64)
    wrong = whole[(whole < 0) | (whole >= n)]
    if wrong.size:
        raise errors.OutOfRangeError(f"{what}: a class number is {wrong[0]} but must be from 0 to "
                                     f"{n - 1}")
    return whole


def _class_pairs(predicted: Values, labels: Values,
                 n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    p, y = _host(predicted), _host(labels)
    if p.ndim != 1 or p.shape != y.shape:
        raise errors.ShapeError("confusion_matrix: predicted and labels must be (samples), not "
                                f"{p.shape} and {y.shape}")
    return _classes(p, n, "confusion_matrix"), _classes(y, n, "confusion_matrix")


def accuracy(scores: Values, labels: Values) -> float:
    """The share of samples, from 0 to 1, whose label has the highest score; of equal scores the
    first class counts."""
    x, y = _scores_and_labels(scores, labels, "accuracy")
    return float((x.argmax(1) == y).mean())


def topk_accuracy(scores: Values, labels: Values, k: int = 5) -> float:
    """The share of samples, from 0 to 1, whose label is among the k highest scores; of equal scores
    the lower class numbers come first. A label whose score is NaN is never among them."""
    x, y = _scores_and_labels(scores, labels, "topk_accuracy")
    if not 1 <= k <= x.shape[1]:
        raise errors.InvalidError(f"topk_accuracy: k is {k} but must be from 1 to the {x.shape[1]} "
                                  "classes")
    own = x[np.arange(len(y)), y][:, None]
    first = np.arange(x.shape[1]) < y[:, None]
    before = ((x > own) | ((x == own) & first)).sum(1)
    return float(((before < k) & (own[:, 0] == own[:, 0])).mean())


def confusion_matrix(predicted: Values, labels: Values, classes: int) -> NDArray[np.int64]:
    """Counts (classes, classes): rows are labels, columns what was predicted, as class numbers."""
    if classes < 1:
        raise errors.InvalidError(f"confusion_matrix: classes is {classes} but must be 1 or more")
    predictions, truth = _class_pairs(predicted, labels, classes)
    counts = np.zeros((classes, classes), np.int64)
    for row, column in zip(truth, predictions):
        counts[row, column] += 1
    return counts


def f1_scores(confusion: ArrayLike) -> NDArray[np.float64]:
    """F1 of each class, the harmonic mean of precision and recall, from a confusion matrix; 0 for a
    class that neither occurs nor is predicted. The mean of all is the macro F1."""
    counts = np.asarray(confusion, np.float64)
    if counts.ndim != 2 or counts.shape[0] != counts.shape[1]:
        raise errors.ShapeError(f"f1_scores: a confusion matrix is square, not {counts.shape}")
    both = counts.sum(0) + counts.sum(1)
    return 2 * np.diag(counts) / np.where(both > 0, both, 1)


class EarlyStop:
    """Follows a value of the validation: which is the best so far, and whether to stop.

    patience: values in a row without improvement after which stop is True. min_delta: an
    improvement is larger than this. higher: larger values are better, as of an accuracy; else
    smaller ones, as of a loss. NaN never improves.
    """

    def __init__(self, patience: int, min_delta: float = 0.0, higher: bool = False) -> None:
        if patience < 1 or not min_delta >= 0:
            raise errors.InvalidError(f"EarlyStop: patience is {patience}, min_delta is "
                                      f"{min_delta}, but must be 1 or more and 0 or more")
        self.patience: int = patience
        self.min_delta: float = min_delta
        self.higher: bool = higher
        self.best: float = -math.inf if higher else math.inf
        self.bad: int = 0

    def improves(self, value: float) -> bool:
        """Takes the next value; True if it is the best so far, so that the model is worth saving.
        """
        gain = value - self.best if self.higher else self.best - value
        better = gain > self.min_delta
        if better:
            self.best = float(value)
        self.bad = 0 if better else self.bad + 1
        return better

    @property
    def stop(self) -> bool:
        """Whether `patience` values in a row have not improved."""
        return self.bad >= self.patience

    def state_dict(self) -> dict[str, float]:
        """What load_state_dict takes when a training is resumed."""
        return {"best": self.best, "bad": self.bad}

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Goes on where state_dict was taken."""
        best, bad = state.get("best"), state.get("bad")
        if not isinstance(best, SupportsFloat) or not isinstance(bad, SupportsInt) or int(bad) < 0:
            raise errors.InvalidError(f"EarlyStop: the state has best {best!r} and bad {bad!r}, "
                                      "must be a number and a whole one, 0 or more")
        self.best = float(best)
        self.bad = int(bad)

"""loader - DataLoader: batches of arrays or of a data set, shuffled, changed and read ahead.

Workers are threads: NumPy and file reading let other threads go on while they work, and nothing has
to be copied between processes. What a batch holds depends on seed, epoch and index alone, never on
the number of workers.
"""
from __future__ import annotations

import collections
import operator
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol, SupportsIndex, TypeAlias, Union, cast

import numpy as np
from numpy.typing import NDArray

from . import core
from . import errors
from .interop import Data, array
from .tensor import Tensor
from .transforms import Transform
from .typing import Array

__all__ = ["Batch", "DataLoader", "Dataset", "to_tensors"]

Batch: TypeAlias = tuple[Array, ...]
_Batches: TypeAlias = Generator[Batch, None, None]
Change: TypeAlias = Union[Transform, Callable[[Array], Array]]


class Dataset(Protocol):
    """What has a length and samples by index, as data sets of PyTorch and lists have. A sample is
    an array, a tensor or a number, or several of these in a tuple or a list."""

    def __len__(self) -> int:
        """Number of samples."""
        ...

    def __getitem__(self, index: int, /) -> object:
        """One sample."""


def _as_array(value: object) -> Array:
    """The elements of anything that becomes an array, shared where possible; Python's numbers as
    int32 and float32."""
    if isinstance(value, (bool, np.generic)):
        return np.asarray(value)
    if isinstance(value, int):
        return np.asarray(value, np.int32)
    if isinstance(value, float):
        return np.asarray(value, np.float32)
    made = np.asarray(cast("Data", value))
    if made.dtype == object:
        raise errors.DtypeError(f"DataLoader: a {type(value).__name__} is no array of numbers")
    return made


def to_tensors(batch: object, device: core.Device | None = None) -> tuple[Tensor, ...]:
    """The tensors of a batch from any loader: an array or a tensor of any library, or several in a
    tuple or a list. Elements are copied once, into Weir's memory."""
    parts = batch if isinstance(batch, (tuple, list)) else (batch,)
    return tuple(part if isinstance(part, Tensor) else array(cast("Data", part), device=device)
                 for part in parts)


def _is_array(value: object) -> bool:
    return isinstance(value, np.ndarray) or hasattr(value, "__array__")


class DataLoader:
    """An iterable of batches, one pass over the data per iteration.

    data: an array or a tuple of arrays whose first axis counts samples, or a Dataset. A batch is a
    tuple of arrays, each with the samples on a new first axis; of one array a tuple of one.
    shuffle: a new order in each epoch. drop_last: leave out a shorter last batch. transforms change
    the first element of each sample, in order: those of weir.transforms, or functions of an array.
    workers: threads that prepare batches while the program computes; each has up to `prefetch`
    batches under way. An error in a worker is raised where the batch is asked for.

    rank, world, micro_batches: on rank r of W, A batches for each update. One order of all samples
    is cut into batches, W A of them for each update, of which rank r reads r A to r A + A - 1. So
    every rank reads equally many, and an epoch leaves out the samples that make no whole update.
    """

    def __init__(self, data: Array | tuple[object, ...] | Dataset, batch_size: int = 1,
                 shuffle: bool = False, drop_last: bool = False, workers: int = 0,
                 transforms: Sequence[Change] = (), seed: int = 0, prefetch: int = 2,
                 rank: int = 0, world: int = 1, micro_batches: int = 1) -> None:
        for name, value, least in (("batch_size", batch_size, 1), ("workers", workers, 0),
                                   ("seed", seed, 0), ("prefetch", prefetch, 1), ("rank", rank, 0),
                                   ("world", world, rank + 1), ("micro_batches", micro_batches, 1)):
            if operator.index(value) < least:
                raise errors.InvalidError(f"DataLoader: {name} is {value} but must be {least} or "
                                          "more")
        self._arrays: Batch = ()
        self._data: Dataset | None = None
        if isinstance(data, tuple) or _is_array(data):
            given = data if isinstance(data, tuple) else (data,)
            self._arrays = tuple(_as_array(part) for part in given)
            self.samples: int = _common_length(self._arrays)
        else:
            self._data = data
            self.samples = len(self._data)
        if self.samples == 0:
            raise errors.InvalidError("DataLoader: the data has no samples")
        self.batch_size: int = batch_size
        self.shuffle: bool = shuffle
        self.drop_last: bool = drop_last
        self.workers: int = workers
        self.seed: int = seed
        self.prefetch: int = prefetch
        self.transforms: tuple[Change, ...] = tuple(transforms)
        self.rank: int = rank
        self.world: int = world
        self.micro_batches: int = micro_batches
        if len(self) == 0 and self._together > 1:
            raise errors.InvalidError(
                f"DataLoader: an update of {world} ranks reads {micro_batches} batches of "
                f"{batch_size} samples from each, more than the {self.samples} there are")
        if len(self) == 0:
            raise errors.InvalidError(f"DataLoader: batch_size is {batch_size}, more than the "
                                      f"{self.samples} samples, and drop_last leaves none")
        self._epoch, self._at, self._resumed = 0, 0, False

    def __len__(self) -> int:
        """Batches of an epoch, those of this rank."""
        if self._together > 1:
            return self.samples // (self.batch_size * self._together) * self.micro_batches
        rest = 0 if self.drop_last else self.batch_size - 1
        return (self.samples + rest) // self.batch_size

    @property
    def _together(self) -> int:
        """Batches of an update, those of all ranks."""
        return self.world * self.micro_batches

    def _number(self, at: int) -> int:
        """The number of rank 0's batch `at` among those of all ranks: of states, the same on each
        rank, and for other numbers of ranks."""
        update, j = divmod(at, self.micro_batches)
        return update * self._together + j

    def _part(self, order: NDArray[np.int64], at: int) -> NDArray[np.int64]:
        """The samples of this rank's batch `at`."""
        first = (self._number(at) + self.rank * self.micro_batches) * self.batch_size
        return order[first:first + self.batch_size]

    @property
    def epoch(self) -> int:
        """The epoch of the next batch, from 0."""
        return self._epoch

    def __iter__(self) -> Iterator[Batch]:
        """A pass: the rest of the epoch after load_state_dict, else the next whole epoch."""
        if self._at and not self._resumed:
            self._epoch, self._at = self._epoch + 1, 0
        self._resumed = False
        return self._batches(self._epoch, self._at)

    def _batches(self, epoch: int, first: int) -> Iterator[Batch]:
        order = self._order(epoch)
        parts = [self._part(order, i) for i in range(first, len(self))]
        made: _Batches = self._ahead(epoch, parts) if self.workers else (
            self._batch(epoch, part) for part in parts)
        try:
            for i, batch in enumerate(made, first + 1):
                self._epoch, self._at = (epoch, i) if i < len(self) else (epoch + 1, 0)
                yield batch
        finally:
            made.close()

    def _ahead(self, epoch: int, parts: list[NDArray[np.int64]]) -> _Batches:
        """Batches in order, made by threads; these have ended when the iteration ends."""
        pool = ThreadPoolExecutor(self.workers, "weir-data")
        under_way: collections.deque[Future[Batch]] = collections.deque()
        try:
            for part in parts:
                under_way.append(pool.submit(self._batch, epoch, part))
                if len(under_way) == self.workers * self.prefetch:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _order(self, epoch: int) -> NDArray[np.int64]:
        if not self.shuffle:
            return np.arange(self.samples)
        return np.random.default_rng([self.seed, epoch]).permutation(self.samples)

    def _batch(self, epoch: int, part: NDArray[np.int64]) -> Batch:
        if self._data is None and not self.transforms:
            return tuple(a[part] for a in self._arrays)
        samples = [self._sample(epoch, int(index)) for index in part]
        if len({len(sample) for sample in samples}) > 1:
            raise errors.ShapeError("DataLoader: the samples of a batch have different numbers of "
                                    "elements")
        return tuple(_stacked(elements, i) for i, elements in enumerate(zip(*samples)))

    def _sample(self, epoch: int, index: int) -> Batch:
        if self._data is None:
            sample = tuple(a[index] for a in self._arrays)
        else:
            got = self._data[index]
            sample = tuple(got) if isinstance(got, (tuple, list)) else (got,)
        elements = tuple(_as_array(element) for element in sample)
        if not self.transforms or not elements:
            return elements
        rng = np.random.default_rng([self.seed, epoch, index])
        x = elements[0]
        for change in self.transforms:
            x = change.apply(x, rng) if isinstance(change, Transform) else _as_array(change(x))
        return (x, *elements[1:])

    def state_dict(self) -> dict[str, int]:
        """Where the loader is: load_state_dict of a loader like this one goes on with the batch
        after the last one that was handed out, whatever was read ahead."""
        return {"epoch": self._epoch, "batch": self._number(self._at), **self._identity()}

    def _identity(self) -> dict[str, int]:
        """What must be equal for the same batches to come."""
        return {"seed": self.seed, "shuffle": int(self.shuffle), "samples": self.samples,
                "batch_size": self.batch_size, "drop_last": int(self.drop_last)}

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Goes on where state_dict was taken: the next iteration yields the rest of that epoch."""
        for name, value in self._identity().items():
            if state.get(name) != value:
                raise errors.InvalidError(f"DataLoader: the state has {name} {state.get(name)}, "
                                          f"this loader {value}")
        epoch, number = (_whole(state.get(name)) for name in ("epoch", "batch"))
        update, j = divmod(number, self._together)
        at = update * self.micro_batches + j
        if epoch < 0 or not 0 <= update * self.micro_batches < len(self):
            raise errors.InvalidError(f"DataLoader: the state has epoch {epoch}, batch {number}, "
                                      f"but an epoch has {len(self) * self.world} batches")
        if j >= self.micro_batches:
            raise errors.InvalidError(f"DataLoader: the state is {j} batches behind the beginning "
                                      f"of an update, of which each rank reads "
                                      f"{self.micro_batches}")
        self._epoch, self._at, self._resumed = epoch, at, True


def _whole(number: object) -> int:
    """The number as Python's; -1 if it is no whole number."""
    return operator.index(number) if isinstance(number, SupportsIndex) else -1


def _common_length(arrays: Batch) -> int:
    lengths = [len(a) if a.ndim else -1 for a in arrays]
    if not lengths or min(lengths) < 0 or min(lengths) != max(lengths):
        shapes = ", ".join(str(a.shape) for a in arrays)
        raise errors.ShapeError("DataLoader: arrays must have one length on the first axis, not "
                                f"{shapes or 'be none'}")
    return lengths[0]


def _stacked(elements: Sequence[Array], at: int) -> Array:
    shapes = {element.shape for element in elements}
    if len(shapes) > 1:
        first, second = sorted(shapes)[:2]
        raise errors.ShapeError(f"DataLoader: element {at} of a batch's samples has shapes {first} "
                                f"and {second}: samples of a batch have one shape")
    return np.stack(elements)

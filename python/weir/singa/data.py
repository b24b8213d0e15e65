"""data - batches: DataLoader, of arrays or a data set, and SINGA's ImageBatchIter, of image files.

The background of ImageBatchIter is a thread: reading files and decoding images let other threads go
on, and a process forked while others compute is not safe.
"""
from __future__ import annotations

import os
import queue
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Self, TypeAlias, Union

import numpy as np
from numpy.typing import NDArray
from weir.loader import DataLoader, Dataset, to_tensors
from weir.typing import Path

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["DataLoader", "Dataset", "ImageBatchIter", "to_tensors"]

Labels: TypeAlias = Union[NDArray[np.int32], list[str]]
Batch: TypeAlias = tuple[NDArray[np.float32], Labels]
Item: TypeAlias = Union[Batch, Exception]       # of the thread that reads


class ImageBatchIter:
    """Yields batches (images (n, 3, height, width) in float32, labels) without end.

    Each line of the list is a path and a label or other text, separated by the delimiter;
    labels that are integers come as an int32 array, else the texts as a list. image_transform(path)
    returns a list of Pillow images of one size (weir.image_tool), each one image of the batch.
    """

    def __init__(self, img_list_file: Path, batch_size: int,
                 image_transform: Callable[[str], Sequence[Image]], shuffle: bool = True,
                 delimiter: str = " ", image_folder: Path | None = None,
                 capacity: int = 10) -> None:
        self.img_list_file = img_list_file
        self.batch_size = batch_size
        self.image_transform = image_transform
        self.shuffle = shuffle
        self.delimiter = delimiter
        self.image_folder = image_folder
        self.queue: queue.Queue[Item] = queue.Queue(capacity)
        self.samples: list[tuple[str, str]] = self._read_list()
        self.num_samples: int = len(self.samples)
        self._stop = threading.Event()
        self.p: threading.Thread | None = None

    def _read_list(self) -> list[tuple[str, str]]:
        samples = []
        with open(self.img_list_file, encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                path, found, meta = line.strip().partition(self.delimiter)
                if not found:
                    raise ValueError(f"{self.img_list_file}:{number}: no delimiter "
                                     f"{self.delimiter!r}")
                if self.image_folder:
                    path = os.path.join(self.image_folder, path)
                samples.append((path, meta.strip()))
        if not samples:
            raise ValueError(f"{self.img_list_file}: no images")
        return samples

    def start(self) -> None:
        """Starts reading ahead."""
        self._stop.clear()
        self.p = threading.Thread(target=self.run, daemon=True)
        self.p.start()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Batch:
        """Returns the next batch; raises the error of the background thread, if there is one."""
        if self.p is None:
            raise RuntimeError("ImageBatchIter: start() comes first")
        batch = self.queue.get()
        if isinstance(batch, Exception):
            self.end()
            raise batch
        return batch

    def end(self) -> None:
        """Stops reading and drops what was read ahead."""
        self._stop.set()
        if self.p is not None:
            while self.p.is_alive():
                self._drain()
                self.p.join(0.01)
            self._drain()
            self.p = None

    stop = end

    def _drain(self) -> None:
        try:
            while True:
                self.queue.get_nowait()
        except queue.Empty:
            pass

    def _put(self, item: Item) -> None:
        while not self._stop.is_set():
            try:
                self.queue.put(item, timeout=0.05)
                return
            except queue.Full:
                continue

    def _order(self) -> Iterator[tuple[str, str]]:
        """Samples, epoch after epoch."""
        while True:
            samples = list(self.samples)
            if self.shuffle:
                random.shuffle(samples)
            yield from samples

    def run(self) -> None:
        """Reads batches into the queue until end(): what start() runs in the background."""
        try:
            samples = self._order()
            while not self._stop.is_set():
                self._put(self._batch(samples))
        except Exception as error:      # for the thread that asks
            self._put(error)

    def _batch(self, samples: Iterator[tuple[str, str]]) -> Batch:
        images: list[NDArray[np.float32]] = []
        metas: list[str] = []
        while len(images) < self.batch_size:
            path, meta = next(samples)
            made = self.image_transform(path)
            if len(images) + len(made) > self.batch_size:
                raise ValueError(f"{len(made)} images of {path} do not fit a batch of "
                                 f"{self.batch_size} that has {len(images)}")
            for image in made:
                array = np.asarray(image.convert("RGB"), np.float32)
                images.append(array.transpose(2, 0, 1))
                metas.append(meta)
        return np.stack(images), _labels(metas)


def _labels(metas: list[str]) -> Labels:
    """int32 if all are integers."""
    try:
        return np.asarray([int(meta) for meta in metas], np.int32)
    except ValueError:
        return metas

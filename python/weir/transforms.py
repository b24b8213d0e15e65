"""transforms - changes of one image at a time: crops, flips, scaling, for weir.data.DataLoader.

An image is an array (channels, height, width). What is random depends on the generator alone that
the loader makes of its seed, the epoch and the sample's index. Names and meanings are torchvision's
where it has the same.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias, Union, cast

import numpy as np
from numpy.typing import NDArray

from . import errors
from .typing import Array

__all__ = ["CenterCrop", "Compose", "Normalize", "RandomCrop", "RandomHorizontalFlip",
           "RandomResizedCrop", "resize", "ToFloat", "Transform"]

Size: TypeAlias = Union[int, tuple[int, int]]       # height and width, or one number for both


def _pair(size: Size, what: str) -> tuple[int, int]:
    height, width = (size, size) if isinstance(size, int) else size
    if height < 1 or width < 1:
        raise errors.InvalidError(f"{what}: size is ({height}, {width}) but must be 1 or more")
    return height, width


def _check_image(x: Array, what: str) -> tuple[int, int]:
    """Height and width of an image."""
    if x.ndim != 3:
        raise errors.ShapeError(f"{what}: an image is (channels, height, width), not {x.shape}")
    return x.shape[1], x.shape[2]


class Transform:
    """The base of the transforms: apply changes an image by a generator's numbers."""

    def __call__(self, x: Array) -> Array:
        """apply with a fresh generator: for a single image, or inside a data set of PyTorch."""
        return self.apply(np.asarray(x), np.random.default_rng())

    def apply(self, x: Array, rng: np.random.Generator) -> Array:
        """The changed image; x stays as it is."""
        raise NotImplementedError(f"{type(self).__name__} does not define apply")


class Compose(Transform):
    """Several transforms, one after the other."""

    def __init__(self, transforms: Sequence[Transform]) -> None:
        self.transforms: list[Transform] = list(transforms)

    def apply(self, x: Array, rng: np.random.Generator) -> Array:
        for transform in self.transforms:
            x = transform.apply(x, rng)
        return x


class ToFloat(Transform):
    """float32: bytes as byte / 255, other numbers as they are."""

    def apply(self, x: Array, rng: np.random.Generator) -> Array:
        return x.astype(np.float32) / np.float32(255 if x.dtype == np.uint8 else 1)


class Normalize(Transform):
    """(x - mean) / std in float32, with a mean and a std for each channel."""

    mean: NDArray[np.float32]
    std: NDArray[np.float32]

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        self.mean, self.std = (np.asarray(v, np.float32).reshape(-1, 1, 1) for v in (mean, std))
        if not (self.std > 0).all() or self.mean.shape != self.std.shape:
            raise errors.InvalidError(f"Normalize: mean is {mean}, std is {std}, but they must be "
                                      "of one length, and each std above 0")

    def apply(self, x: Array, rng: np.random.Generator) -> Array:
        _check_image(x, "Normalize")
        if x.shape[0] != len(self.mean):
            raise errors.ShapeError(f"Normalize: the image has {x.shape[0]} channels, the mean "
                                    f"{len(self.mean)}")
        return cast("Array", (x.astype(np.float32) - self.mean) / self.std)


class RandomHorizontalFlip(Transform):
    """Left and right exchanged, with probability p."""

    def __init__(self, p: float = 0.5) -> None:
        if not 0 <= p <= 1:
            raise errors.InvalidError(f"RandomHorizontalFlip: p is {p} but must be from 0 to 1")
        self.p = p

    def apply(self, x: Array, rng: np.random.Generator) -> Array:
        _check_image(x, "RandomHorizontalFlip")
        return x[:, :, ::-1] if rng.random() < self.p else x


class RandomCrop(Transform):
    """A part of size (height, width) from anywhere, after `padding` rows and columns of `fill` were
    added on each side."""

    def __init__(self, size: Size, padding: int = 0, fill: float = 0) -> None:
        self.size: tuple[int, int] = _pair(size, "RandomCrop")
        self.padding: int = padding
        self.fill: float = fill
        if padding < 0:
            raise errors.InvalidError(f"RandomCrop: padding is {padding} but must be 0 or more")

    def apply(self, x: Array, rng: np.random.Generator) -> Array:
        height, width = (n + 2 * self.padding for n in _check_image(x, "RandomCrop"))
        h, w = self.size
        if h > height or w > width:
            raise errors.ShapeError(f"RandomCrop: size ({h}, {w}) exceeds the padded image "
                                    f"({height}, {width})")
        top, left = int(rng.integers(height - h + 1)), int(rng.integers(width - w + 1))
        if self.padding:
            p = self.padding
            x = np.pad(x, ((0, 0), (p, p), (p, p)), constant_values=self.fill)
        return x[:, top:top + h, left:left + w]


class CenterCrop(Transform):
    """The part of size (height, width) in the middle, as validation takes it."""

    def __init__(self, size: Size) -> None:
        self.size: tuple[int, int] = _pair(size, "CenterCrop")

    def apply(self, x: Array, rng: np.random.Generator) -> Array:
        height, width = _check_image(x, "CenterCrop")
        h, w = self.size
        if h > height or w > width:
            raise errors.ShapeError(f"CenterCrop: size ({h}, {w}) exceeds the image "
                                    f"({height}, {width})")
        top, left = round((height - h) / 2), round((width - w) / 2)
        return x[:, top:top + h, left:left + w]


def _weights(n: int, out: int) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float32]]:
    """Of each output place of a bilinear resize from n: both neighbours, and the second's weight;
    pixels are squares with centres at halves (align_corners=False of PyTorch)."""
    at = np.clip((np.arange(out) + 0.5) * (n / out) - 0.5, 0, n - 1)
    low = at.astype(np.intp)
    return low, np.minimum(low + 1, n - 1), (at - low).astype(np.float32)


def resize(x: Array, size: Size) -> NDArray[np.float32]:
    """An image resized to (height, width), bilinear without antialiasing, in float32."""
    height, width = _check_image(x, "resize")
    h, w = _pair(size, "resize")
    low, high, part = _weights(height, h)
    image = x.astype(np.float32)
    image = image[:, low] + (image[:, high] - image[:, low]) * part[:, None]
    low, high, part = _weights(width, w)
    return cast("NDArray[np.float32]",
                image[:, :, low] + (image[:, :, high] - image[:, :, low]) * part)


class RandomResizedCrop(Transform):
    """A part of random area and aspect ratio, resized to size (height, width) in float32.

    scale: smallest and largest share of the area; ratio: smallest and largest width / height, drawn
    evenly on a logarithmic scale. After ten draws that do not fit, the largest middle part whose
    ratio is allowed, as in torchvision.
    """

    def __init__(self, size: Size, scale: tuple[float, float] = (0.08, 1.0),
                 ratio: tuple[float, float] = (3 / 4, 4 / 3)) -> None:
        self.size: tuple[int, int] = _pair(size, "RandomResizedCrop")
        self.scale: tuple[float, float] = scale
        self.ratio: tuple[float, float] = ratio
        if not (0 < scale[0] <= scale[1] and 0 < ratio[0] <= ratio[1]):
            raise errors.InvalidError(f"RandomResizedCrop: scale is {scale}, ratio is {ratio}, but "
                                      "each must be two numbers above 0, the smaller first")

    def _part(self, height: int, width: int, rng: np.random.Generator) -> tuple[int, int, int, int]:
        """Top, left, height, width."""
        for _ in range(10):
            area = height * width * rng.uniform(*self.scale)
            ratio = math.exp(rng.uniform(math.log(self.ratio[0]), math.log(self.ratio[1])))
            w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < w <= width and 0 < h <= height:
                top, left = rng.integers(height - h + 1), rng.integers(width - w + 1)
                return int(top), int(left), h, w
        h, w = height, width
        if width / height < self.ratio[0]:
            h = max(round(width / self.ratio[0]), 1)
        elif width / height > self.ratio[1]:
            w = max(round(height * self.ratio[1]), 1)
        return (height - h) // 2, (width - w) // 2, h, w

    def apply(self, x: Array, rng: np.random.Generator) -> Array:
        top, left, h, w = self._part(*_check_image(x, "RandomResizedCrop"), rng)
        return cast("Array", resize(x[:, top:top + h, left:left + w], self.size))

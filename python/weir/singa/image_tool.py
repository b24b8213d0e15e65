"""image_tool - loading, cropping and changing images with Pillow, for training data.

Functions take and give a Pillow image. An ImageTool holds a list of images; its methods replace
each by one or several changed ones, or with inplace=False return these, and can be chained.
"""
from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Self, TypeVar
from weir.typing import Path

if TYPE_CHECKING:
    from PIL import Image, ImageEnhance
else:
    try:
        from PIL import Image, ImageEnhance
    except ImportError:
        Image = ImageEnhance = None


T = TypeVar("T")


def _need_pillow() -> None:
    if Image is None:
        raise ImportError("weir.image_tool needs Pillow: pip install pillow")


# ---- one image ----

def load_img(path: Path, grayscale: bool = False) -> Image.Image:
    """An image file, in RGB or in gray."""
    _need_pillow()
    with Image.open(path) as image:
        return image.convert("L" if grayscale else "RGB")


def crop(img: Image.Image, patch: tuple[int, int], position: str) -> Image.Image:
    """The part of size patch (width, height) at left_top, left_bottom, right_top, right_bottom or
    center."""
    width, height = img.size
    w, h = patch
    if w > width or h > height:
        raise ValueError(f"crop: patch {patch} exceeds the image of size {img.size}")
    places = {"left_top": (0, 0), "left_bottom": (0, height - h), "right_top": (width - w, 0),
              "right_bottom": (width - w, height - h),
              "center": ((width - w) // 2, (height - h) // 2)}
    if position not in places:
        raise ValueError(f"crop: unknown position {position!r} (expected {', '.join(places)})")
    left, top = places[position]
    return img.crop((left, top, left + w, top + h))


def crop_and_resize(img: Image.Image, patch: tuple[int, int], position: str) -> Image.Image:
    """The largest square at left or top, center (or middle), right or bottom, resized to patch."""
    width, height = img.size
    size = min(width, height)
    spare = (width - size, height - size)
    parts = {"left": 0.0, "top": 0.0, "center": 0.5, "middle": 0.5, "right": 1.0, "bottom": 1.0}
    if position not in parts:
        raise ValueError(f"crop_and_resize: unknown position {position!r} (expected "
                         f"{', '.join(parts)})")
    left, top = (int(s * parts[position]) for s in spare)
    return img.crop((left, top, left + size, top + size)).resize(patch, Image.Resampling.BILINEAR)


def resize(img: Image.Image, small_size: int) -> Image.Image:
    """Resizes an image so that its shorter side is small_size pixels; keeps its proportions."""
    width, height = img.size
    if width < height:
        return img.resize((small_size, round(small_size * height / width)),
                          Image.Resampling.BILINEAR)
    return img.resize((round(small_size * width / height), small_size), Image.Resampling.BILINEAR)


def scale(img: Image.Image, small_size: int) -> Image.Image:
    """resize, under SINGA's other name."""
    return resize(img, small_size)


def resize_by_hw(img: Image.Image, size: tuple[int, int]) -> Image.Image:
    """To (height, width)."""
    return img.resize((size[1], size[0]), Image.Resampling.BILINEAR)


def color_cast(img: Image.Image, offset: int) -> Image.Image:
    """A random number of -offset..offset is added to each channel."""
    shifts = [random.randint(-offset, offset) for _ in img.getbands()]
    bands = [band.point(lambda v, shift=shift: min(max(v + shift, 0), 255))
             for band, shift in zip(img.split(), shifts)]
    return Image.merge(img.mode, bands)


def enhance(img: Image.Image, scale: float) -> Image.Image:
    """Colour, brightness, contrast and sharpness times a random factor of 1 - scale..1 + scale."""
    for kind in (ImageEnhance.Color, ImageEnhance.Brightness, ImageEnhance.Contrast,
                 ImageEnhance.Sharpness):
        img = kind(img).enhance(random.uniform(1 - scale, 1 + scale))
    return img


def flip(img: Image.Image) -> Image.Image:
    """Left becomes right."""
    return img.transpose(Image.Transpose.FLIP_LEFT_RIGHT)


def flip_down(img: Image.Image) -> Image.Image:
    """Top becomes bottom."""
    return img.transpose(Image.Transpose.FLIP_TOP_BOTTOM)


def get_list_sample(items: Iterable[T], sample_size: int) -> list[T]:
    """As many different ones."""
    return random.sample(list(items), sample_size)


# ---- a list of them ----

class ImageTool:
    """Images that every method changes; num_case: the number of results of each image."""

    def __init__(self) -> None:
        _need_pillow()
        self.imgs: list[Image.Image] = []
        self._augmentations = 1

    def num_augmentation(self) -> int:
        """The number of images that the methods called since load or set make of each image."""
        return self._augmentations

    def load(self, path: Path, grayscale: bool = False) -> Self:
        """Reads one image from a path, as greyscale if asked; returns self."""
        self.imgs = [load_img(path, grayscale)]
        self._augmentations = 1
        return self

    def set(self, imgs: Iterable[Image.Image]) -> Self:
        """Replaces the images by a list of Pillow images; returns self."""
        self.imgs = list(imgs)
        self._augmentations = 1
        return self

    def append(self, img: Image.Image) -> Self:
        """Adds a Pillow image; returns self."""
        self.imgs.append(img)
        return self

    def get(self) -> list[Image.Image]:
        """The list of Pillow images, not a copy."""
        return self.imgs

    def _each(self, change: Callable[[Image.Image, T], Image.Image], choices: Iterable[T],
              num_case: int, inplace: bool) -> Self | list[Image.Image]:
        """Replaces every image by num_case results, one for each of as many choices."""
        choices = list(choices)
        if not 0 < num_case <= len(choices):
            raise ValueError(f"num_case is {num_case}, but there are only {len(choices)} choices")
        new = [change(img, choice) for img in self.imgs
               for choice in (choices if num_case == len(choices)
                              else get_list_sample(choices, num_case))]
        if not inplace:
            return new
        self.imgs = new
        self._augmentations *= num_case
        return self

    def resize_by_range(self, rng: tuple[int, int],
                        inplace: bool = True) -> Self | list[Image.Image]:
        """The shorter side: a random size of rng[0]..rng[1] - 1."""
        return self._each(resize, range(*rng), 1, inplace)

    def resize_by_list(self, size_list: Sequence[int], num_case: int = 1,
                       inplace: bool = True) -> Self | list[Image.Image]:
        """Resizes each image so that its shorter side has a size drawn from the list, in pixels;
        num_case different sizes make num_case images."""
        return self._each(resize, size_list, num_case, inplace)

    def scale_by_range(self, rng: tuple[int, int],
                       inplace: bool = True) -> Self | list[Image.Image]:
        """Resizes each image to a size drawn from range(*rng), in pixels."""
        return self._each(scale, range(*rng), 1, inplace)

    def scale_by_list(self, size_list: Sequence[int], num_case: int = 1,
                      inplace: bool = True) -> Self | list[Image.Image]:
        """Resizes each image to sizes drawn from the list; num_case of them."""
        return self._each(scale, size_list, num_case, inplace)

    def resize_by_hw(self, size: tuple[int, int], inplace: bool = True) -> Self | list[Image.Image]:
        """To (height, width)."""
        return self._each(resize_by_hw, [size], 1, inplace)

    def resize_by_hw_range(self, rng: tuple[tuple[int, int], tuple[int, int]],
                           inplace: bool = True) -> "ImageTool | list[Image.Image]":
        """To a random (height, width): of range(*rng[0]) and of range(*rng[1])."""
        size = random.randrange(*rng[0]), random.randrange(*rng[1])
        return self._each(resize_by_hw, [size], 1, inplace)

    def resize_by_hw_list(self, size_list: Sequence[tuple[int, int]], num_case: int = 1,
                          inplace: bool = True) -> "ImageTool | list[Image.Image]":
        """Resizes each image to (height, width) drawn from the list; num_case of them."""
        return self._each(resize_by_hw, size_list, num_case, inplace)

    def rotate_by_range(self, rng: tuple[int, int],
                        inplace: bool = True) -> Self | list[Image.Image]:
        """Rotates by a random angle of rng[0]..rng[1] - 1 degrees."""
        return self._each(lambda img, angle: img.rotate(angle), range(*rng), 1, inplace)

    def rotate_by_list(self, angle_list: Sequence[float], num_case: int = 1,
                       inplace: bool = True) -> Self | list[Image.Image]:
        """Turns each image by angles drawn from the list, in degrees counterclockwise."""
        return self._each(lambda img, angle: img.rotate(angle), angle_list, num_case, inplace)

    def crop3(self, patch: tuple[int, int], num_case: int = 1,
              inplace: bool = True) -> Self | list[Image.Image]:
        """Crops the largest squares at both ends and in the middle, resized to patch."""
        return self._each(lambda img, place: crop_and_resize(img, patch, place),
                          ("left", "center", "right"), num_case, inplace)

    def crop5(self, patch: tuple[int, int], num_case: int = 1,
              inplace: bool = True) -> Self | list[Image.Image]:
        """Crops parts at the four corners and the centre."""
        return self._each(lambda img, place: crop(img, patch, place),
                          ("left_top", "left_bottom", "right_top", "right_bottom", "center"),
                          num_case, inplace)

    def crop8(self, patch: tuple[int, int], num_case: int = 1,
              inplace: bool = True) -> Self | list[Image.Image]:
        """Of crop5's and crop3's."""
        choices = [(crop, p) for p in ("left_top", "left_bottom", "right_top", "right_bottom",
                                       "center")]
        choices += [(crop_and_resize, p) for p in ("left", "center", "right")]
        return self._each(lambda img, choice: choice[0](img, patch, choice[1]), choices, num_case,
                          inplace)

    def random_crop(self, patch: tuple[int, int], inplace: bool = True) -> Self | list[Image.Image]:
        """Crops a part of size patch (width, height) at a random place."""
        def at_random(img: Image.Image, size: tuple[int, int]) -> Image.Image:
            left, top = (random.randint(0, have - want) for have, want in zip(img.size, size))
            return img.crop((left, top, left + size[0], top + size[1]))
        return self._each(at_random, [patch], 1, inplace)

    def random_crop_resize(self, patch: tuple[int, int],
                           inplace: bool = True) -> Self | list[Image.Image]:
        """Crops a random part with 8 to 100 % of the area and sides of 3:4 to 4:3, and resizes it
        to patch."""
        def at_random(img: Image.Image, size: tuple[int, int]) -> Image.Image:
            area = random.uniform(0.08, 1.0) * img.size[0] * img.size[1]
            ratio = random.uniform(3 / 4, 4 / 3)
            w = min(max(int((area * ratio) ** 0.5), 1), img.size[0])
            h = min(max(int((area / ratio) ** 0.5), 1), img.size[1])
            left, top = random.randint(0, img.size[0] - w), random.randint(0, img.size[1] - h)
            return img.crop((left, top, left + w, top + h)).resize(size, Image.Resampling.BILINEAR)
        return self._each(at_random, [patch], 1, inplace)

    def _maybe(self, change: Callable[[Image.Image], Image.Image], num_case: int,
               inplace: bool) -> Self | list[Image.Image]:
        """Changes the image or not, at random (num_case 1), or returns both versions (2)."""
        return self._each(lambda img, yes: change(img) if yes else img, (True, False), num_case,
                          inplace)

    def flip(self, num_case: int = 1, inplace: bool = True) -> Self | list[Image.Image]:
        """Mirrors each image left to right at random (num_case 1), or adds the mirrored one (2)."""
        return self._maybe(flip, num_case, inplace)

    def flip_down(self, num_case: int = 1, inplace: bool = True) -> Self | list[Image.Image]:
        """Mirrors each image top to bottom at random (num_case 1), or adds the mirrored one (2)."""
        return self._maybe(flip_down, num_case, inplace)

    def color_cast(self, offset: int = 20, num_case: int = 1,
                   inplace: bool = True) -> Self | list[Image.Image]:
        """Adds to each channel a number drawn from -offset to offset, at random (num_case 1) or in
        a second image (2)."""
        return self._maybe(lambda img: color_cast(img, offset), num_case, inplace)

    def enhance(self, scale: float = 0.2, num_case: int = 1,
                inplace: bool = True) -> Self | list[Image.Image]:
        """Changes colour, brightness, contrast and sharpness by factors within `scale` of 1, at
        random (num_case 1) or in a second image (2)."""
        return self._maybe(lambda img: enhance(img, scale), num_case, inplace)

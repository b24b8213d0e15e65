"""test_transforms - crops, flips and scaling of weir.transforms, by their definitions."""
import numpy as np
import pytest

import weir
from weir import transforms as T

IMAGE = np.arange(2 * 4 * 5, dtype=np.uint8).reshape(2, 4, 5)


def rng(i=0):
    return np.random.default_rng(i)


def test_to_float_and_normalize():
    x = T.ToFloat()(IMAGE)
    assert x.dtype == np.float32 and x[1, 3, 4] == np.float32(39) / np.float32(255)
    y = T.Normalize([0.5, 0.25], [0.5, 2.0])(x)
    assert y.dtype == np.float32
    np.testing.assert_array_equal(y[1], (x[1] - np.float32(0.25)) / np.float32(2))


def test_flip():
    np.testing.assert_array_equal(T.RandomHorizontalFlip(1.0)(IMAGE), IMAGE[:, :, ::-1])
    np.testing.assert_array_equal(T.RandomHorizontalFlip(0.0)(IMAGE), IMAGE)
    flips = [T.RandomHorizontalFlip().apply(IMAGE, rng(i))[0, 0, 0] == 4 for i in range(400)]
    assert 160 < sum(flips) < 240


def test_crop_with_padding_is_a_part_of_the_padded_image():
    padded = np.full((2, 8, 9), 7, np.uint8)
    padded[:, 2:6, 2:7] = IMAGE
    parts = [padded[:, i:i + 4, j:j + 5] for i in range(5) for j in range(5)]
    seen = set()
    for i in range(300):
        got = T.RandomCrop((4, 5), padding=2, fill=7).apply(IMAGE, rng(i))
        seen.add(next(at for at, part in enumerate(parts) if np.array_equal(part, got)))
    assert seen == set(range(25))


def test_center_crop():
    np.testing.assert_array_equal(T.CenterCrop(2)(IMAGE), IMAGE[:, 1:3, 2:4])


def test_resize():
    assert T.resize(IMAGE, (4, 5)).tolist() == IMAGE.tolist()
    row = np.array([[[0, 4]]], np.uint8)
    assert T.resize(row, (1, 4)).tolist() == [[[0, 1, 3, 4]]]       # PyTorch's, without corners
    assert T.resize(np.array([[[0, 2, 4, 6]]]), (1, 2)).tolist() == [[[1, 5]]]


def test_resize_as_pytorch():
    torch = pytest.importorskip("torch")
    x = rng().random((3, 11, 7), np.float32)
    for size in ((5, 13), (22, 3)):
        wanted = torch.nn.functional.interpolate(torch.from_numpy(x)[None], size, mode="bilinear",
                                                 align_corners=False)[0].numpy()
        np.testing.assert_allclose(T.resize(x, size), wanted, atol=2e-6)


def test_resized_crop():
    got = T.RandomResizedCrop((4, 5), scale=(1, 1), ratio=(1.25, 1.25)).apply(IMAGE, rng())
    np.testing.assert_array_equal(got, IMAGE)
    rows = np.arange(100, dtype=np.float32).reshape(1, 100, 1).repeat(100, 2)
    crop = T.RandomResizedCrop(10, scale=(0.25, 0.25), ratio=(1, 1))
    for i in range(20):
        got = crop.apply(rows, rng(i))      # 50 rows become 10: each is 5 after the one before
        np.testing.assert_allclose(np.diff(got[0, :, 0]), 5, atol=1e-4)
    wide = T.RandomResizedCrop(2, scale=(1, 1), ratio=(1, 1)).apply(IMAGE, rng())
    np.testing.assert_array_equal(wide, T.resize(IMAGE[:, :, 0:4], 2))     # no draw fits


def test_compose_and_input_unchanged():
    before = IMAGE.copy()
    both = T.Compose([T.RandomCrop(4, padding=1), T.ToFloat(), T.RandomHorizontalFlip()])
    a, b = both.apply(IMAGE, rng(3)), both.apply(IMAGE, rng(3))
    np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(IMAGE, before)
    assert a.shape == (2, 4, 4)


@pytest.mark.parametrize("make, error, words", [
    (lambda: T.RandomCrop(6)(IMAGE), weir.ShapeError, r"\(6, 6\) exceeds .* \(4, 5\)"),
    (lambda: T.CenterCrop(6)(IMAGE), weir.ShapeError, "exceeds the image"),
    (lambda: T.RandomCrop(0), weir.InvalidError, "must be 1 or more"),
    (lambda: T.RandomCrop(2, padding=-1), weir.InvalidError, "padding is -1"),
    (lambda: T.Normalize([0.5], [0.0]), weir.InvalidError, "each std above 0"),
    (lambda: T.Normalize([0.5], [0.5])(IMAGE), weir.ShapeError, "2 channels, the mean 1"),
    (lambda: T.RandomHorizontalFlip(1.5), weir.InvalidError, "p is 1.5"),
    (lambda: T.RandomResizedCrop(2, scale=(1, 0.5)), weir.InvalidError, "the smaller first"),
    (lambda: T.RandomHorizontalFlip()(np.ones((2, 2))), weir.ShapeError, "not .2, 2."),
])
def test_mistakes(make, error, words):
    with pytest.raises(error, match=words):
        make()

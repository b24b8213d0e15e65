"""test_data - batches of images from files, changes of images, helpers."""
import numpy as np
import pytest

from weir import autograd, image_tool, layer, singa_wrap, tensor, utils
from weir.data import ImageBatchIter

Image = pytest.importorskip("PIL.Image")


@pytest.fixture
def folder(tmp_path):
    """Six images of one colour each, and a list of them with labels."""
    lines = []
    for i in range(6):
        Image.new("RGB", (8, 6), (i, 10 * i, 255 - i)).save(tmp_path / f"{i}.png")
        lines.append(f"{i}.png {i % 3}")
    (tmp_path / "list.txt").write_text("\n".join(lines) + "\n\n")
    return tmp_path


def load(path):
    return [image_tool.load_img(path)]


def batches(folder, n, **kwargs):
    kwargs = {"image_transform": load, "shuffle": False, "image_folder": str(folder)} | kwargs
    data = ImageBatchIter(str(folder / "list.txt"), n, **kwargs)
    data.start()
    return data


def test_batches_in_order(folder):
    data = batches(folder, 4)
    x, y = next(data)
    data.end()
    assert x.shape == (4, 3, 6, 8) and x.dtype == np.float32
    assert y.tolist() == [0, 1, 2, 0] and y.dtype == np.int32
    np.testing.assert_array_equal(x[:, 1, 0, 0], [0, 10, 20, 30])
    assert data.num_samples == 6


def test_epochs_follow_each_other(folder):
    data = batches(folder, 4)
    labels = np.concatenate([next(data)[1] for _ in range(3)])
    data.end()
    assert labels.tolist() == [0, 1, 2] * 4


def test_shuffled_epochs_have_every_image_once(folder):
    data = batches(folder, 6, shuffle=True)
    for _ in range(3):
        x, _ = next(data)
        assert sorted(x[:, 0, 0, 0]) == [0, 1, 2, 3, 4, 5]
    data.end()


def test_several_images_of_a_file_and_texts(folder):
    (folder / "list.txt").write_text("0.png,a b\n1.png,c\n")
    data = batches(folder, 4, image_transform=lambda p: load(p) * 2, delimiter=",")
    x, y = next(data)
    data.stop()
    assert y == ["a b", "a b", "c", "c"] and len(x) == 4


def test_errors_of_the_background_arrive(folder):
    (folder / "list.txt").write_text("none.png 1\n")
    data = batches(folder, 1)
    with pytest.raises(FileNotFoundError):
        next(data)
    data = batches(folder, 1, image_transform=lambda p: [1, 2])
    with pytest.raises(ValueError, match="do not fit"):
        next(data)


def test_wrong_lists(folder):
    (folder / "list.txt").write_text("0.png\n")
    with pytest.raises(ValueError, match="list.txt:1"):
        batches(folder, 1)
    (folder / "list.txt").write_text("\n")
    with pytest.raises(ValueError, match="no images"):
        batches(folder, 1)
    with pytest.raises(FileNotFoundError):
        ImageBatchIter(str(folder / "none.txt"), 1, load)
    (folder / "list.txt").write_text("0.png 1\n")
    with pytest.raises(RuntimeError):
        next(ImageBatchIter(str(folder / "list.txt"), 1, load))


def test_end_stops_a_full_queue(folder):
    data = batches(folder, 1, capacity=1)
    next(data)
    data.end()
    assert data.p is None


# ---- images ----

def picture(width=8, height=6):
    """Red grows to the right, green downwards."""
    a = np.zeros((height, width, 3), np.uint8)
    a[..., 0] = 10 * np.arange(width)
    a[..., 1] = (10 * np.arange(height))[:, None]
    return Image.fromarray(a)


@pytest.mark.parametrize("position, first", [("left_top", (0, 0)), ("left_bottom", (0, 30)),
                                             ("right_top", (40, 0)), ("right_bottom", (40, 30)),
                                             ("center", (20, 10))])
def test_crop(position, first):
    img = image_tool.crop(picture(), (4, 3), position)
    assert img.size == (4, 3) and img.getpixel((0, 0))[:2] == first


def test_crop_refuses():
    with pytest.raises(ValueError):
        image_tool.crop(picture(), (9, 3), "center")
    with pytest.raises(ValueError):
        image_tool.crop(picture(), (3, 3), "middle of nowhere")
    with pytest.raises(ValueError):
        image_tool.crop_and_resize(picture(), (3, 3), "nowhere")


@pytest.mark.parametrize("position, first", [("left", 0), ("center", 10), ("right", 20),
                                             ("top", 0), ("middle", 10), ("bottom", 20)])
def test_crop_and_resize(position, first):
    img = image_tool.crop_and_resize(picture(), (6, 6), position)
    assert img.size == (6, 6) and img.getpixel((0, 0))[0] == first


def test_sizes():
    assert image_tool.resize(picture(), 12).size == (16, 12)
    assert image_tool.scale(picture(6, 8), 3).size == (3, 4)
    assert image_tool.resize_by_hw(picture(), (5, 7)).size == (7, 5)


def test_flips():
    assert image_tool.flip(picture()).getpixel((0, 0)) == picture().getpixel((7, 0))
    assert image_tool.flip_down(picture()).getpixel((0, 0)) == picture().getpixel((0, 5))


def test_colours():
    shift = np.asarray(image_tool.color_cast(picture(), 5), int) - np.asarray(picture(), int)
    assert np.abs(shift).max() <= 5 and image_tool.enhance(picture(), 0.2).size == (8, 6)
    np.testing.assert_array_equal(np.asarray(image_tool.color_cast(picture(), 0)),
                                  np.asarray(picture()))


def test_gray(folder):
    assert image_tool.load_img(folder / "0.png", grayscale=True).mode == "L"


TOOLS = {
    "resize_by_range": (((5, 9),), 1), "scale_by_range": (((5, 9),), 1),
    "rotate_by_range": (((-10, 10),), 1), "resize_by_list": (([5, 9], 2), 2),
    "scale_by_list": (([5, 9], 1), 1), "rotate_by_list": (([0, 90, 180], 3), 3),
    "resize_by_hw": (((4, 4),), 1), "crop3": (((4, 4), 3), 3), "crop5": (((4, 4), 2), 2),
    "crop8": (((4, 4), 8), 8), "random_crop": (((3, 5),), 1),
    "random_crop_resize": (((4, 4),), 1), "flip": ((2,), 2), "flip_down": ((1,), 1),
    "color_cast": ((10, 2), 2), "enhance": ((0.1, 2), 2),
}


@pytest.mark.parametrize("name", TOOLS)
def test_tool(name, folder):
    args, count = TOOLS[name]
    tool = image_tool.ImageTool().load(folder / "1.png").append(picture())
    new = getattr(tool, name)(*args, inplace=False)
    assert len(new) == 2 * count and len(tool.get()) == 2
    assert getattr(tool, name)(*args) is tool and len(tool.get()) == 2 * count
    if name.startswith(("random_crop", "crop")):
        assert {img.size for img in new} == {tuple(args[0])}


def test_chain():
    tool = image_tool.ImageTool().set([picture()])
    assert len(tool.resize_by_list([12]).crop5((5, 5), 5).flip(2).get()) == 10
    with pytest.raises(ValueError):
        tool.crop3((2, 2), 4)


def test_without_pillow(monkeypatch):
    monkeypatch.setattr(image_tool, "Image", None)
    with pytest.raises(ImportError, match="pip install"):
        image_tool.ImageTool()
    with pytest.raises(ImportError, match="pip install"):
        image_tool.load_img("x.png")


# ---- helpers ----

@pytest.mark.parametrize("mode, odd", [("SAME_UPPER", (0, 1, 0, 0)), ("SAME_LOWER", (1, 0, 0, 0))])
def test_padding(mode, odd):
    assert utils.get_padding_shape(mode, (6, 5), (3, 3), (2, 1)) == ([0, 0, 1, 1], odd)


@pytest.mark.parametrize("mode, shape", [("SAME_UPPER", [3, 5]), ("SAME_LOWER", [3, 5]),
                                         ("VALID", [2, 3]), ("NOTSET", [2, 3])])
def test_output_shape(mode, shape):
    assert utils.get_output_shape(mode, (6, 5), (3, 3), (2, 1)) == shape
    with pytest.raises(ValueError):
        utils.get_output_shape("SAME", (6, 5), (3, 3), (2, 1))


@pytest.mark.parametrize("is_pool", [False, True])
def test_odd_padding(is_pool):
    x = np.random.default_rng(0).normal(size=(2, 3, 4, 5)).astype(np.float32)
    raw = tensor.from_numpy(x).data
    padded = utils.handle_odd_pad_fwd(raw, (0, 1, 2, 0), is_pool)
    wanted = np.pad(x, ((0, 0), (0, 0), (0, 1), (2, 0)), mode="edge" if is_pool else "constant")
    np.testing.assert_array_equal(padded.to_numpy(), wanted)
    dy = np.ones(padded.shape(), np.float32)
    dx = utils.handle_odd_pad_bwd(tensor.from_numpy(dy).data, (0, 1, 2, 0), is_pool).to_numpy()
    count = np.ones((4, 5))
    if is_pool:
        count[-1] *= 2
        count[:, 0] *= 3
    np.testing.assert_array_equal(dx, np.broadcast_to(count, x.shape))


def test_handles_of_another_shape():
    x = tensor.Tensor((2, 3, 6, 6)).data
    conv = singa_wrap.ConvHandle(x, (3, 3), (1, 1), (0, 0), 3, 4, True, 1)
    assert utils.same_pad_shape_check(conv, "SAME_UPPER", x).pad_h == 1
    new = utils.re_new_handle(conv, tensor.Tensor((5, 3, 8, 8)).data)
    assert (new.batchsize, new.kernel_h, new.num_filters, new.pad_h) == (5, 3, 4, 0)
    assert utils.same_pad_shape_check(new, "VALID", x) is not None
    pool = singa_wrap.PoolingHandle(x, (2, 2), (2, 2), (0, 0), False)
    again = utils.re_new_handle(pool, tensor.Tensor((5, 3, 8, 8)).data)
    assert (again.batchsize, again.is_max_pooling) == (5, False)


def test_progress(capsys):
    utils.update_progress(0.5, "half")
    utils.update_progress(1, "done")
    utils.update_progress("x", "")
    assert "50.0% half" in (text := capsys.readouterr().out) and "100.0% done\n" in text


def test_unicode():
    assert utils.force_unicode(b"a\xc3\xa4") == utils.force_unicode("aä") == "aä"


def test_walk_over_operators(training):
    x = tensor.from_numpy(np.ones((2, 3), np.float32))
    x.name = "x"
    net = layer.Linear(4)
    y = autograd.add(h := autograd.relu(net(x)), h)
    nodes, weights, inputs = utils.post_order_recursive(y.creator, y)
    kinds = [type(op).__name__ for op in nodes.values()]
    assert kinds == ["Matmul", "AddBias", "ReLU", "Add"]
    assert list(weights) == ["W", "b"] and weights["W"] is net.W
    assert list(inputs) == ["x"]

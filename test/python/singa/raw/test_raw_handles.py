"""test_raw_handles - SINGA's convolution, pooling and batch normalisation of raw tensors.

Values against NumPy written out, gradients against central differences in float64.
"""
import numpy as np
import pytest

from arraycheck import f32, raw, same
from conftest import run
from weir import core
from weir import singa_wrap as singa


def slope(function, x, dy):
    """The gradient of x of sum(function(x) dy), by central differences."""
    x = x.astype(np.float64)
    out = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        old = x[i]
        x[i] = old + 1e-5
        up = (function(x) * dy).sum()
        x[i] = old - 1e-5
        out[i] = (up - (function(x) * dy).sum()) / 2e-5
        x[i] = old
    return out


def windows(x, kernel, stride, pad, value):
    """Yields (row, column, window (n, c, kh, kw)) of the padded images."""
    ph, pw = pad
    padded = np.pad(x, ((0, 0), (0, 0), (ph, ph), (pw, pw)), constant_values=value)
    rows = (padded.shape[2] - kernel[0]) // stride[0] + 1
    columns = (padded.shape[3] - kernel[1]) // stride[1] + 1
    for i in range(rows):
        for j in range(columns):
            top, left = i * stride[0], j * stride[1]
            yield i, j, padded[:, :, top:top + kernel[0], left:left + kernel[1]]


def collect(parts):
    """An array (n, c, rows, columns) of (row, column, (n, c))."""
    parts = list(parts)
    rows, columns = parts[-1][0] + 1, parts[-1][1] + 1
    out = np.zeros((*parts[0][2].shape, rows, columns))
    for i, j, part in parts:
        out[:, :, i, j] = part
    return out


def convolve(x, w, b, stride, pad, groups):
    out = []
    for xs, ws in zip(np.split(x, groups, 1), np.split(w, groups, 0)):
        out.append(collect((i, j, np.tensordot(part, ws, ([1, 2, 3], [1, 2, 3])))
                           for i, j, part in windows(xs, w.shape[2:], stride, pad, 0.0)))
    return np.concatenate(out, 1) + (0 if b is None else b.reshape(1, -1, 1, 1))


CONVOLUTIONS = {
    "plain": ((1, 1), (0, 0), 1, True), "stride and pad": ((2, 1), (1, 2), 1, True),
    "groups": ((1, 1), (1, 1), 2, True), "no bias": ((1, 2), (0, 1), 1, False),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution(mode, name):
    stride, pad, groups, bias = CONVOLUTIONS[name]
    x, w, b = f32(2, 4, 5, 6), f32(6, 4 // groups, 3, 2), f32(6) * bias
    y = convolve(x, w, b, stride, pad, groups)
    dy = f32(*y.shape)
    xs = [raw(a) for a in (x, w, b, dy)]
    handle = singa.ConvHandle(xs[0], (3, 2), stride, pad, 4, 6, bias, groups)

    def call():
        x, w, b, dy = xs
        return (singa.CpuConvForward(x, w, b, handle), singa.CpuConvBackwardx(dy, w, x, handle),
                singa.CpuConvBackwardW(dy, x, w, handle), singa.CpuConvBackwardb(dy, b, handle))
    got = run(call, core.cpu(), mode)
    expected = (y, slope(lambda v: convolve(v, w, b, stride, pad, groups), x, dy),
                slope(lambda v: convolve(x, v, b, stride, pad, groups), w, dy), dy.sum((0, 2, 3)))
    for t, e in zip(got, expected):
        same(t, e.astype(np.float32), 1e-4, 1e-4)


def test_attributes_of_a_convolution():
    h = singa.ConvHandle(raw(f32(2, 4, 5, 6)), [3, 2], [2, 1], [1, 0], 4, 6, True, 2)
    assert (h.batchsize, h.pad_h, h.pad_w, h.stride_h, h.stride_w, h.kernel_h, h.kernel_w,
            h.channels, h.num_filters, h.group, h.bias_term) == (2, 1, 0, 2, 1, 3, 2, 4, 6, 2, True)


def pool(x, kernel, stride, pad, largest):
    if largest:
        return collect((i, j, part.max((2, 3)))
                       for i, j, part in windows(x, kernel, stride, pad, -np.inf))
    inside = collect((i, j, part.sum((2, 3)))
                     for i, j, part in windows(np.ones_like(x), kernel, stride, pad, 0.0))
    return collect((i, j, part.sum((2, 3)))
                   for i, j, part in windows(x, kernel, stride, pad, 0.0)) / inside


@pytest.mark.parametrize("largest", [True, False], ids=["max", "mean"])
@pytest.mark.parametrize("kernel, stride, pad", [((2, 2), (2, 2), (0, 0)), ((3, 2), (1, 2), (1, 0)),
                                                 ((3, 3), (2, 2), (1, 1))], ids=str)
def test_pooling(mode, largest, kernel, stride, pad):
    x = f32(2, 3, 6, 5)
    y = pool(x, kernel, stride, pad, largest)
    dy = f32(*y.shape)
    rx, rdy = raw(x), raw(dy)
    handle = singa.PoolingHandle(rx, kernel, stride, pad, largest)

    def call():
        y = singa.CpuPoolingForward(handle, rx)
        return y, singa.CpuPoolingBackward(handle, rdy, rx, y)
    got = run(call, core.cpu(), mode)
    same(got[0], y.astype(np.float32))
    same(got[1], slope(lambda v: pool(v, kernel, stride, pad, largest), x, dy).astype(np.float32),
         1e-4, 1e-4)
    assert (handle.pooled_height, handle.pooled_width) == y.shape[2:]
    assert (handle.batchsize, handle.is_max_pooling) == (2, largest)


def normalise(x, scale, bias):
    axes = tuple(a for a in range(x.ndim) if a != 1)
    shape = tuple(-1 if a == 1 else 1 for a in range(x.ndim))
    deviation = np.sqrt(x.var(axes, keepdims=True) + 1e-5)
    return (x - x.mean(axes, keepdims=True)) / deviation * scale.reshape(shape) + \
        bias.reshape(shape)


@pytest.mark.parametrize("shape", [(4, 3, 2, 5), (6, 3)], ids=str)
@pytest.mark.parametrize("stat", [(3,), (1, 3, 1, 1)], ids=str)
@pytest.mark.parametrize("factor", [0.9, 0.1])
def test_batch_norm_training(mode, shape, stat, factor):
    x, scale, bias, dy = f32(*shape) * 2 + 1, f32(3), f32(3), f32(*shape)
    mean, var = f32(3), np.abs(f32(3))
    axes = tuple(a for a in range(x.ndim) if a != 1)
    rx, rs, rb, rdy = raw(x), raw(scale.reshape(stat)), raw(bias.reshape(stat)), raw(dy)
    rm, rv = raw(mean.reshape(stat)), raw(var.reshape(stat))
    handle = singa.BatchNormHandle(factor, rx)
    assert (handle.factor, handle.batchsize) == (factor, shape[0])

    def call():
        m, v = rm.Clone(), rv.Clone()
        y, bm, bv = singa.CpuBatchNormForwardTraining(handle, rx, rs, rb, m, v)
        return (y, bm, bv, m, v,
                *singa.CpuBatchNormBackwardx(handle, y, rdy, rx, rs, rb, bm, bv))
    y, bm, bv, m, v, dx, ds, db = run(call, core.cpu(), mode)
    same(y, normalise(x, scale, bias).astype(np.float32), 1e-4, 1e-5)
    same(bm, x.mean(axes).reshape(stat))
    same(bv, x.var(axes).reshape(stat))
    same(m, (mean * (1 - factor) + x.mean(axes) * factor).reshape(stat).astype(np.float32))
    same(v, (var * (1 - factor) + x.var(axes, ddof=1) * factor).reshape(stat).astype(np.float32))
    same(dx, slope(lambda a: normalise(a, scale, bias), x, dy).astype(np.float32), 1e-3, 1e-4)
    same(ds, slope(lambda a: normalise(x, a, bias), scale, dy).reshape(stat).astype(np.float32),
         1e-3, 1e-4)
    same(db, dy.sum(axes).reshape(stat), 1e-4, 1e-5)


def test_running_statistics_move_on_at_each_run():
    x = f32(4, 3, 2, 2)
    rx, one, zero, m, v = raw(x), *(raw(np.full(3, c, np.float32)) for c in (1, 0, 0, 1))
    handle = singa.BatchNormHandle(0.5, rx)
    dev = core.cpu()
    dev.EnableGraph(True)
    singa.CpuBatchNormForwardTraining(handle, rx, one, zero, m, v)
    dev.EnableGraph(False)
    for share in (0.5, 0.75, 0.875):
        dev.RunGraph()
        same(m, x.mean((0, 2, 3)) * np.float32(share))
    dev.Reset()


def test_batch_norm_inference(mode):
    x, scale, bias, mean, var = f32(4, 3, 2, 5), f32(3), f32(3), f32(3), np.abs(f32(3)) + 0.1
    raws = [raw(a) for a in (x, scale, bias, mean, var)]
    handle = singa.BatchNormHandle(0.9, raw(f32(4, 3)))     # of a matrix, called with images
    y = run(lambda: singa.CpuBatchNormForwardInference(handle, *raws), core.cpu(), mode)
    s, b, m, v = (a.reshape(1, 3, 1, 1) for a in (scale, bias, mean, var))
    same(y, ((x - m) / np.sqrt(v + 1e-5) * s + b).astype(np.float32), 1e-4, 1e-5)

"""test_layer_image - layers of images against NumPy, at once and recorded."""
import numpy as np
import pytest

from weir import autograd, layer, tensor

from layers import array, check, given, host, set_params


def conv_numpy(x, w, b=None, stride=(1, 1), pads=(0, 0, 0, 0), group=1):
    x = np.pad(x, ((0, 0), (0, 0), pads[:2], pads[2:]))
    n, _, h, wd = x.shape
    out, per, kh, kw = w.shape
    oh, ow = (h - kh) // stride[0] + 1, (wd - kw) // stride[1] + 1
    y = np.zeros((n, out, oh, ow))
    for o in range(out):
        first = o // (out // group) * per
        for i in range(oh):
            for j in range(ow):
                part = x[:, first:first + per, i * stride[0]:i * stride[0] + kh,
                         j * stride[1]:j * stride[1] + kw]
                y[:, o, i, j] = (part * w[o]).sum((1, 2, 3))
    return y if b is None else y + b[None, :, None, None]


CONVS = {
    "plain": (dict(), (1, 1), (0, 0, 0, 0), 1),
    "stride": (dict(stride=2), (2, 2), (0, 0, 0, 0), 1),
    "stride pair": (dict(stride=(1, 2)), (1, 2), (0, 0, 0, 0), 1),
    "padding": (dict(padding=1), (1, 1), (1, 1, 1, 1), 1),
    "padding pair": (dict(padding=(1, 2)), (1, 1), (1, 1, 2, 2), 1),
    "padding of sides": (dict(padding=(0, 1, 2, 0)), (1, 1), (0, 1, 2, 0), 1),
    "padding of equal sides": (dict(padding=(1, 1, 2, 2)), (1, 1), (1, 1, 2, 2), 1),
    "same upper": (dict(pad_mode="SAME_UPPER", stride=2), (2, 2), (0, 1, 0, 1), 1),
    "same lower": (dict(pad_mode="SAME_LOWER", stride=2), (2, 2), (1, 0, 1, 0), 1),
    "groups": (dict(group=2), (1, 1), (0, 0, 0, 0), 2),
    "no bias": (dict(bias=False), (1, 1), (0, 0, 0, 0), 1),
}


@pytest.mark.parametrize("case", CONVS)
def test_conv2d(case, mode):
    kwargs, stride, pads, group = CONVS[case]
    x, w, b = array(2, 4, 6, 6), array(4, 4 // group, 3, 3), array(4)
    net = layer.Conv2d(4, 3, **kwargs)
    net.initialize(given(x))
    bias = kwargs.get("bias", True)
    set_params(net, W=w, **({"b": b} if bias else {}))
    check(lambda: net(given(x)), conv_numpy(x, w, b if bias else None, stride, pads, group), mode,
          2e-5)


def test_conv2d_as_in_older_scripts(mode):
    x, w, b = array(2, 3, 6, 6), array(4, 3, 3, 3), array(4)
    net = layer.Conv2d(3, 4, 3, 2, 1)
    net.initialize(given(x))
    set_params(net, W=w, b=b)
    check(lambda: net(given(x)), conv_numpy(x, w, b, (2, 2), (1, 1, 1, 1)), mode, 2e-5)


def test_conv2d_with_relu(mode):
    x, w = array(2, 3, 5, 5), array(4, 3, 3, 3)
    net = layer.Conv2d(4, 3, bias=False, activation="RELU", cudnn_prefer="fastest")
    net.initialize(given(x))
    set_params(net, W=w)
    check(lambda: net(given(x)), np.maximum(conv_numpy(x, w), 0), mode, 2e-5)


def test_conv2d_of_another_batch():
    x, w = array(2, 3, 5, 5), array(4, 3, 3, 3)
    net = layer.Conv2d(4, 3, bias=False)
    net(given(x))
    set_params(net, W=w)
    big = array(7, 3, 8, 5)
    np.testing.assert_allclose(host(net(given(big))), conv_numpy(big, w), rtol=1e-5, atol=1e-5)
    assert net.handle.batchsize == 7


@pytest.mark.parametrize("kwargs, error", [(dict(dilation=2), ValueError), (dict(x=1), TypeError),
                                           (dict(pad_mode="SAME"), ValueError),
                                           (dict(activation="TANH"), ValueError),
                                           (dict(stride=(1, 2, 3)), TypeError)])
def test_conv2d_refuses(kwargs, error):
    with pytest.raises(error):
        layer.Conv2d(4, 3, **kwargs)


@pytest.mark.parametrize("made", [lambda: layer.Conv2d(5, 4, 3),
                                  lambda: layer.Conv2d(4, 3, group=2)])
def test_conv2d_of_the_wrong_channels(made):
    with pytest.raises(ValueError):
        made()(given(array(1, 3, 5, 5)))


def test_separable_conv2d(mode):
    x = array(2, 3, 5, 5)
    net = layer.SeparableConv2d(4, 3, padding=1)
    net(given(x))
    d, p = array(3, 1, 3, 3), array(4, 3, 1, 1)
    set_params(net, **{"depthwise_conv.W": d, "point_conv.W": p})
    wanted = conv_numpy(conv_numpy(x, d, pads=(1, 1, 1, 1), group=3), p)
    check(lambda: net(given(x)), wanted, mode, 2e-5)
    assert list(layer.SeparableConv2d(3, 4, 3).__dict__["_layers"]) == []


def pool_numpy(x, kernel, stride, pad, is_max):
    fill = -np.inf if is_max else np.nan
    x = np.pad(x.astype(float), ((0, 0), (0, 0), (pad[0],) * 2, (pad[1],) * 2),
               constant_values=fill)
    oh = (x.shape[2] - kernel[0]) // stride[0] + 1
    ow = (x.shape[3] - kernel[1]) // stride[1] + 1
    y = np.zeros(x.shape[:2] + (oh, ow))
    for i in range(oh):
        for j in range(ow):
            part = x[:, :, i * stride[0]:i * stride[0] + kernel[0],
                     j * stride[1]:j * stride[1] + kernel[1]]
            y[:, :, i, j] = part.max((2, 3)) if is_max else np.nanmean(part, (2, 3))
    return y


POOLS = {
    "max": (lambda: layer.MaxPool2d(2), (2, 2), (2, 2), (0, 0), True),
    "max positional": (lambda: layer.MaxPool2d(2, 2, 0), (2, 2), (2, 2), (0, 0), True),
    "max padded": (lambda: layer.MaxPool2d(3, 2, 1), (3, 3), (2, 2), (1, 1), True),
    "average": (lambda: layer.AvgPool2d(2), (2, 2), (2, 2), (0, 0), False),
    "average padded": (lambda: layer.AvgPool2d(3, 1, 1), (3, 3), (1, 1), (1, 1), False),
    "average overlapping": (lambda: layer.AvgPool2d(3, stride=1), (3, 3), (1, 1), (0, 0), False),
    "pooling": (lambda: layer.Pooling2d((2, 3), (1, 2), (0, 1), is_max=False), (2, 3), (1, 2),
                (0, 1), False),
    "max 1d": (lambda: layer.MaxPool1d(2), (1, 2), (1, 2), (0, 0), True),
    "average 1d": (lambda: layer.AvgPool1d(3, 1, 1), (1, 3), (1, 1), (0, 1), False),
    "same": (lambda: layer.MaxPool2d(3, 1, pad_mode="SAME_UPPER"), (3, 3), (1, 1), (1, 1), True),
}


@pytest.mark.parametrize("case", POOLS)
def test_pooling(case, mode):
    make, *how = POOLS[case]
    x, net = array(2, 3, 6, 6), make()
    check(lambda: net(given(x)), pool_numpy(x, *how), mode)


@pytest.mark.parametrize("shape", [(6, 3, 4, 4), (6, 3)])
def test_batch_norm(shape, training):
    x = array(*shape)
    axes = (0,) + tuple(range(2, len(shape)))
    where = (None, slice(None)) + (None,) * (len(shape) - 2)
    net = layer.BatchNorm2d(3, momentum=0.8)
    net.initialize(given(x))
    scale, bias = array(3), array(3)
    set_params(net, scale=scale, bias=bias)
    mean, var = x.mean(axes), x.var(axes)
    wanted = (x - mean[where]) / np.sqrt(var[where] + 1e-5) * scale[where] + bias[where]
    np.testing.assert_allclose(host(net(given(x))), wanted, rtol=1e-4, atol=1e-5)
    n = x.size / 3
    np.testing.assert_allclose(host(net.running_mean), 0.8 * mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(host(net.running_var), 0.2 + 0.8 * var * n / (n - 1), rtol=1e-5)
    autograd.training = False
    run_mean, run_var = host(net.running_mean)[where], host(net.running_var)[where]
    wanted = (x - run_mean) / np.sqrt(run_var + 1e-5) * scale[where] + bias[where]
    np.testing.assert_allclose(host(net(given(x))), wanted, rtol=1e-4, atol=1e-5)
    assert list(net.get_params()) == ["scale", "bias"]
    assert list(net.get_states()) == ["scale", "bias", "running_mean", "running_var"]


@pytest.mark.parametrize("stride, pad, more", [(1, 0, 0), (2, 1, 1), (2, 0, 0)])
def test_conv_transpose(stride, pad, more, mode):
    x, w, b = array(2, 3, 4, 4), array(3, 5, 3, 3), array(5)
    net = layer.ConvTranspose2d(5, 3, stride, pad, more)
    net.initialize(given(x))
    set_params(net, W=w, b=b)
    size = (4 - 1) * stride + 3
    y = np.zeros((2, 5, size + more, size + more))
    for i in range(4):
        for j in range(4):
            y[:, :, i * stride:i * stride + 3, j * stride:j * stride + 3] += np.einsum(
                "nc,cohw->nohw", x[:, :, i, j], w)
    size = y.shape[2]
    y = y[:, :, pad:size - pad, pad:size - pad] + b[None, :, None, None]
    check(lambda: net(given(x)), y, mode, 2e-5)


def normal(x, axes, eps=1e-5):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def test_group_norm(mode):
    x, scale, bias = array(2, 6, 3, 3), array(6), array(6)
    net = layer.GroupNorm(2)
    net.initialize(given(x))
    set_params(net, scale=scale, bias=bias)
    wanted = normal(x.reshape(2, 2, -1), 2).reshape(x.shape)
    wanted = wanted * scale[None, :, None, None] + bias[None, :, None, None]
    check(lambda: net(given(x)), wanted, mode)


@pytest.mark.parametrize("axes", [1, 2])
def test_layer_norm(axes, mode):
    x = array(3, 4, 5)
    over = (2,) if axes == 1 else (1, 2)
    scale, bias = array(*x.shape[-axes:]), array(*x.shape[-axes:])
    net = layer.LayerNorm(axes)
    net.initialize(given(x))
    set_params(net, scale=scale, bias=bias)
    check(lambda: net(given(x)), normal(x, over) * scale + bias, mode)


def test_rms_norm(mode):
    x, scale = array(3, 4, 5), array(5)
    net = layer.RMSNorm()
    net.initialize(given(x))
    set_params(net, scale=scale)
    check(lambda: net(given(x)), x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * scale, mode)


@pytest.mark.parametrize("shape", [(6, 3), (4, 3, 5), (2, 3, 4, 5), (2, 3, 2, 4, 5)])
def test_batch_norm_of_any_number_of_axes(shape, training):
    torch = pytest.importorskip("torch")
    a = np.random.default_rng(5).standard_normal(shape).astype(np.float32)
    x = tensor.from_numpy(a)
    x.requires_grad = x.stores_grad = True
    net = layer.BatchNorm2d(momentum=0.3)
    net.initialize(x)
    y = net(x)
    pairs = autograd.backward(autograd.reduce_sum(autograd.mul(y, y * y)))
    dx = [g for p, g in pairs if p is x][0]
    t = torch.from_numpy(a.copy()).requires_grad_()
    theirs = {2: torch.nn.BatchNorm1d, 3: torch.nn.BatchNorm1d, 4: torch.nn.BatchNorm2d,
              5: torch.nn.BatchNorm3d}[len(shape)](3, momentum=0.3)
    z = theirs(t)
    (z * z * z).sum().backward()
    np.testing.assert_allclose(tensor.to_numpy(y), z.detach().numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(tensor.to_numpy(dx), t.grad.numpy(), rtol=1e-3, atol=1e-4)
    for ours, other in ((net.running_mean, theirs.running_mean),
                        (net.running_var, theirs.running_var)):
        np.testing.assert_allclose(tensor.to_numpy(ours), other.numpy(), rtol=1e-5, atol=1e-6)

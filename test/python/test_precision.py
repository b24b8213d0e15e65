"""test_precision - mixed precision: scopes, models, scaled losses, skipped steps."""
import numpy as np
import pytest

import weir
from weir import autograd, core, layer, opt, tensor
from weir.errors import DtypeError

from mlp import MLP, data, host, params

STEPS = 6


def trained(precision=None, scaler=None, use_graph=False, budget=None, steps=STEPS, make=None):
    """A model after some steps, and its losses."""
    x, t = data(32)
    tx, tt = tensor.from_numpy(x), tensor.from_numpy(t)
    net = MLP(hidden=16)
    net.optimizer = (make or opt.Adam)(0.05, scaler=scaler)
    core.cpu().SetRandSeed(7)
    net.compile([tx], is_train=True, use_graph=use_graph, budget=budget, precision=precision)
    losses = []
    for _ in range(steps):
        _, loss = net(tx, tt)
        losses.append(float(host(loss).item()))
    return net, losses


@pytest.mark.parametrize("dtype, number", [("bfloat16", core.kBFloat16),
                                           ("float16", core.kFloat16)])
def test_products_in_a_scope_are_halves(dtype, number):
    a = tensor.from_numpy(np.ones((3, 4), np.float32))
    with weir.autocast(dtype):
        y = autograd.matmul(a, autograd.transpose(a, (1, 0)))
        assert y.dtype == number
        assert autograd.relu(y).dtype == number
        assert autograd.softmax(y).dtype == core.kFloat32
        with weir.autocast("float32"):
            assert autograd.matmul(a, autograd.transpose(a, (1, 0))).dtype == core.kFloat32
    assert autograd.matmul(a, autograd.transpose(a, (1, 0))).dtype == core.kFloat32


@pytest.mark.parametrize("dtype, epsilon", [("bfloat16", 2**-8), ("float16", 2**-11)])
def test_norms_and_losses_of_halves(dtype, epsilon):
    """Outside a scope they are halves, as PyTorch's are: the float32 values, rounded."""
    values = np.random.RandomState(0).randn(8, 6).astype(np.float32)
    x = tensor.from_numpy(values).as_type(dtype)
    classes = tensor.from_numpy(np.arange(8, dtype=np.int32) % 6)
    for f in (lambda t: layer.LayerNorm()(t), lambda t: layer.RMSNorm()(t),
              lambda t: layer.BatchNorm2d()(t), lambda t: autograd.mse_loss(t, t + t),
              lambda t: autograd.softmax_cross_entropy(t, classes)):
        y, exact = f(x), f(x.as_type("float32"))
        assert y.dtype == x.dtype
        np.testing.assert_allclose(host(y.as_type("float32")), host(exact), rtol=epsilon)


def test_only_halves_are_for_scopes():
    with pytest.raises(DtypeError, match="f64"):
        with weir.autocast("float64"):
            pass
    with pytest.raises(TypeError):
        with weir.autocast("half a float"):
            pass


@pytest.mark.parametrize("precision, scaler", [("bfloat16", None), ("float16", opt.LossScaler)])
def test_training_is_like_that_in_float32(precision, scaler):
    _, exact = trained(steps=30)
    net, losses = trained(precision, scaler and scaler(), steps=30)
    assert exact[-1] < 0.7 * exact[0]
    np.testing.assert_allclose(losses, exact, rtol=0.03, atol=0.01)
    assert all(p.dtype == core.kFloat32 for p in net.get_params().values())
    net.eval()
    x, _ = data(32)
    assert net(tensor.from_numpy(x)).dtype == core.dtype_number(precision)


@pytest.mark.parametrize("how", [{"use_graph": True}, {"use_graph": True, "budget": "95%"}])
def test_a_graph_has_the_same_bits(how):
    ends = []
    for options in ({}, how):
        scaler = opt.LossScaler(2.0**40, interval=3)
        net, losses = trained("float16", scaler, steps=30, **options)
        ends.append((losses, {name: p.tobytes() for name, p in params(net).items()},
                     scaler.get_states(), net.optimizer.get_states()["step_counter"]))
    assert ends[0] == ends[1]
    states = ends[0][2]
    assert 5 < states["skipped_steps"] < 28
    assert ends[0][3] == 30 - states["skipped_steps"]


@pytest.mark.parametrize("make", [opt.SGD, opt.Adam, opt.AdamW, opt.RMSProp, opt.AdaGrad])
@pytest.mark.parametrize("use_graph", [False, True])
def test_an_overflow_skips_the_step_and_halves_the_scale(make, use_graph):
    scaler = opt.LossScaler(2.0**90)
    net, _ = trained("float16", scaler, use_graph, steps=1, make=make)
    x, t = data(32)
    tx, tt = tensor.from_numpy(x), tensor.from_numpy(t)
    before = params(net)
    assert scaler.scale == 2.0**89 and scaler.skipped == 1
    net(tx, tt)
    assert scaler.scale == 2.0**88 and scaler.skipped == 2
    for name, p in params(net).items():
        assert p.tobytes() == before[name].tobytes()
    assert net.optimizer.get_states()["step_counter"] == 0


def test_fixed_scales_stay_and_others_grow():
    fixed, found = opt.LossScaler(8, fixed=True), opt.LossScaler(8, growth=4, interval=2)
    trained("float16", fixed, steps=5)
    trained("float16", found, steps=5)
    assert fixed.scale == 8 and found.scale == 8 * 4 * 4
    assert found.get_states()["good_steps"] == 1
    other = opt.LossScaler()
    other.set_states(found.get_states())
    assert other.scale == found.scale


@pytest.mark.parametrize("wrong", [{"scale": 0}, {"scale": -1}, {"growth": 0.5}, {"backoff": 1},
                                   {"interval": 0}])
def test_scalers_that_cannot_be(wrong):
    with pytest.raises(ValueError, match="LossScaler"):
        opt.LossScaler(**wrong)


def test_scaled_gradients_are_clipped_after_they_are_divided():
    ends = []
    for scaler in (None, opt.LossScaler(1024)):
        net, _ = trained(None, scaler, make=lambda lr, scaler: opt.SGD(lr, clip_norm=0.01,
                                                                       scaler=scaler))
        ends.append({name: p.tobytes() for name, p in params(net).items()})
    assert ends[0] == ends[1]


def test_another_precision_is_another_graph():
    net, _ = trained(use_graph=True, steps=1)
    x, t = data(32)
    tx, tt = tensor.from_numpy(x), tensor.from_numpy(t)
    recorded = net.recorded
    net.precision = "bfloat16"
    out, _ = net(tx, tt)
    assert net.recorded == recorded + 1 and out.dtype == core.kBFloat16


class CNN(weir.model.Model):
    """What LeNet and ResNets are made of."""

    def __init__(self):
        super().__init__()
        self.conv = weir.layer.Conv2d(4, 3, padding=1)
        self.norm = weir.layer.BatchNorm2d(4)
        self.pool = weir.layer.MaxPool2d(2, 2)
        self.flatten = weir.layer.Flatten()
        self.line = weir.layer.Linear(3)
        self.ce = weir.layer.SoftMaxCrossEntropy()

    def forward(self, x):
        y = autograd.relu(self.norm(self.conv(x)))
        return self.line(self.flatten(self.pool(y)))

    def train_one_batch(self, x, t):
        out = self.forward(x)
        loss = self.ce(out, t)
        self.optimizer(loss)
        return out, loss


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_images(precision):
    rng = np.random.default_rng(1)
    x = tensor.from_numpy(rng.normal(size=(8, 1, 8, 8)).astype(np.float32))
    t = tensor.from_numpy(rng.integers(0, 3, 8).astype(np.int32))
    ends = []
    for kind in (None, precision):
        net = CNN()
        net.optimizer = opt.SGD(0.1, momentum=0.9,
                                scaler=opt.LossScaler() if kind == "float16" else None)
        core.cpu().SetRandSeed(7)
        net.compile([x], use_graph=True, precision=kind)
        assert all(p.dtype == core.kFloat32 for p in net.get_states().values())
        ends.append([float(host(net(x, t)[1]).item()) for _ in range(10)])
    np.testing.assert_allclose(ends[1], ends[0], rtol=0.05, atol=0.01)

"""test_era - programs in the names of early 2020: the buffered MLP, Module."""
import numpy as np
import pytest

from weir import autograd, core, layer, module, opt, optimizer, tensor

# Losses of SINGA 5.1 at steps 0, 100, ..., 1000 of this program. Its weights come from its own
# generator, of the same distribution, so the numbers are near, not equal.
SINGA = [0.683, 0.573, 0.553, 0.531, 0.490, 0.388, 0.301, 0.214, 0.171, 0.145, 0.127]


def problem():
    """400 points on both sides of a line, classes as rows of 0 and 1."""
    np.random.seed(0)
    x = np.random.uniform(-1, 1, 400)
    y = 5 * x + 1 + 2 * np.random.randn(400)
    points = np.stack([x, y], 1).astype(np.float32)
    classes = (y < 5 * x + 1).astype(np.int32)
    return points, np.eye(2, dtype=np.float32)[classes]


def parameters():
    draw = np.random.normal
    return {"w0": draw(0, 0.1, (2, 3)).astype(np.float32), "b0": np.zeros((1, 3), np.float32),
            "w1": draw(0, 0.1, (3, 2)).astype(np.float32), "b1": np.zeros((1, 2), np.float32)}


def step(p, inputs, target, sgd, era):
    x = autograd.matmul(inputs, p["w0"])
    x = autograd.add_bias(x, p["b0"])
    x = autograd.relu(x)
    x = autograd.matmul(x, p["w1"])
    x = autograd.add_bias(x, p["b1"])
    loss = autograd.softmax_cross_entropy(x, target)
    for param, grad in autograd.backward(loss):
        if era:
            sgd.apply(0, grad, param, "")
        else:
            sgd.apply(param.name, param, grad)
    return loss


def trace(buffered, era=True, steps=1001):
    """Losses of the program, with the buffer flag on or off."""
    points, classes = problem()
    dev = core.cpu()
    inputs, target = tensor.from_numpy(points), tensor.from_numpy(classes)
    p = {name: tensor.Tensor(data=array, stores_grad=True) for name, array in parameters().items()}
    sgd = optimizer.SGD(0.05) if era else opt.SGD(0.05)
    autograd.training = True
    try:
        losses = []
        if buffered:
            dev.SetBufferFlag(True)
            loss = step(p, inputs, target, sgd, era)
            assert dev.GetBufferFlag()
            dev.SetBufferFlag(False)
        for _ in range(steps):
            if buffered:
                dev.ExecBuffOps()
            else:
                loss = step(p, inputs, target, sgd, era)
            losses.append(float(tensor.to_numpy(loss)[0]))
        return losses
    finally:
        autograd.training = False
        dev.Reset()


@pytest.mark.parametrize("era", [True, False])
def test_the_buffered_mlp_trains_bit_for_bit_like_the_eager_one(era):
    off, on = trace(False, era), trace(True, era)
    assert off == on
    assert off[-1] < 0.5 * off[0]


def numpy_trace(steps=1001):
    """The same in f64."""
    x, classes = problem()
    p = {name: array.astype(np.float64) for name, array in parameters().items()}
    losses = []
    for _ in range(steps):
        a = x @ p["w0"] + p["b0"]
        h = np.maximum(a, 0)
        out = h @ p["w1"] + p["b1"]
        e = np.exp(out - out.max(1, keepdims=True))
        prob = e / e.sum(1, keepdims=True)
        losses.append(-np.log((prob * classes).sum(1)).mean())
        d = (prob - classes) / len(x)
        da = (d @ p["w1"].T) * (a > 0)
        for name, grad in (("w0", x.T @ da), ("b0", da.sum(0)), ("w1", h.T @ d), ("b1", d.sum(0))):
            p[name] = p[name] - 0.05 * grad
    return losses


def test_the_trace_of_the_buffered_mlp():
    losses = trace(True)
    np.testing.assert_allclose(losses, numpy_trace(), atol=2e-4)
    np.testing.assert_allclose(losses[::100], SINGA, atol=0.05)


def test_both_ages_of_optimisers_give_the_same_bits():
    assert trace(True, True, 50) == trace(True, False, 50)


class Mlp(module.Module):
    def __init__(self):
        super().__init__()
        self.l1, self.l2 = layer.Linear(3), layer.Linear(2)
        self.sgd = opt.SGD(0.05)

    def forward(self, x):
        return self.l2(autograd.relu(self.l1(x)))

    def loss(self, out, t):
        return autograd.softmax_cross_entropy(out, t)

    def optim(self, loss):
        self.sgd.backward_and_update(loss)


@pytest.mark.parametrize("graph", [False, True])
def test_module(graph):
    points, classes = (tensor.from_numpy(a) for a in problem())
    net = Mlp()
    net.on_device(core.cpu())
    net.train()
    net.graph(graph, False)
    losses = []
    for _ in range(50):
        out = net(points)
        loss = net.loss(out, classes)
        net.optim(loss)
        losses.append(float(tensor.to_numpy(loss)[0]))
    net.eval()
    assert losses[-1] < losses[0] and not autograd.training
    with pytest.raises(NotImplementedError):
        module.Module().loss(out)
    with pytest.raises(NotImplementedError):
        module.Module().optim(out)

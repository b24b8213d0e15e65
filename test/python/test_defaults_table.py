"""test_defaults_table - each row of docs/user/pytorch-defaults.md: Weir's value, and PyTorch's
where it is installed."""
import inspect
import math
import os
import re

import numpy as np
import pytest

import weir
from weir import _capi as capi, autograd, core, interop, layer, opt, tensor

try:
    import torch
except ImportError:
    torch = None

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "user",
                    "pytorch-defaults.md")


def t(data, dtype=None):
    return weir.array(data, dtype)


def p(data, dtype=None):
    return torch.tensor(data, dtype=None if dtype is None else getattr(torch, dtype))


def numbers(x):
    return np.asarray(x.numpy() if hasattr(x, "numpy") else x, np.float64).round(5).tolist()


def default(function, name):
    return inspect.signature(function).parameters[name].default


def training(function, *args, **kwargs):
    """The call with autograd.training on."""
    autograd.training = True
    try:
        return function(*args, **kwargs)
    finally:
        autograd.training = False


def first_running_mean():
    norm = layer.BatchNorm2d()
    training(norm, weir.full((2, 1, 2, 2), 10.0))
    return round(norm.running_mean.item(), 4)


def torch_running_mean():
    norm = torch.nn.BatchNorm2d(1)
    norm(torch.full((2, 1, 2, 2), 10.0))
    return round(norm.running_mean.item(), 4)


def steps(optimizer, count=2):
    """A parameter 1.0 with the gradient 0.5 in each step."""
    w = weir.array([1.0], requires_grad=True)
    w.name = "w"
    for _ in range(count):
        optimizer.apply("w", w, t([0.5]))
        optimizer.step()
    return round(w.item(), 4)


def torch_steps(make, count=2):
    w = torch.nn.Parameter(torch.tensor([1.0]))
    optimizer = make([w])
    for _ in range(count):
        w.grad = torch.tensor([0.5])
        optimizer.step()
    return round(w.item(), 4)


def limit(weights):
    """The largest weight in terms of 1 / sqrt(inputs) of 100 inputs."""
    return float(np.abs(np.asarray(weights)).max()) * 10


def made(layer_, shape):
    layer_(weir.zeros(shape))
    return layer_


def gradients_twice():
    w = weir.array([3.0], requires_grad=True)
    found = [training(lambda: (w * w).sum().backward())[0][1].item() for _ in range(2)]
    return found


def torch_gradients_twice():
    w = torch.tensor([3.0], requires_grad=True)
    for _ in range(2):
        (w * w).sum().backward()
    return [w.grad.item()]


HALF = [0.25, 0.75], [0.0, 1.0]
LOGITS = [[1.0, 2.0], [3.0, 4.0]]

# name of the row: (Weir, its value), (PyTorch, its value).
ROWS = {
    "batch norm: weight of the new batch": (
        (first_running_mean, 9.0), (torch_running_mean, 1.0)),
    "normalisation: eps": (
        (lambda: layer.LayerNorm().eps, 1e-5), (lambda: torch.nn.LayerNorm(1).eps, 1e-5)),
    "average pooling counts padding": (
        (lambda: numbers(layer.AvgPool2d(2, 2, 1)(weir.ones((1, 1, 2, 2)))), [[[[1, 1], [1, 1]]]]),
        (lambda: numbers(torch.nn.AvgPool2d(2, 2, 1)(torch.ones(1, 1, 2, 2))),
         [[[[.25, .25], [.25, .25]]]])),
    "softmax: axes": (
        (lambda: numbers(autograd.softmax(weir.zeros((2, 3, 4)), 1))[0][0][0], 0.08333),
        (lambda: round(torch.softmax(torch.zeros(2, 3, 4), 1).max().item(), 5), 0.33333)),
    "binary cross entropy": (
        (lambda: round(autograd.binary_cross_entropy(t([HALF[0]] * 2), t([HALF[1]] * 2)).item(), 4),
         round(-2 * math.log(0.75 + 1e-4), 4)),
        (lambda: round(torch.nn.functional.binary_cross_entropy(p([HALF[0]] * 2), p([HALF[1]] * 2))
                       .item(), 4), round(-math.log(0.75), 4))),
    "mean square error": (
        (lambda: autograd.mse_loss(weir.ones((2, 3)), weir.zeros((2, 3))).item(), 1.0),
        (lambda: torch.nn.functional.mse_loss(torch.ones(2, 3), torch.zeros(2, 3)).item(), 1.0)),
    "cross entropy of logits": (
        (lambda: round(autograd.softmax_cross_entropy(t(LOGITS), t([0, 1], "int32")).item(), 4),
         0.8133),
        (lambda: round(torch.nn.functional.cross_entropy(p(LOGITS), p([0, 1])).item(), 4), 0.8133)),
    "ranking loss: margin": (
        (lambda: default(autograd.ranking_loss, "M"), 0.2),
        (lambda: default(torch.nn.functional.margin_ranking_loss, "margin"), 0)),
    "std": (
        (lambda: round(t([1.0, 2.0, 3.0, 4.0]).std().item(), 4), 1.118),
        (lambda: round(p([1.0, 2.0, 3.0, 4.0]).std().item(), 4), 1.291)),
    "truth of a tensor": (
        (lambda: bool(t([1.0]) > t([3.0])), False), (lambda: bool(p([1.0]) > p([3.0])), False)),
    "int / int": (
        (lambda: (t([7], "int32") / t([2], "int32")).tolist(), [3]),
        (lambda: (p([7], "int32") / p([2], "int32")).tolist(), [3.5])),
    "sum(): shape": (
        (lambda: weir.ones((2, 3)).sum().shape, (1,)),
        (lambda: tuple(torch.ones(2, 3).sum().shape), ())),
    "x[0]: shape": (
        (lambda: weir.ones((2, 3))[0].shape, (1, 3)),
        (lambda: tuple(torch.ones(2, 3)[0].shape), (3,))),
    "comparisons": (
        (lambda: core.dtype_name((t([1.0]) > t([0.0])).dtype), "float32"),
        (lambda: str((p([1.0]) > p([0.0])).dtype), "torch.bool")),
    "f16 + f16": (
        (lambda: core.dtype_name((t([1.0], "float16") + t([1.0], "float16")).dtype), "float32"),
        (lambda: str((p([1.0], "float16") + p([1.0], "float16")).dtype), "torch.float16")),
    "from_numpy of f64": (
        (lambda: core.dtype_name(tensor.from_numpy(np.zeros(2)).dtype), "float32"),
        (lambda: str(torch.from_numpy(np.zeros(2)).dtype), "torch.float64")),
    "round(2.5)": (
        (lambda: autograd.round(t([2.5])).tolist(), [3.0]),
        (lambda: p([2.5]).round().tolist(), [2.0])),
    "l2 norm": (
        (lambda: t([3.0, 4.0]).l2(), 2.5), (lambda: p([3.0, 4.0]).norm().item(), 5.0)),
    "a slice": (
        (lambda: _slice(weir.zeros((4,))), [0.0] * 4),
        (lambda: _slice(torch.zeros(4)), [1.0, 1.0, 0.0, 0.0])),
    "linear: shape of the weights": (
        (lambda: made(layer.Linear(3), (2, 5)).W.shape, (5, 3)),
        (lambda: tuple(torch.nn.Linear(5, 3).weight.shape), (3, 5))),
    "linear: first weights": (
        (lambda: limit(made(layer.Linear(400), (1, 100)).W) > 2, True),
        (lambda: limit(torch.nn.Linear(100, 400).weight.detach()) <= 1, True)),
    "linear: first bias": (
        (lambda: float(np.abs(made(layer.Linear(400), (1, 100)).b.numpy()).max()), 0.0),
        (lambda: limit(torch.nn.Linear(100, 400).bias.detach()) > 0.9, True)),
    "leaky relu: slope": (
        (lambda: default(autograd.leakyrelu, "a"), 0.01),
        (lambda: default(torch.nn.functional.leaky_relu, "negative_slope"), 0.01)),
    "hard sigmoid of 1": (
        (lambda: round(autograd.hardsigmoid(t([1.0])).item(), 4), 0.7),
        (lambda: round(torch.nn.functional.hardsigmoid(p([1.0])).item(), 4), 0.6667)),
    "dropout: second argument": (
        (lambda: list(inspect.signature(autograd.dropout).parameters)[1], "seed"),
        (lambda: list(inspect.signature(torch.nn.functional.dropout).parameters)[1], "p")),
    "reduce_sum: axes stay": (
        (lambda: autograd.reduce_sum(weir.ones((2, 3)), axes=[1]).shape, (2, 1)),
        (lambda: tuple(torch.ones(2, 3).sum(1).shape), (2,))),
    "SGD: rate": (
        (lambda: default(opt.SGD, "lr"), 0.1), (lambda: default(torch.optim.SGD, "lr"), 1e-3)),
    "SGD: dampening of the first step": (
        (lambda: steps(opt.SGD(1.0, momentum=0.9, dampening=0.5), 1), 0.75),
        (lambda: torch_steps(lambda w: torch.optim.SGD(w, 1.0, momentum=0.9, dampening=0.5), 1),
         0.5)),
    "Adam: rate, betas, eps": (
        (lambda: [default(opt.Adam, n) for n in ("lr", "beta_1", "beta_2", "epsilon")],
         [0.1, 0.9, 0.999, 1e-8]),
        (lambda: [default(torch.optim.Adam, n) for n in ("lr", "betas", "eps")],
         [1e-3, (0.9, 0.999), 1e-8])),
    "AdamW: rate, weight decay": (
        (lambda: [default(opt.AdamW, n) for n in ("lr", "weight_decay")], [1e-3, 0.01]),
        (lambda: [default(torch.optim.AdamW, n) for n in ("lr", "weight_decay")], [1e-3, 0.01])),
    "RMSProp: rate, rho, eps": (
        (lambda: [default(opt.RMSProp, n) for n in ("lr", "rho", "epsilon")], [0.1, 0.9, 1e-8]),
        (lambda: [default(torch.optim.RMSprop, n) for n in ("lr", "alpha", "eps")],
         [1e-2, 0.99, 1e-8])),
    "RMSProp: eps": (
        (lambda: steps(opt.RMSProp(0.1, rho=0.9, epsilon=1.0), 1), round(
            1 - 0.1 * 0.5 / math.sqrt(0.025 + 1), 4)),
        (lambda: torch_steps(lambda w: torch.optim.RMSprop(w, 0.1, alpha=0.9, eps=1.0), 1), round(
            1 - 0.1 * 0.5 / (math.sqrt(0.025) + 1), 4))),
    "AdaGrad: rate, eps": (
        (lambda: [default(opt.AdaGrad, n) for n in ("lr", "epsilon")], [0.1, 1e-8]),
        (lambda: [default(torch.optim.Adagrad, n) for n in ("lr", "eps")], [1e-2, 1e-10])),
    "gradients of a second backward": (
        (gradients_twice, [6.0, 6.0]), (torch_gradients_twice, [12.0])),
}


def core_value(handle):
    """(dtype, numbers) of a result of the core."""
    tensor_ = interop.wrap(handle, core.cpu())
    return core.dtype_name(tensor_.dtype), numbers(tensor_)


def h(data, dtype="float32"):
    return t(data, dtype).data.handle


# The column of C, where it is not an argument.
C_ROWS = {
    "sum(): shape": (
        lambda: capi.weir_tensor_desc(capi.weir_sum(h([[1.0, 2.0]]), 0, False))[1], ()),
    "int / int": (
        lambda: core_value(capi.weir_div(h([7], "int32"), h([2], "int32"))), ("float32", [3.5])),
    "comparisons": (
        lambda: core_value(capi.weir_gt(h([1.0]), h([0.0]))), ("bool", [1.0])),
    "f16 + f16": (
        lambda: core_value(capi.weir_add(h([1.0], "float16"), h([1.0], "float16"))),
        ("float16", [2.0])),
    "round(2.5)": (
        lambda: [core_value(f(h([2.5])))[1] for f in (capi.weir_round, capi.weir_round_even)],
        [[3.0], [2.0]]),
    "l2 norm": (
        lambda: core_value(capi.weir_norm(h([3.0, 4.0]), 2, 0, True))[1], [5.0]),
    "softmax: axes": (
        lambda: core_value(capi.weir_softmax(weir.zeros((2, 3, 4)).data.handle, 1))[1][0][0][0],
        0.33333),
    "binary cross entropy": (
        lambda: round(interop.wrap(capi.weir_bce_loss(h([HALF[0]]), h([HALF[1]])),
                                   core.cpu()).item(), 4), round(-math.log(0.75), 4)),
    "hard sigmoid of 1": (
        lambda: core_value(capi.weir_hardsigmoid(h([1.0])))[1], [0.66667]),
}


@pytest.mark.parametrize("row", C_ROWS)
def test_of_the_core(row):
    function, expected = C_ROWS[row]
    assert row in ROWS and function() == expected


def _slice(x):
    """x after its first half, taken by a slice, was set to 1."""
    half = x[0:2]
    half += 1.0
    return x.tolist()


@pytest.mark.parametrize("row", ROWS)
def test_of_weir(row):
    (function, expected), _ = ROWS[row]
    assert function() == expected


@pytest.mark.skipif(torch is None, reason="PyTorch is missing")
def test_of_pytorch():
    wrong = {row: found for row, (_, (function, expected)) in ROWS.items()
             if (found := function()) != expected}
    assert not wrong


def test_the_page_has_these_rows():
    with open(PAGE, encoding="utf-8") as f:
        rows = re.findall(r"^\| ([^|]+?) \|", f.read(), re.M)
    missing = [row for row in ROWS if row not in rows]
    assert not missing


def test_the_names_exist():
    with open(PAGE, encoding="utf-8") as f:
        names = set(re.findall(r"`((?:weir|autograd|layer|opt|tensor)\.\w+)", f.read()))
    places = {"weir": weir, "autograd": autograd, "layer": layer, "opt": opt, "tensor": tensor}
    missing = [name for name in names
               if not hasattr(places[name.split(".")[0]], name.split(".")[1])]
    assert len(names) > 30 and not missing

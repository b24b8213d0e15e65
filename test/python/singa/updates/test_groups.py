"""test_groups - parameter groups against optimisers of their own and PyTorch; graphs, files."""
import copy
import pickle

import numpy as np
import pytest

import weir
from weir import layer, opt
from weir.errors import FileError
from weir.model import Model

from layers import array, given, host

X, Y = array(6, 5), np.int32([0, 1, 2, 2, 1, 0])


class Net(Model):
    def __init__(self, optimizer):
        super().__init__()
        self.body = layer.Sequential(layer.Linear(7), layer.Tanh())
        self.head = layer.Linear(3)
        self.loss = layer.SoftMaxCrossEntropy()
        self.optimizer = optimizer

    def forward(self, x):
        return self.head(self.body(x))

    def train_one_batch(self, x, y):
        loss = self.loss(self.forward(x), y)
        self.optimizer(loss)
        return loss


START = {"body.0.W": array(5, 7), "body.0.b": array(7), "head.W": array(7, 3), "head.b": array(3)}


def ready(optimizer, graph=False, **kwargs):
    net = Net(optimizer)
    net.compile([given(X)], use_graph=graph, **kwargs)
    net.load_state_dict(START)
    return net


def trained(net, steps=3):
    x, y = given(X), given(Y)
    for _ in range(steps):
        net(x, y)
    return {name: host(t) for name, t in net.state_dict().items()}


KINDS = {
    "sgd": lambda **k: opt.SGD(**{"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1, **k}),
    "nesterov": lambda **k: opt.SGD(**{"lr": 0.1, "momentum": 0.9, "nesterov": True,
                                       "weight_decay": 0.1, **k}),
    "adam": lambda **k: opt.Adam(**{"lr": 0.1, "weight_decay": 0.1, **k}),
    "adamw": lambda **k: opt.AdamW(**{"lr": 0.1, "weight_decay": 0.1, **k}),
    "rmsprop": lambda **k: opt.RMSProp(**{"lr": 0.1, "weight_decay": 0.1, **k}),
    "adagrad": lambda **k: opt.AdaGrad(**{"lr": 0.1, "weight_decay": 0.1, **k}),
}


@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_group_is_updated_as_by_an_optimiser_of_its_own(kind, graph):
    """One step, so that the gradients of both runs are equal; then the bits are."""
    make = KINDS[kind]
    grouped = make()
    grouped.add_group("*.b", lr=0.03, weight_decay=0)
    grouped.add_group("head", lr_scale=0.5)
    got = trained(ready(grouped, graph), 1)
    body, bias = trained(ready(make(), graph), 1), trained(ready(make(lr=0.03, weight_decay=0)), 1)
    head = trained(ready(make(lr=0.05), graph), 1)
    for name, from_ in (("body.0.W", body), ("body.0.b", bias), ("head.b", bias), ("head.W", head)):
        np.testing.assert_array_equal(got[name], from_[name], name)


def test_graphs_have_the_bits_of_eager_steps():
    def make():
        optimizer = opt.SGD(opt.StepDecay(0.1, 2, 0.5), momentum=0.9, clip_norm=0.5)
        optimizer.add_group("head", opt.CosineDecay(0.2, 4), weight_decay=0.1)
        optimizer.add_group(lambda name, p: len(p.shape) == 1, lr_scale=2)
        return optimizer

    want, got = trained(ready(make()), 5), trained(ready(make(), True), 5)
    for name, value in want.items():
        np.testing.assert_array_equal(got[name], value, name)


def test_rates_that_are_assigned_are_taken_by_recorded_graphs():
    def make():
        optimizer = opt.SGD(0.1, momentum=0.9)
        optimizer.add_group("head", 0.2, weight_decay=0.1)
        optimizer.add_group("*.b", lr_scale=2)
        return optimizer

    eager, graph = ready(make()), ready(make(), True)
    trained(eager)
    trained(graph)
    graph.optimizer.lr = eager.optimizer.lr = 0.01          # the third group follows
    graph.optimizer.groups[0].lr = eager.optimizer.groups[0].lr = 0.02
    want, got = trained(eager, 2), trained(graph, 2)
    for name, value in want.items():
        np.testing.assert_array_equal(got[name], value, name)
    assert graph.optimizer.groups[1].lr.init_value == 0.02 and len(graph.graphs) == 1


@pytest.mark.parametrize("where", ["layer", "parameters", "path"])
def test_frozen_groups_stay_and_do_not_count_for_the_norm(where):
    def make(net):
        found = {"layer": net.body, "parameters": list(net.body.parameters()), "path": ["body"]}
        return found[where]

    net = ready(opt.SGD(0.1, clip_norm=0.1))
    net.optimizer.add_group(make(net), frozen=True)
    other = ready(opt.SGD(0.1, clip_norm=0.1))
    other.body.freeze()
    got, want = trained(net), trained(other)
    for name in START:
        np.testing.assert_array_equal(got[name], want[name], name)
    np.testing.assert_array_equal(got["body.0.W"], START["body.0.W"])


def test_groups_of_a_scaled_step():
    def make(**kwargs):
        optimizer = opt.SGD(0.1, momentum=0.9, **kwargs)
        optimizer.add_group("head", lr=0.02)
        return optimizer

    scaler = opt.LossScaler()
    net = ready(make(scaler=scaler), True)
    net(given(X * np.float32("inf")), given(Y))             # no gradient is finite: skipped
    assert scaler.skipped == 1
    for name, value in START.items():
        np.testing.assert_array_equal(host(net.state_dict()[name]), value)
    plain = trained(ready(make(scaler=opt.LossScaler(1024.0))), 2)
    for name, value in trained(ready(make()), 2).items():
        np.testing.assert_allclose(plain[name], value, rtol=1e-5, atol=1e-6)


def make_for_files():
    optimizer = opt.Adam(0.1)
    optimizer.add_group("head", lr=0.05)
    optimizer.add_group("*.b", opt.StepDecay(0.1, 2, 0.5))
    return optimizer


def test_runs_resume_with_equal_bits(tmp_path):
    net = ready(make_for_files(), True)
    trained(net)
    net.optimizer.groups[0].lr = 0.01
    net.save_run(tmp_path / "run")
    want = trained(net)
    other = ready(make_for_files(), True)
    trained(other, 1)
    assert other.load_run(tmp_path / "run") == 3
    assert other.optimizer.groups[0].lr.init_value == 0.01
    for name, value in trained(other).items():
        np.testing.assert_array_equal(value, want[name], name)
    with pytest.raises(FileError, match="optim.groups.0.lr"):
        ready(opt.Adam(0.1)).load_run(tmp_path / "run")


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))])
@pytest.mark.parametrize("graph", [False, True])
def test_copies_go_on_alike(copied, graph):
    net = ready(make_for_files(), graph)
    trained(net)
    other = copied(net)
    want = trained(net)
    for name, value in trained(other).items():
        np.testing.assert_array_equal(value, want[name], name)


def test_mistakes_are_told():
    sgd = opt.SGD(0.1)
    with pytest.raises(TypeError, match="SGD.add_group: unknown number 'decay' .expected momentum"):
        sgd.add_group("head", decay=0.1)
    with pytest.raises(ValueError, match="the optimiser has none"):
        sgd.add_group("head", momentum=0.9)
    with pytest.raises(ValueError, match="SGD.add_group: lr is -1"):
        sgd.add_group("head", lr=-1)
    sgd.add_group(3)
    with pytest.raises(TypeError, match="where is 3, must be a path"):
        trained(ready(sgd))
    w = weir.randn((2, 2), requires_grad=True)
    for args, words in (((w, "W", w), "param_value is a str, must be a Tensor; the order is"),
                        (("W", w, 0.1), "SGD.apply: param_grad is a float")):
        with pytest.raises(TypeError, match=words):
            opt.SGD(0.1).apply(*args)


def test_groups_of_pytorch():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    nn = torch.nn
    twin = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3))
    optimizer = opt.SGD(0.1, momentum=0.9, weight_decay=0.1)
    optimizer.add_group("*.b", lr=0.03, weight_decay=0)
    net = ready(optimizer, True)
    state = weir.to_torch_state_dict(net, {"body": "", "body.0": "0", "head": "2"})
    twin.load_state_dict({name: torch.from_numpy(a) for name, a in state.items()})
    there = torch.optim.SGD([
        {"params": [twin[0].weight, twin[2].weight]},
        {"params": [twin[0].bias, twin[2].bias], "lr": 0.03, "weight_decay": 0}],
        lr=0.1, momentum=0.9, weight_decay=0.1)
    for _ in range(4):
        there.zero_grad()
        y = twin(torch.from_numpy(X))
        nn.functional.cross_entropy(y, torch.from_numpy(Y).long()).backward()
        there.step()
    got = trained(net, 4)
    for name, want in (("body.0.W", twin[0].weight.T), ("body.0.b", twin[0].bias),
                       ("head.W", twin[2].weight.T), ("head.b", twin[2].bias)):
        np.testing.assert_allclose(got[name], want.detach().numpy(), rtol=1e-4, atol=1e-5)

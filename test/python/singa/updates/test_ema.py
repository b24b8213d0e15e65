"""test_ema - means of parameters: NumPy's, PyTorch's, in graphs, in files of runs, in copies."""
import copy

import numpy as np
import pytest

import weir
from weir import layer, opt
from weir.errors import StateError
from weir.model import Model

from layers import array, given, host

X, Y = array(6, 5), array(6, 2)


class Net(Model):
    def __init__(self, decay=0.9):
        super().__init__()
        self.fc = layer.Linear(2)
        self.loss = layer.MeanSquareError()
        self.optimizer = opt.SGD(0.1, momentum=0.9)
        self.ema = opt.EMA(self, decay)

    def forward(self, x):
        return self.fc(x)

    def train_one_batch(self, x, y):
        loss = self.loss(self.forward(x), y)
        self.optimizer(loss)
        self.ema.update()
        return loss


def ready(graph, decay=0.9):
    net = Net(decay)
    net.compile([given(X)], use_graph=graph)
    return net


def train(net, steps):
    x, y = given(X), given(Y)
    for _ in range(steps):
        net(x, y)


@pytest.mark.parametrize("graph", [False, True])
def test_means_are_numpys(graph):
    net, mean = ready(graph), None
    for _ in range(4):
        train(net, 1)
        w = host(net.fc.W).astype(np.float64)
        mean = w if mean is None else 0.9 * mean + 0.1 * w
    assert net.ema.updates == 4
    np.testing.assert_allclose(host(net.ema.state_dict()["fc.W"]), mean, rtol=1e-5, atol=1e-6)
    w = host(net.fc.W)
    with net.ema.averaged():
        np.testing.assert_array_equal(host(net.fc.W), host(net.ema.state_dict()["fc.W"]))
    np.testing.assert_array_equal(host(net.fc.W), w)
    net.ema.copy_to_model()
    assert (host(net.fc.W) != w).any()


def test_the_first_update_copies():
    net = ready(True)
    train(net, 1)
    np.testing.assert_array_equal(host(net.ema.state_dict()["fc.W"]), host(net.fc.W))


@pytest.mark.parametrize("graph", [False, True])
def test_runs_and_copies_go_on_with_equal_bits(graph, tmp_path):
    net, other = ready(graph), ready(graph)
    train(net, 3)
    net.save_run(tmp_path / "run")
    twin = copy.deepcopy(net)
    assert twin.ema.model is twin
    train(net, 2)
    train(other, 1)
    other.load_run(tmp_path / "run")
    for model in (other, twin):
        train(model, 2)
        for name, t in net.ema.state_dict().items():
            np.testing.assert_array_equal(host(model.ema.state_dict()[name]), host(t), name)


def test_mistakes_are_told():
    for decay in (-0.1, 1.5, float("nan")):
        with pytest.raises(ValueError, match=f"decay is {decay}, must be from 0 to 1"):
            Net(decay)
    net = ready(False)
    with pytest.raises(StateError, match="no update yet"):
        net.ema.copy_to_model()
    with pytest.raises(StateError, match="no update yet"), net.ema.averaged():
        pass


def test_means_are_pytorchs():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    swa = torch.optim.swa_utils
    net, twin = ready(True), torch.nn.Linear(5, 2)
    weir.load_torch_state_dict(net, twin.state_dict(), names={"fc": ""})
    there = torch.optim.SGD(twin.parameters(), 0.1, momentum=0.9)
    average = swa.AveragedModel(twin, multi_avg_fn=swa.get_ema_multi_avg_fn(0.9))
    for _ in range(5):
        there.zero_grad()
        torch.nn.functional.mse_loss(twin(torch.from_numpy(X)), torch.from_numpy(Y)).backward()
        there.step()
        average.update_parameters(twin)
    train(net, 5)
    np.testing.assert_allclose(host(net.ema.state_dict()["fc.W"]),
                               average.module.weight.detach().numpy().T, rtol=1e-4, atol=1e-5)

"""test_checkpoint - functions that run again for the gradient: bits of a plain call, graph off and
on; several results, nothing to train, mistakes."""
import gc
import weakref

import numpy as np
import pytest

import weir
from weir import autograd, core, errors, layer, opt

from conftest import run


class Net:
    """Batch norm and dropout between linear layers, in blocks."""

    def __init__(self):
        weir.set_seed(3)
        self.parts = [(layer.Linear(16), layer.BatchNorm2d(), layer.Linear(16)) for _ in range(3)]
        self.head = layer.Linear(4)

    def block(self, i):
        first, norm, second = self.parts[i]

        def apply(x):
            h = autograd.relu(norm(first(x)))
            return autograd.add(second(autograd.dropout(h, 0.4)), x)
        return apply

    def __call__(self, x, checkpointed):
        for i in range(len(self.parts)):
            x = weir.checkpoint(self.block(i), x) if checkpointed else self.block(i)(x)
        return self.head(x)

    def tensors(self):
        """Parameters and running statistics."""
        found = {}
        for i, part in enumerate(self.parts):
            for j, one in enumerate(part):
                found.update({f"{i}.{j}.{key}": value for key, value in one.get_states().items()})
        found.update({f"head.{key}": value for key, value in self.head.get_states().items()})
        return found


def trained(checkpointed, graph):
    """Losses and all tensors after some steps."""
    device = core.cpu()
    net, sgd = Net(), opt.SGD(lr=0.1, momentum=0.9)
    rng = np.random.default_rng(1)
    x = weir.array(rng.normal(size=(8, 16)).astype(np.float32))
    y = weir.array(rng.integers(0, 4, 8).astype(np.int32))
    losses = []

    def step():
        loss = autograd.softmax_cross_entropy(net(x, checkpointed), y)
        sgd(loss)
        return loss

    net(x, False)       # makes the parameters
    if graph:
        device.ResetGraph()
        device.EnableGraph(True)
        loss = step()
        device.EnableGraph(False)
    for _ in range(5):
        if graph:
            device.RunGraph()
        else:
            loss = step()
        losses.append(loss.data.to_numpy().copy())
    return losses, {key: value.data.to_numpy().copy() for key, value in net.tensors().items()}


def test_bits_are_those_of_a_plain_call(mode, training):
    losses, tensors = trained(False, mode == "on")
    core.cpu().Reset()
    same_losses, same_tensors = trained(True, mode == "on")
    assert len(tensors) > 12 and tensors.keys() == same_tensors.keys()
    assert [a.tobytes() for a in losses] == [a.tobytes() for a in same_losses]
    for key, value in tensors.items():
        assert value.tobytes() == same_tensors[key].tobytes(), key


def test_calls_twice_and_gives_several(mode, training):
    calls = []
    w = weir.array([2.0, 3.0], requires_grad=True)
    w.stores_grad = True

    def two(x, y):
        calls.append(x)
        h = autograd.mul(x, w)
        return h, autograd.mul(h, y)

    def gradient(function):
        x = weir.array([1.0, 5.0], requires_grad=True)
        x.stores_grad = True
        a, b = function(two, x, w)
        pairs = autograd.gradients(autograd.reduce_sum(autograd.add(a, b)))
        return pairs[id(w)], pairs[id(x)]

    plain = run(lambda: gradient(lambda f, *xs: f(*xs)), core.cpu(), mode)
    assert len(calls) == 1
    again = run(lambda: gradient(weir.checkpoint), core.cpu(), mode)
    assert len(calls) == 3
    for a, b in zip(plain, again):
        assert a.data.to_numpy().tobytes() == b.data.to_numpy().tobytes()


def test_outside_training_it_is_a_plain_call():
    calls = []
    y = weir.checkpoint(lambda x: calls.append(x) or [autograd.relu(x)], weir.array([-1.0, 2.0]))
    assert len(calls) == 1 and isinstance(y, list) and y[0].data.to_numpy().tolist() == [0, 2]


def test_is_freed_with_its_result(training):
    class Function:
        def __call__(self, x):
            return autograd.relu(x)

    function = Function()
    alive = weakref.ref(function)
    y = weir.checkpoint(function, weir.array([1.0], requires_grad=True))
    del function
    assert alive() is not None
    del y
    gc.collect()
    assert alive() is None


def test_mistakes(training):
    x = weir.array([1.0, 2.0], requires_grad=True)
    outside = autograd.relu(x)
    with pytest.raises(errors.StateError, match="no graph is being recorded"):
        with weir.checkpoint():
            pass
    with pytest.raises(TypeError, match="must be a function"):
        weir.checkpoint(x)
    with pytest.raises(ValueError, match="at least one Tensor"):
        weir.checkpoint(autograd.relu)
    with pytest.raises(ZeroDivisionError):
        weir.checkpoint(lambda x: 1 / 0, x)
    with pytest.raises(TypeError, match="must return Tensors"):
        weir.checkpoint(lambda x: 3, x)
    with pytest.raises(errors.Error, match="made outside it"):
        weir.checkpoint(lambda x: autograd.add(x, outside), x)
    runs = []

    def fails(x):
        runs.append(x)
        return autograd.relu(x) if len(runs) == 1 else 1 / 0

    x.stores_grad = True
    y = autograd.reduce_sum(weir.checkpoint(fails, x))
    with pytest.raises(ZeroDivisionError):
        autograd.gradients(y)
    y = autograd.reduce_sum(weir.checkpoint(autograd.relu, x))
    assert autograd.gradients(y)[id(x)].data.to_numpy().tolist() == [1, 1]


def recorded_step(marked):
    """(gradient, arena bytes) of a chain whose blocks are lines in a `with weir.checkpoint()`."""
    device = core.cpu()
    w = weir.array(np.linspace(-1, 1, 4096, dtype=np.float32), requires_grad=True)
    w.stores_grad = True
    with device.graph(disable="fuse") as step:      # or all becomes one pass
        y = w
        for _ in range(4):
            if marked:
                with weir.checkpoint():
                    y = autograd.sin(autograd.exp(autograd.tanh(autograd.sin(y))))
            else:
                y = autograd.sin(autograd.exp(autograd.tanh(autograd.sin(y))))
        (_, grad), = autograd.backward(autograd.reduce_sum(y, keepdims=0))
        del y, _
    step.run()
    return grad.data.to_numpy().tobytes(), step.stats["arena_bytes"]


def test_lines_of_a_recording(training):
    plain, whole = recorded_step(False)
    marked, less = recorded_step(True)
    assert marked == plain
    assert less < whole

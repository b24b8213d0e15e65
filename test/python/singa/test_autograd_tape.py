"""test_autograd_tape - operators as nodes, the way back, gradients that never share memory."""
from collections import Counter

import numpy as np
import pytest

import weir
from conftest import run
from weir import autograd, core, device, opt, singa_wrap, tensor
from weir.errors import InvalidError, StateError
from weir.tensor import Tensor

pytestmark = pytest.mark.usefixtures("training")

A = autograd


def param(values, **kwargs):
    return Tensor(data=np.asarray(values, np.float32), stores_grad=True, **kwargs)


def read(x):
    return tensor.to_numpy(x) if isinstance(x, Tensor) else x.to_numpy()


def total(*ys):
    return A.add_all(*[A.reduce_sum(y) for y in ys])


# ---- what a call leaves ----

def test_names_count_by_class():
    first, second = A.ReLU(), A.ReLU()
    kind, number = first.name.split("#")
    assert kind == "ReLU" and second.name == f"ReLU#{int(number) + 1}"
    assert first.output_name(0) == f"{first.name}:0" and first.grad_name(0).endswith("_g")
    assert A.Operator("mine").name == "mine" and A.Operation is A.Operator
    assert first.get_params() == []


def test_a_call_knows_its_sources():
    x, w = param(np.ones((2, 3))), Tensor(data=np.ones((3, 2), np.float32))
    y = A.matmul(x, w)
    op = y.creator
    assert isinstance(op, A.Matmul) and op.y_id2idx == {id(y): 0}
    assert op.src == [(x.creator, id(x), x, True), (w.creator, id(w), None, False)]
    assert y.name == op.output_name(0) and y.requires_grad and not y.stores_grad


def test_a_leaf_has_a_dummy():
    x = param([1., 2.])
    assert isinstance(x.creator, A.Dummy)
    assert x.creator is not None and x.creator.stores_grad is True
    assert x.creator.name == x.name and x.creator.output_name(0) == x.name
    assert x.creator.src == []


def test_infer_dependency():
    x = param([1., 2.])
    a = A.relu(x)
    y = A.mul(a, a)
    consumers, uses = A.infer_dependency(y.creator)
    assert consumers == Counter({a.creator: 2, x.creator: 1, y.creator: 0})
    assert uses == Counter({id(a): 2, id(x): 1})


def test_results_know_whether_they_need_a_gradient():
    x = Tensor(data=np.ones(3, np.float32), requires_grad=False)
    assert not A.relu(x).requires_grad
    assert A.add(x, param(np.ones(3))).requires_grad


def test_helpers():
    assert A.axis_helper((2, 3, 4), (3, 1)) == (0, 2)
    assert A.axis_helper((2, 3), (2, 3)) == ()
    x = Tensor(data=np.arange(24, dtype=np.float32).reshape(2, 3, 4))
    np.testing.assert_array_equal(A.ctensor2numpy(A.back_broadcast((2, 3, 4), (3, 1), x.data)),
                                  read(x).sum((0, 2)).reshape(3, 1))
    np.testing.assert_array_equal(read(A.back_broadcast((2, 3, 4), (2, 3, 4), x.data)), read(x))
    np.testing.assert_array_equal(read(x)[A.make_slice(read(x), 1, 2)], read(x)[:, 2])
    np.testing.assert_array_equal(read(A.add_all(x, x, x)), 3 * read(x))
    assert A.CTensor is singa_wrap.Tensor


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="Linearr"):
        A.Linearr


@pytest.mark.parametrize("name", ["Layer", "Linear", "Conv2d", "SeparableConv2d", "BatchNorm2d",
                                  "Pooling2d", "MaxPool2d", "AvgPool2d", "MaxPool1d", "AvgPool1d",
                                  "RNN_Base", "RNN", "LSTM"])
def test_layers_under_their_older_names(name):
    layer = pytest.importorskip("weir.layer")
    assert getattr(A, name) is getattr(layer, name)


# ---- the way back ----

def test_backward_is_a_generator_of_pairs(mode):
    x, w, b = param(np.ones((2, 3))), param(np.ones((3, 2))), param(np.ones(2))
    x.stores_grad = False

    def step():
        pairs = A.backward(total(A.add_bias(A.matmul(x, w), b)))
        assert iter(pairs) is pairs
        return list(pairs)

    pairs = run(step, core.cpu(), mode)
    assert {id(p) for p, _ in pairs} == {id(w), id(b)}
    for p, g in pairs:
        assert isinstance(g, Tensor) and g.shape == p.shape
        np.testing.assert_array_equal(read(g), np.full(p.shape, 2))


def test_gradients_is_a_dict(mode):
    x = param([1., 2.])
    grads = run(lambda: A.gradients(total(A.mul(x, x))), core.cpu(), mode)
    assert list(grads) == [id(x)]
    np.testing.assert_array_equal(read(grads[id(x)]), [2, 4])


def test_uses_are_summed(mode):
    """a k + (a + a k2), which SINGA takes for 144."""
    a = param([1.])
    k, k2 = (Tensor(data=np.array([v], np.float32)) for v in (51, 12))
    grads = run(lambda: A.gradients(A.add(A.mul(a, k), A.add(a, A.mul(a, k2)))), core.cpu(), mode)
    np.testing.assert_array_equal(read(grads[id(a)]), [64])


@pytest.mark.parametrize("name", ["add", "sub", "sum", "mul", "max"])
def test_one_tensor_as_both_inputs(name, mode):
    x = param([1., -2.])
    dy = Tensor(data=np.array([3, 5], np.float32))
    dx = run(lambda: getattr(A, name)(x, x).creator.backward(dy.data), core.cpu(), mode)
    first, second = {"add": (1, 1), "sub": (1, -1), "sum": (1, 1), "max": (1, 0),
                     "mul": ([1, -2], [1, -2])}[name]
    np.testing.assert_array_equal(read(dx[0]), np.multiply(first, [3, 5]))
    np.testing.assert_array_equal(read(dx[1]), np.multiply(second, [3, 5]))


def test_a_tensor_and_its_shallow_copy_as_inputs():
    x = param([1., -2.])
    y = A.mul(x, x.copy())
    dx = y.creator.backward(A.relu(y).data)
    np.testing.assert_array_equal(read(dx[0]), [1, -8])
    np.testing.assert_array_equal(read(dx[1]), [1, -8])


def test_an_input_made_from_another(mode):
    """d of add(x, relu(x)) in its inputs is dy each: what relu makes of it is relu's."""
    x = param([1., -2.])
    dx = run(lambda: A.add(x, A.relu(x)).creator.backward(x.data), core.cpu(), mode)
    np.testing.assert_array_equal(read(dx[0]), [1, -2])
    np.testing.assert_array_equal(read(dx[1]), [1, -2])


def test_a_result_that_stores_its_gradient(mode):
    x = param([1., 2.])

    def step():
        y = A.mul(x, x)
        y.stores_grad = True
        return y, list(A.backward(total(A.mul(y, y))))

    y, pairs = run(step, core.cpu(), mode)
    grads = {id(p): read(g) for p, g in pairs}
    np.testing.assert_array_equal(grads[id(y)], [2, 8])
    np.testing.assert_array_equal(grads[id(x)], [4, 32])


def test_several_results(mode):
    x = param(np.arange(4.))
    g = Tensor(data=np.array([5, 6], np.float32))

    def step():
        a, b = A.split(x, 0, [2, 2])
        assert a.creator is b.creator and b.creator.y_id2idx == {id(a): 0, id(b): 1}
        return b.creator.backward(None, g.data)

    np.testing.assert_array_equal(read(run(step, core.cpu(), mode)), [0, 0, 5, 6])


def test_one_of_several_results_is_used(mode):
    x = param(np.arange(4.))
    grads = run(lambda: A.gradients(total(A.split(x, 0, [1, 3])[1])), core.cpu(), mode)
    np.testing.assert_array_equal(read(grads[id(x)]), [0, 1, 1, 1])


def test_backward_by_hand_through_two_operators(mode):
    x = param([0.3, -0.4])
    g = Tensor(data=np.array([5, 6], np.float32))

    def step():
        a = A.tanh(x)
        y = A.exp(a)
        return a.creator.backward(y.creator.backward(g.data))

    a = np.tanh([0.3, -0.4])
    np.testing.assert_allclose(read(run(step, core.cpu(), mode)),
                               [5, 6] * np.exp(a) * (1 - a * a), rtol=1e-5)


def test_no_gradient_for_what_requires_none():
    x = Tensor(data=np.ones(2, np.float32), requires_grad=False)
    w = param(np.ones(2))
    dx, dw = A.mul(x, w).creator.backward(w.data)
    assert dx is None
    np.testing.assert_array_equal(read(dw), [1, 1])


def test_a_result_made_without_a_gradient_is_a_constant():
    """A tensor with requires_grad off cuts the way back, however it was made."""
    x = param([2., 3.])
    y = A.mul(x, x)
    y.requires_grad = False
    grads = A.gradients(total(A.mul(y, x)))
    np.testing.assert_array_equal(read(grads[id(x)]), [4, 9])


def test_a_leaf_that_nothing_uses_has_no_pair():
    x, w = param([1.]), param([2.])
    assert set(A.gradients(total(A.mul(x, A.sign(A._not(w)))))) == {id(x)}


def test_backward_needs_one_element():
    with pytest.raises(ValueError, match="one element"):
        list(A.backward(A.relu(param([1., 2.]))))


def test_backward_without_parameters_gives_nothing():
    assert list(A.backward(A.relu(Tensor(data=np.ones(1, np.float32))))) == []


def test_backward_of_a_call_outside_training():
    autograd.training = False
    y = A.relu(param([1.]))
    with pytest.raises(RuntimeError, match="training"):
        y.creator.backward(y.data)


@pytest.mark.parametrize("dy, kind", [(np.ones(3, np.float32), ValueError),
                                      (np.ones((2, 2)), ValueError)])
def test_a_gradient_that_does_not_fit(dy, kind):
    y = A.relu(param([1., 2.]))
    with pytest.raises(kind):
        y.creator.backward(Tensor(data=dy).data)


# ---- no gradient at all ----

def test_calls_while_training_is_off():
    w = weir.randn(3, 2, requires_grad=True)
    x = weir.randn(4, 3)
    autograd.training = False
    loss = (x @ w).square().sum()
    with pytest.raises(InvalidError, match="before the forward, set weir.autograd.training"):
        loss.backward()
    with pytest.raises(InvalidError, match="autograd.training is False"):
        opt.SGD(0.1)(loss)
    autograd.training = True
    with pytest.raises(InvalidError, match="depends on no tensor that stores a gradient"):
        loss.backward()
    assert [p is w for p, _ in (x @ w).square().sum().backward()] == [True]


def test_a_loss_of_no_parameter():
    loss = (weir.randn(2, 3) * 2.0).sum()
    with pytest.raises(InvalidError, match="depends on no tensor that stores a gradient"):
        loss.backward()
    w = weir.randn(3, requires_grad=True)
    with pytest.raises(InvalidError):
        w.detach().sum().backward()
    with pytest.raises(InvalidError):
        opt.SGD(0.1)(w.detach().sum())


def test_a_failing_call_leaves_the_tape_off():
    x = param(np.ones((2, 3)))
    with pytest.raises(ValueError):
        A.matmul(x, x)
    y = Tensor(data=singa_wrap.Sum(x.data), creator=A.relu(x).creator)
    with pytest.raises(ValueError, match="depends on no"):
        list(A.backward(y))


# ---- gradients are tensors of their own ----

@pytest.mark.parametrize("call", [A.add, A.sum, lambda a, b: A.identity(A.add(a, b)), A.mean],
                         ids=["add", "sum", "identity", "mean"])
def test_gradients_never_share_memory(call, mode):
    """What one parameter's update adds into its gradient does not reach another's."""
    a, b = param([1., 2.]), param([3., 4.])
    one = read(list(A.backward(total(call(a, b))))[0][1])[0]

    def step():
        (_, g), (_, h) = A.backward(total(call(a, b)))
        g += 10
        return g, h

    g, h = run(step, core.cpu(), mode)
    np.testing.assert_array_equal(read(g), [10 + one] * 2)
    np.testing.assert_array_equal(read(h), [one] * 2)


def test_the_given_gradient_is_not_changed(mode):
    x, w = param([1., 2.]), param([1., 1.])
    dy = Tensor(data=np.array([3, 4], np.float32))

    def step():
        dx, dw = A.add(x, w).creator.backward(dy.data)
        dx += 5.0
        return dx, dw

    dx, dw = run(step, core.cpu(), mode)
    np.testing.assert_array_equal(read(dw), [3, 4])
    np.testing.assert_array_equal(read(dy), [3, 4])
    np.testing.assert_array_equal(read(dx), [8, 9])


def test_a_given_result_is_not_shared(mode):
    """dy, itself a result, changes after the gradient was taken from it."""
    x, w = param([1., 2.]), param([1., 1.])

    def step():
        dy = A.add(x, w)
        dx, dw = A.add(x, w).creator.backward(dy.data)
        dy += 5.0
        return dx, dw, dy

    dx, dw, dy = run(step, core.cpu(), mode)
    np.testing.assert_array_equal(read(dx), [2, 3])
    np.testing.assert_array_equal(read(dw), [2, 3])
    np.testing.assert_array_equal(read(dy), [7, 8])


def test_a_graph_sees_changes_of_a_gradient():
    """A gradient computed at once is an input of a graph: it changes in its memory."""
    dev, x, w = core.cpu(), param([1., 2.]), param([1., 1.])
    dx, dw = A.add(x, w).creator.backward(x.data)
    dx, dw = Tensor(data=dx), Tensor(data=dw)
    dev.EnableGraph(True)
    y = A.mul(dx, dw)
    dev.EnableGraph(False)
    dev.RunGraph()
    np.testing.assert_array_equal(read(y), [1, 4])
    dx += 1.0
    dev.RunGraph()
    np.testing.assert_array_equal(read(y), [2, 6])
    dev.Reset()


def test_identity_may_change_in_place_alone():
    x = param([1., 2.])
    y = A.identity(x)
    y += 1
    np.testing.assert_array_equal(read(x), [1, 2])
    np.testing.assert_array_equal(read(y), [2, 3])


# ---- views as inputs ----

def test_a_transposed_input(mode):
    x = Tensor(data=np.arange(6, dtype=np.float32).reshape(2, 3))
    t = x.transpose()
    w = param(np.ones((2, 2)))
    grads = run(lambda: A.gradients(total(A.matmul(t, w))), core.cpu(), mode)
    np.testing.assert_array_equal(read(grads[id(w)]), np.repeat([[3.], [12.]], 2, 1))


def test_a_raw_view_is_a_leaf_of_its_own():
    x = param(np.arange(6.).reshape(2, 3))
    t = Tensor(data=singa_wrap.DefaultTranspose(x.data))
    grads = A.gradients(total(A.mul(t, t), A.reshape(x, (3, 2))))
    np.testing.assert_array_equal(read(grads[id(x)]), np.ones((2, 3)))


# ---- long chains ----

def test_a_long_chain_neither_overflows_nor_leaks():
    x = param([1.])
    y = x
    for _ in range(20000):
        y = A.identity(y)
    np.testing.assert_array_equal(read(A.gradients(y)[id(x)]), [1])
    del y


# ---- the same loss once more ----

def squares(w):
    h = A.mul(w, A.exp(w))
    return A.reduce_sum(A.mul(h, h), keepdims=0)


def test_backward_twice(mode):
    """As often as a script likes, in a graph too: the gradients are the same."""
    w = param([1., -2.])

    def step():
        loss = squares(w)
        return [g for _ in range(3) for _, g in A.backward(loss)]

    found = [g.numpy() for g in run(step, core.cpu(), mode)]
    assert len(found) == 3
    for g in found[1:]:
        assert np.array_equal(g, found[0])


def test_backward_twice_by_the_creator():
    y = A.tanh(param([1.]))
    one, two = (y.creator.backward(y.data).to_numpy() for _ in range(2))
    assert np.array_equal(one, two)


def test_backward_of_two_losses_that_share_a_part():
    w = param([1., -2.])
    h = A.exp(w)
    for factor in (2.0, 3.0):
        loss = A.reduce_sum(A.mul(h, tensor.from_numpy(np.full(2, factor, np.float32))), keepdims=0)
        (_, g), = A.backward(loss)
        assert np.allclose(g.numpy(), factor * np.exp([1, -2]), rtol=1e-6)


def test_a_second_backward_without_retaining():
    w = param([1., -2.])
    loss = squares(w)
    list(A.backward(loss, retain_graph=False))
    with pytest.raises(StateError, match=r"earlier backward.*backward\(retain_graph=True\)"):
        list(A.backward(loss))
    loss = squares(w)
    loss.backward(retain_graph=True)
    loss.backward()
    with pytest.raises(StateError, match="earlier backward"):
        loss.backward()


def test_a_second_backward_after_an_update():
    """What the gradients read has changed: an error, never other numbers."""
    w = param([1., -2.])
    loss = squares(w)
    (_, g), = A.backward(loss)
    opt.SGD(0.1).apply("w", w, g)
    with pytest.raises(StateError, match="has changed since"):
        list(A.backward(loss))


def test_what_a_backward_keeps_dies_with_the_loss():
    w = param(np.full(1000, 0.5))
    dev = core.cpu()
    before = device.memory(dev)["live"]
    loss = squares(w)
    kept = device.memory(dev)["live"]
    list(A.backward(loss))
    assert device.memory(dev)["live"] == kept
    list(A.backward(loss, retain_graph=False))
    assert device.memory(dev)["live"] < kept
    del loss
    assert device.memory(dev)["live"] == before


def test_a_plan_with_two_backwards_stays_true():
    """Planned bytes are those measured, within a budget too, and the bits are the same.

    On a device of its own: the budget is a share of all bytes that live there.
    """
    own = device.open_cpu(threads=1)
    w = param(np.linspace(-1, 1, 4096), device=own)

    def record(**plan):
        with own.graph(**plan) as graph:
            loss = squares(A.exp(A.tanh(w)))
            found = [g for _ in range(2) for _, g in A.backward(loss)]
            del loss
        graph.run()
        return graph, [g.numpy() for g in found]

    free, want = record()
    tight, got = record(budget="90%")
    assert np.array_equal(want[0], want[1])
    assert all(np.array_equal(a, b) for a, b in zip(want, got))
    for graph in (free, tight):
        assert graph.measure() == graph.stats["arena_bytes"]
    assert tight.stats["planned_peak_bytes"] <= tight.stats["budget_bytes"]

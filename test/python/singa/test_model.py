"""test_model - models eagerly, as graphs and in recorded order against NumPy; capture."""
import copy
import gc
import pickle

import numpy as np
import pytest

import weir
from weir import _capi as capi, autograd, core, layer, model, opt, plot, tensor
from weir.errors import BudgetError, Error, StateError

from mlp import MLP, WAYS, data, host, params, ready


@pytest.fixture(params=WAYS)
def way(request):
    """use_graph and sequential of compile."""
    yield WAYS[request.param]
    autograd.training = False
    core.cpu().Reset()


@pytest.fixture(autouse=True)
def clean():
    yield
    autograd.training = False
    assert not core.cpu().recording


class NumpyMLP:
    """The same in f64."""

    def __init__(self, p):
        self.p = {k: v.astype(np.float64) for k, v in p.items()}
        self.m = {k: np.zeros(v.shape) for k, v in p.items()}

    def step(self, x, t, lr=0.1):
        p = self.p
        a = x @ p["l1.W"] + p["l1.b"]
        h = np.maximum(a, 0)
        out = h @ p["l2.W"] + p["l2.b"]
        e = np.exp(out - out.max(1, keepdims=True))
        prob = e / e.sum(1, keepdims=True)
        rows = np.arange(len(t))
        loss = -np.log(prob[rows, t]).mean()
        d = prob.copy()
        d[rows, t] -= 1
        d /= len(t)
        da = (d @ p["l2.W"].T) * (a > 0)
        grads = {"l1.W": x.T @ da, "l1.b": da.sum(0), "l2.W": h.T @ d, "l2.b": d.sum(0)}
        for k, g in grads.items():
            self.m[k] = 0.9 * self.m[k] + g
            p[k] = p[k] - lr * self.m[k]
        return out, loss


def test_training_is_numpys(way):
    net, tx, tt = ready(*way)
    twin = NumpyMLP(params(net))
    for i in range(4):
        x, t = data(seed=i)
        tx.copy_from_numpy(x)
        tt.copy_from_numpy(t)
        out, loss = net(tx, tt)
        wanted = twin.step(x, t)
        np.testing.assert_almost_equal(host(out), wanted[0], 6)
        np.testing.assert_almost_equal(host(loss)[0], wanted[1], 6)
        for name, p in params(net).items():
            np.testing.assert_almost_equal(p, twin.p[name], 6)
    assert net.recorded == (1 if way[0] else 4)
    assert net.optimizer.get_states()["step_counter"] == 4


def test_all_ways_give_the_same_bits():
    traces = []
    for use_graph, sequential in WAYS.values():
        net, tx, tt = ready(use_graph, sequential)
        traces.append([host(net(tx, tt)[1])[0] for _ in range(20)] + list(params(net).values()))
    for other in traces[1:]:
        for a, b in zip(traces[0], other):
            np.testing.assert_array_equal(a, b)


# ---- compile, modes ----

def test_compile_makes_parameters_and_computes_nothing(way):
    net, tx, _ = ready(*way)
    assert list(net.get_params()) == ["l1.W", "l1.b", "l2.W", "l2.b"]
    assert (net.training, net.graph_mode, net.sequential) == (True, *way)
    assert autograd.training
    before = params(net)
    net.compile([tx], is_train=False, use_graph=True)
    assert not autograd.training and not net.training
    for name, p in params(net).items():
        np.testing.assert_array_equal(p, before[name])


def test_compile_leaves_running_statistics_alone():
    class Normal(model.Model):
        def __init__(self):
            super().__init__()
            self.bn = layer.BatchNorm2d()

        def forward(self, x):
            return self.bn(x)

    net = Normal()
    net.compile([tensor.from_numpy(data()[0])], is_train=True)
    assert not host(net.bn.running_mean).any()


def test_evaluation_runs_forward_eagerly(way):
    net, tx, tt = ready(*way)
    net(tx, tt)
    net.eval()
    x, _ = data(5, seed=9)
    p = params(net)
    wanted = np.maximum(x @ p["l1.W"] + p["l1.b"], 0) @ p["l2.W"] + p["l2.b"]
    np.testing.assert_almost_equal(host(net(tensor.from_numpy(x))), wanted, 5)
    net.train()
    assert net.training and autograd.training


def test_graph_without_compile():
    x, t = data()
    net = MLP()
    net.optimizer = opt.SGD(0.1)
    net.graph(True, False)
    net.train()
    tx, tt = tensor.from_numpy(x), tensor.from_numpy(t)
    first = host(net(tx, tt)[1])[0]
    for _ in range(20):
        last = host(net(tx, tt)[1])[0]
    assert last < first and net.recorded == 1


def test_compile_wants_tensors():
    with pytest.raises(AssertionError):
        MLP().compile([np.zeros((2, 4))])
    with pytest.raises(AssertionError):
        MLP().compile([])


def test_what_a_script_must_give():
    with pytest.raises(NotImplementedError):
        model.Model()(tensor.from_numpy(data()[0]))


def test_a_graph_wants_a_tensor():
    net, *_ = ready(True)
    with pytest.raises(AssertionError, match="needs a Tensor"):
        net.train_one_batch(1, 2)


# ---- capture ----

def test_a_new_shape_is_a_new_graph():
    net, tx, tt = ready(True)
    twin, ex, et = ready(False)
    for n in (8, 5, 8, 5, 3):
        x, t = data(n, seed=n)
        loss = net(tensor.from_numpy(x), tensor.from_numpy(t))[1]
        wanted = twin(tensor.from_numpy(x), tensor.from_numpy(t))[1]
        assert host(loss)[0] == host(wanted)[0]
    assert len(net.graphs) == 3


def test_a_new_type_is_a_new_graph():
    net, tx, tt = ready(True)
    net(tx, tt)
    hot = tensor.from_numpy(np.eye(3, dtype=np.float32)[host(tt)])
    net(tx, hot)
    assert len(net.graphs) == 2


def test_inputs_that_are_results_or_converted_in_place():
    net, tx, tt = ready(True)
    twin, *_ = ready(False)
    x, t = data(seed=3)
    made = tensor.from_numpy(x * 2) * 0.5
    assert host(net(made, tt)[1])[0] == host(twin(tensor.from_numpy(x), tt)[1])[0]
    made.copy_from_numpy(data(seed=4)[0])
    assert host(net(made, tt)[1])[0] == host(twin(made, tt)[1])[0]
    made.to_type(tensor.float32)
    assert host(net(made, tt)[1])[0] == host(twin(made, tt)[1])[0]


def test_lists_and_plain_arguments():
    class Many(MLP):
        def train_one_batch(self, xs, t, factor=1.0, *, labels=None):
            self.recorded += 1
            loss = self.ce(self.forward(autograd.add(xs[0], xs[1])), t)
            loss = autograd.mul(loss, tensor.from_numpy(np.float32([factor])))
            self.optimizer(loss)
            return {"loss": loss, "factor": factor, "list": [loss]}

    net, _, tt = ready(True, make=Many)
    twin, *_ = ready(False, make=Many)
    xs = [tensor.from_numpy(data(seed=i)[0]) for i in range(2)]
    for factor in (1.0, 1.0, 2.0, 1.0):
        got, wanted = net(xs, tt, factor), twin(xs, tt, factor)
        assert got["factor"] == factor and got["list"][0] is got["loss"]
        assert host(got["loss"])[0] == host(wanted["loss"])[0]
    assert net.recorded == 2
    assert host(net(xs, tt, factor=1.0)["loss"])[0] == host(twin(xs, tt, factor=1.0)["loss"])[0]
    assert host(net(xs, t=tt)["loss"])[0] == host(twin(xs, t=tt)["loss"])[0]


def test_arrays_and_objects_as_arguments():
    class Shifted(MLP):
        def train_one_batch(self, x, t, shift, notes=None):
            return super().train_one_batch(autograd.add(x, tensor.from_numpy(shift)), t)[1]

    net, tx, tt = ready(True, make=Shifted)
    twin, ex, et = ready(False, make=Shifted)
    notes = bytearray(b"not hashable")
    shift = np.zeros(4, np.float32)
    for i in (0, 1, 0, 1):
        shift[:] = i
        assert host(net(tx, tt, shift, notes))[0] == host(twin(ex, et, shift, notes))[0]
    assert net.recorded == 2
    assert host(net(tx, tt, shift, bytearray(3)))[0] == host(twin(ex, et, shift))[0]
    assert net.recorded == 3


def test_a_plan_that_fails_leaves_the_device_as_it_was(monkeypatch):
    from weir import capture
    net, tx, tt = ready(True, sequential=True)
    twin, ex, et = ready(False)
    with monkeypatch.context() as patch:
        patch.setattr(capture, "_plan", lambda *how: core.options(capi.weir_plan_options,
                                                                disable="none"))
        with pytest.raises(Error, match="none"):
            net(tx, tt)
    assert not core.cpu().recording
    for _ in range(3):
        assert host(net(tx, tt)[1])[0] == host(twin(ex, et)[1])[0]


class Cube(autograd.Operator):
    """An operator of a script."""

    def forward(self, x):
        self.x = x.to_numpy()
        return tensor.from_numpy(self.x ** 3).data

    def backward(self, dy):
        return tensor.from_numpy(3 * self.x ** 2 * dy.to_numpy()).data


def test_an_operator_of_a_script_in_a_graph():
    class Cubed(MLP):
        def forward(self, x):
            return self.l2(Cube()(self.l1(x))[0])

    net, tx, tt = ready(True, make=Cubed, lr=0.01)
    twin, ex, et = ready(False, make=Cubed, lr=0.01)
    for _ in range(4):
        gc.collect()
        assert host(net(tx, tt)[1])[0] == host(twin(ex, et)[1])[0]


@pytest.mark.parametrize("make", [
    lambda: opt.SGD(opt.ExponentialDecay(0.1, 2, 0.5), momentum=0.9, nesterov=True),
    lambda: opt.Adam(0.01, beta_2=0.9),
    lambda: opt.RMSProp(0.01),
    lambda: opt.AdaGrad(opt.Constant(0.01), weight_decay=0.1),
])
def test_copies_of_a_model_with_its_optimiser(make):
    net, tx, tt = ready(True)
    net.optimizer = make()
    for _ in range(2):
        net(tx, tt)
    twins = copy.deepcopy(net), pickle.loads(pickle.dumps(net))
    for _ in range(3):
        net(tx, tt)
    for twin in twins:
        assert twin.optimizer is not net.optimizer
        for _ in range(3):
            twin(tx, tt)
        for name, p in params(twin).items():
            np.testing.assert_array_equal(p, params(net)[name])


def test_graphs_of_a_model_tell_of_themselves():
    net, tx, tt = ready(True)
    net(tx, tt)
    live = plot.live_bytes(net.graphs[0])
    assert max(map(sum, zip(*live.values()))) == net.graphs[0].stats["lower_bound_bytes"]


@pytest.mark.parametrize("plan, text", [
    ({"policy": "dtrx"}, "'dtrx'.*auto, mincut, recycle"),
    ({"policy": "dtr:foo"}, "'foo'.*eq, local"),
    ({"placement": "foo"}, "'foo'.*tstack"),
    ({"disable": "foo"}, "'foo'.*fold"),
    ({"budget": "much"}, "'much'.*512MB"),
])
def test_compile_refuses_plans_that_no_step_has(plan, text):
    net, tx, _ = ready(False)
    with pytest.raises(weir.InvalidError, match=text):
        net.compile([tx], use_graph=True, **plan)
    with pytest.raises(weir.InvalidError, match=text):
        net.graph(True, **plan)


def test_copies_of_a_model():
    net, tx, tt = ready(True)
    net(tx, tt)
    del net.optimizer
    for twin in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert twin.graphs == [] and twin.l1._parent is twin
        assert list(twin.get_params()) == list(net.get_params())
        before = params(net)
        twin.optimizer = opt.SGD(0.1)
        twin(tx, tt)
        for name, p in params(net).items():
            np.testing.assert_array_equal(p, before[name])


def test_two_graph_models_on_one_device():
    a, ax, at = ready(True)
    b, bx, bt = ready(True, lr=0.01)
    c, cx, ct = ready(False)
    d, dx, dt = ready(False, lr=0.01)
    for _ in range(5):
        assert host(a(ax, at)[1])[0] == host(c(cx, ct)[1])[0]
        assert host(b(bx, bt)[1])[0] == host(d(dx, dt)[1])[0]
    assert a.recorded == b.recorded == 1


def test_a_model_that_trains_another():
    class Pair(model.Model):
        def __init__(self):
            super().__init__()
            self.inner = MLP()
            self.inner.optimizer = opt.SGD(0.1, momentum=0.9)

        def forward(self, x):
            return self.inner.forward(x)

        def train_one_batch(self, x, t):
            return self.inner.train_one_batch(x, t)

    net, tx, tt = ready(True, make=Pair)
    twin, ex, et = ready(False)
    for _ in range(3):
        assert host(net(tx, tt)[1])[0] == host(twin(ex, et)[1])[0]
    assert net.inner.recorded == 1


def test_an_overridden_step_may_call_the_one_below():
    class More(MLP):
        def train_one_batch(self, x, t):
            out, loss = super().train_one_batch(x, t)
            return out, loss, autograd.mul(loss, loss)

    net, tx, tt = ready(True, make=More)
    for _ in range(3):
        _, loss, square = net(tx, tt)
        np.testing.assert_allclose(host(square), host(loss) ** 2, rtol=1e-6)
    assert net.recorded == 1


def test_reading_while_recording():
    class Reader(MLP):
        def train_one_batch(self, x, t):
            out, loss = super().train_one_batch(x, t)
            host(loss)
            return out, loss

    net, tx, tt = ready(True, make=Reader)
    before = params(net)
    for _ in range(2):
        with pytest.raises(StateError):
            net(tx, tt)
        assert not core.cpu().recording
    for name, p in params(net).items():
        np.testing.assert_array_equal(p, before[name])


def test_a_step_that_fails_leaves_the_device_as_it_was():
    class Broken(MLP):
        broken = True

        def train_one_batch(self, x, t):
            out, loss = super().train_one_batch(x, t)
            if self.broken:
                raise KeyError("mine")
            return out, loss

    net, tx, tt = ready(True, make=Broken)
    twin, ex, et = ready(False)
    with pytest.raises(KeyError, match="mine"):
        net(tx, tt)
    assert not core.cpu().recording
    net.broken = False
    for _ in range(3):
        assert host(net(tx, tt)[1])[0] == host(twin(ex, et)[1])[0]


def test_a_failing_forward_leaves_compile_not_recording():
    class Wrong(MLP):
        def forward(self, x):
            return autograd.matmul(x, x)

    with pytest.raises(Error):
        Wrong().compile([tensor.from_numpy(data()[0])])
    assert not core.cpu().recording


def test_a_new_optimizer_is_a_new_graph():
    net, tx, tt = ready(True)
    net(tx, tt)
    before = params(net)
    net.optimizer = opt.SGD(0.0)
    net(tx, tt)
    for name, p in params(net).items():
        np.testing.assert_array_equal(p, before[name])


def test_scheduled_rates_go_on_in_a_graph(way):
    net, tx, tt = ready(*way)
    net.optimizer = opt.SGD(opt.ExponentialDecay(0.1, 1, 0.5))
    for n in range(4):
        np.testing.assert_allclose(host(net.optimizer.lr_value), [0.1 * 0.5**n], rtol=1e-6)
        net(tx, tt)


@pytest.mark.parametrize("make", [opt.Adam, opt.RMSProp, opt.AdaGrad, opt.AdamW,
                                  lambda lr: opt.SGD(lr, 0.9, clip_norm=0.1),
                                  lambda lr: opt.SGD(lr, 0.9, clip_value=0.01)])
def test_optimisers_in_all_ways(make):
    traces = []
    for way in WAYS.values():
        net, tx, tt = ready(*way)
        net.optimizer = make(0.01)
        traces.append([host(net(tx, tt)[1])[0] for _ in range(8)])
    assert traces[0] == traces[1] == traces[2] and traces[0][-1] < traces[0][0]


def test_parameters_of_one_name(way):
    class Nameless(model.Model):
        def __init__(self):
            super().__init__()
            self.parts = [layer.Linear(4, bias=False), layer.Linear(4, bias=False)]

        def forward(self, x):
            return self.parts[1](self.parts[0](x))

        def train_one_batch(self, x, t):
            loss = autograd.mse_loss(self.forward(x), x)
            self.optimizer(loss)
            return loss

    net, tx, tt = ready(*way, make=Nameless)
    x = host(tx).astype(np.float64)
    w = [host(part.W).astype(np.float64) for part in net.parts]
    m = [0, 0]
    for _ in range(3):
        net(tx, tt)
        d = 2 * (x @ w[0] @ w[1] - x) / x.size
        grads = [x.T @ d @ w[1].T, (x @ w[0]).T @ d]
        for i in (0, 1):
            m[i] = 0.9 * m[i] + grads[i]
            w[i] = w[i] - 0.1 * m[i]
    for i in (0, 1):
        np.testing.assert_almost_equal(host(net.parts[i].W), w[i], 6)


def stats_of(graph):
    stats = capi.weir_graph_stats()
    capi.weir_graph_stats_of(graph, stats)
    return stats


def core_step(p, tx, tt):
    """The MLP's step in calls of the core alone, planned: what a C program has."""
    dev = core.cpu()
    w1, b1, w2, b2 = (t.data.handle for t in p)
    moments = [capi.weir_state(dev.handle, capi.weir_tensor_desc(h), None)
               for h in (w1, b1, w2, b2)]
    for m in moments:
        capi.weir_write_fill(m, 0.0)
    rate = capi.weir_state(dev.handle, (capi.WEIR_F32, (1,)), None)
    capi.weir_write_fill(rate, 0.1)
    options = core.options(capi.weir_sgd_options, momentum=0.9)
    for h in (w1, b1, w2, b2):
        capi.weir_tensor_set_needs_grad(h, True)
    dev.begin_graph()
    with dev.taped():
        h = capi.weir_relu(capi.weir_add(capi.weir_matmul(tx.data.handle, w1), b1))
        out = capi.weir_add(capi.weir_matmul(h, w2), b2)
        loss = capi.weir_cross_entropy(out, tt.data.handle)
    del h
    grads = capi.gradients(loss, None, [w1, b1, w2, b2])
    for w, g, m in zip((w1, b1, w2, b2), grads, moments):
        capi.weir_sgd_update(w, g, m, rate, options)
    del g, grads
    graph, _ = dev.end_graph()
    return graph, out, loss


@pytest.mark.parametrize("n", [8, 64, 200])
def test_the_plan_is_as_small_as_the_core_alones(n):
    """Temporaries of a Python step die by reference counting, before planning."""
    gc.disable()
    try:
        net, tx, tt = ready(True, n=n)
        net(tx, tt)
    finally:
        gc.enable()
    mine = stats_of(net.graphs[0])
    graph, out, loss = core_step(list(net.get_params().values()), tx, tt)
    wanted = stats_of(graph)
    assert mine.arena_bytes == wanted.arena_bytes == mine.lower_bound_bytes


def test_a_model_is_freed_with_its_graphs():
    gc.collect()
    gc.disable()                        # by reference counting alone
    try:
        before = core.cpu().memory().persistent
        for way in WAYS.values():
            net, tx, tt = ready(*way, n=64)
            net(tx, tt)
            assert core.cpu().memory().persistent > before
            del net, tx, tt
            assert core.cpu().memory().persistent == before
    finally:
        gc.enable()


def test_dropout_and_batch_norm_in_a_graph():
    class Noisy(MLP):
        def __init__(self):
            super().__init__()
            self.bn, self.drop = layer.BatchNorm2d(), layer.Dropout(0.3)

        def forward(self, x):
            return self.l2(self.drop(self.bn(self.l1(x))))

    traces = []
    for way in WAYS.values():
        net, tx, tt = ready(*way, make=Noisy)
        core.cpu().SetRandSeed(3)
        traces.append([host(net(tx, tt)[1])[0] for _ in range(6)]
                      + list(host(net.bn.running_var)))
    assert traces[0] == traces[1] == traces[2]


def test_budget():
    """A budget is kept to the byte and changes no bit; one that is too small is refused."""
    net, x, t = ready(use_graph=True, n=512)
    net(x, t)
    free, wanted = graph_stats(net).planned_peak_bytes, params(net)
    del net, x, t
    net, x, t = ready(n=512)
    net.graph(True, budget=free)
    net(x, t)
    stats = graph_stats(net)
    assert stats.planned_peak_bytes <= stats.budget_bytes == free
    for name, value in params(net).items():
        np.testing.assert_array_equal(value, wanted[name])
    net.graph(True, budget=1000)
    with pytest.raises(BudgetError, match="the smallest that works"):
        net(x, t)


def graph_stats(net):
    stats = capi.weir_graph_stats()
    capi.weir_graph_stats_of(net.graphs[-1], stats)
    return stats

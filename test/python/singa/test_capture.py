"""test_capture - one plan a signature, what results and inputs hold, what is freed, warnings."""
import gc
import warnings
import weakref

import numpy as np
import pytest

import weir
from weir import autograd, core, errors, layer, model, opt, tensor

from mlp import MLP, data, host, params, ready


@pytest.fixture(autouse=True)
def clean():
    yield
    autograd.training = False
    assert not core.cpu().recording


def batch(n=8, seed=0):
    return tuple(tensor.from_numpy(a) for a in data(n, seed))


# ---- one plan a signature ----

def test_a_fresh_tensor_per_batch_is_planned_once_a_signature():
    net, *_ = ready(True)
    twin, *_ = ready(False)
    for _ in range(3):
        for i, n in enumerate((8, 8, 8, 8, 5)):         # the last batch of an epoch is smaller
            out, loss = net(*batch(n, i))
            wanted = twin(*batch(n, i))
            np.testing.assert_array_equal(host(out), host(wanted[0]))
            assert host(loss)[0] == host(wanted[1])[0]
    assert net.recorded == 2 and net.graph_stats()["planned"] == 2
    assert [g["runs"] for g in net.graph_stats()["graphs"]] == [12, 3]
    for name, p in params(net).items():
        np.testing.assert_array_equal(p, params(twin)[name])


def test_tensors_of_a_script_never_change_their_elements():
    net, *_ = ready(True)
    twin, *_ = ready(False)
    batches = [batch(seed=i) for i in range(3)]
    for _ in range(3):
        for i, (x, t) in enumerate(batches):
            assert host(net(x, t)[1])[0] == host(twin(x, t)[1])[0]
            for (mine, _), seed in zip(batches, range(3)):
                np.testing.assert_array_equal(host(mine), data(seed=seed)[0])
    assert net.recorded == 1 and len(net.graphs) == 1


def test_the_same_tensors_are_read_where_they_lie(monkeypatch):
    from weir import capture
    net, tx, tt = ready(True)
    net(tx, tt)
    copies = []
    monkeypatch.setattr(capture.capi, "weir_assign", lambda *a: copies.append(a))
    for _ in range(3):
        net(tx, tt)
    assert not copies


def test_what_is_written_into_the_first_tensors_is_seen_before_and_after_others():
    net, tx, tt = ready(True)
    twin, ex, et = ready(False)
    for i, other in enumerate((False, True, False, True, True, False)):
        if other:
            assert host(net(*batch(seed=i))[1])[0] == host(twin(*batch(seed=i))[1])[0]
            continue
        for x, t in ((tx, tt), (ex, et)):
            x.copy_from_numpy(data(seed=i)[0])
            t.copy_from_numpy(data(seed=i)[1])
        assert host(net(tx, tt)[1])[0] == host(twin(ex, et)[1])[0]
    assert net.recorded == 1


def test_numpy_that_looks_at_an_input_sees_what_the_script_writes():
    net, tx, tt = ready(True)
    net(tx, tt)
    view = np.asarray(weir.tensor.to_numpy(tx))
    shown = tx.__array__(copy=False)
    net(*batch(seed=1))
    np.testing.assert_array_equal(shown, view)          # the other batch went elsewhere
    shown[:] = 0
    twin, *_ = ready(False)
    twin(*batch())
    twin(*batch(seed=1))
    zero = tensor.from_numpy(np.zeros((8, 4), np.float32))
    assert host(net(tx, tt)[1])[0] == host(twin(zero, batch()[1])[1])[0]


def test_one_tensor_twice_is_another_signature_than_two():
    class Sum(model.Model):
        def train_one_batch(self, a, b):
            return autograd.add(autograd.mul(a, a), b)

    net = Sum()
    net.graph(True)
    net.train()
    one, two, three = (tensor.from_numpy(np.full(3, v, np.float32)) for v in (1, 2, 3))
    for a, b, wanted in ((one, one, 2), (two, three, 7), (three, three, 12), (three, one, 10),
                         (two, two, 6)):
        assert host(net(a, b)).tolist() == [wanted] * 3
    assert len(net.graphs) == 2


def test_a_view_may_be_an_input():
    class Double(model.Model):
        def train_one_batch(self, a):
            return autograd.add(a, a)

    net = Double()
    net.graph(True)
    net.train()
    base = tensor.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3))
    for _ in range(2):
        assert host(net(tensor.transpose(base))).tolist() == [[0, 6], [2, 8], [4, 10]]
    assert host(net(tensor.from_numpy(np.ones((3, 2), np.float32)))).tolist() == [[2, 2]] * 3
    assert host(base).tolist() == [[0, 1, 2], [3, 4, 5]] and len(net.graphs) == 1


def test_a_step_that_changes_its_input_changes_the_callers():
    class Counts(model.Model):
        def train_one_batch(self, n):
            n += 1
            return autograd.mul(n, n)

    net = Counts()
    net.graph(True)
    net.train()
    a, b = (tensor.from_numpy(np.float32([v])) for v in (0, 10))
    for i in range(1, 4):
        assert host(net(a))[0] == i * i and host(a)[0] == i
        assert host(net(b))[0] == (10 + i) ** 2 and host(b)[0] == 10 + i
    assert len(net.graphs) == 1


# ---- results ----

def test_results_keep_their_elements():
    net, tx, tt = ready(True)
    twin, ex, et = ready(False)
    held = [net(tx, tt) for _ in range(4)]
    wanted = [twin(ex, et) for _ in range(4)]
    for mine, eager in zip(held, wanted):
        np.testing.assert_array_equal(host(mine[0]), host(eager[0]))
        assert host(mine[1])[0] == host(eager[1])[0]
    assert len({id(loss) for _, loss in held}) == 4


def test_views_numpy_and_shallow_copies_of_a_result_keep_theirs():
    net, tx, tt = ready(True)
    out = net(tx, tt)[0]
    wanted = host(out).copy()
    turned, flat, array = tensor.transpose(out), out.reshape((-1,)), np.from_dlpack(out)
    shared = tensor.Tensor(data=out.data)
    for _ in range(2):
        net(tx, tt)
        np.testing.assert_array_equal(host(turned), wanted.T)
        np.testing.assert_array_equal(host(flat), wanted.ravel())
        np.testing.assert_array_equal(array, wanted)
        np.testing.assert_array_equal(host(shared), wanted)


def test_results_that_nobody_holds_are_not_copied(monkeypatch):
    net, tx, tt = ready(True)
    net(tx, tt)
    moved = []
    plain = core.Value.move_out
    monkeypatch.setattr(core.Value, "move_out", lambda v: (moved.append(v), plain(v)))
    for _ in range(3):
        net(tx, tt)
    assert not moved
    out, loss = net(tx, tt)
    del out
    net(tx, tt)
    assert len(moved) == 1


def test_held_results_go_with_their_tensors():
    net, tx, tt = ready(True)
    net(tx, tt)
    gc.collect()
    before = core.cpu().memory().live
    held = [net(tx, tt) for _ in range(8)]
    assert core.cpu().memory().live > before
    del held
    net(tx, tt)
    assert core.cpu().memory().live == before


def test_a_result_that_is_an_input_a_parameter_or_no_tensor():
    class Echo(MLP):
        def train_one_batch(self, x, t):
            out, loss = super().train_one_batch(x, t)
            return {"x": x, "w": self.l1.W, "loss": [loss, loss], "name": "echo", "none": None}

    net, tx, tt = ready(True, make=Echo)
    for x in (tx, batch(seed=1)[0], tx):
        got = net(x, tt)
        assert got["x"] is x and got["w"] is net.l1.W
        assert got["loss"][0] is got["loss"][1] and got["name"] == "echo" and got["none"] is None


def test_an_attribute_that_is_a_result_follows_the_runs():
    class Remembers(MLP):
        def train_one_batch(self, x, t):
            out, self.loss = super().train_one_batch(x, t)
            return out, self.loss

    net, tx, tt = ready(True, make=Remembers)
    for i in range(3):
        x, t = batch(seed=i)
        assert host(net(x, t)[1])[0] == host(net.loss)[0]


# ---- a limit ----

def test_the_least_recently_used_graph_is_freed():
    net, tx, tt = ready(True)
    net.graph(True, max_graphs=2)
    for n in (3, 4, 3, 5, 3, 5):
        net(*batch(n))
    assert net.recorded == 3
    stats = net.graph_stats()
    assert (stats["planned"], stats["evicted"], stats["max_graphs"]) == (3, 1, 2)
    assert [g["shapes"][0] for g in stats["graphs"]] == [(3, 4), (5, 4)]
    with pytest.warns(weir.GraphWarning, match=r"\(4, 4\).*max_graphs=2"):
        net(*batch(4))
    assert net.graph_stats()["evicted"] == 2 and len(net.graphs) == 2
    net.graph(True, max_graphs=1)
    assert len(net.graphs) == 1


@pytest.mark.parametrize("most", [0, -1, 1.5, True])
def test_a_limit_is_a_number_of_graphs(most):
    net, tx, tt = ready(True)
    with pytest.raises(errors.InvalidError, match="max_graphs"):
        net.compile([tx], use_graph=True, max_graphs=most)


def test_thirty_two_sizes_stay_within_the_limit():
    net, *_ = ready(True)
    net.graph(True, max_graphs=4)
    largest = 0
    for n in [*range(1, 33), *range(32, 0, -1)]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", weir.GraphWarning)
            net(*batch(n))
        gc.collect()
        stats = net.graph_stats()
        assert len(stats["graphs"]) <= 4
        assert stats["input_bytes"] <= 4 * 32 * (16 + 4)
        assert stats["result_bytes"] <= 4 * (32 * 12 + 4)
        largest = max(largest, core.cpu().memory().persistent)
    net.graph(True, max_graphs=1)
    gc.collect()
    assert core.cpu().memory().persistent < largest


def test_a_freed_graph_leaves_results_and_inputs_that_are_held():
    net, tx, tt = ready(True)
    net.graph(True, max_graphs=1)
    out, loss = net(tx, tt)
    wanted, x = host(out).copy(), host(tx).copy()
    recording = weakref.ref(net._captures["train_one_batch"].recordings[0])
    net(*batch(5))
    assert recording() is None
    np.testing.assert_array_equal(host(out), wanted)
    np.testing.assert_array_equal(host(tx), x)


# ---- Python that a recorded step does not repeat ----

CALLS = 0


class Careless(MLP):
    def __init__(self):
        super().__init__()
        self.steps, self.log, self.table = 0, [], np.zeros(2)

    def train_one_batch(self, x, t):
        global CALLS
        CALLS += 1
        self.steps += 1
        self.log.append("step")
        self.table[0] += 1
        self._hidden = getattr(self, "_hidden", 0) + 1
        return super().train_one_batch(x, t)


def test_a_change_of_python_state_in_a_step_warns_once_a_name():
    net, tx, tt = ready(True, make=Careless)
    with warnings.catch_warnings(record=True) as met:
        warnings.simplefilter("always")
        for n in (8, 8, 5, 5):
            net(*batch(n))
    text = [str(w.message) for w in met]
    assert all(w.category is weir.GraphWarning and w.filename == __file__ for w in met)
    changed = sorted(t.split("changed ")[1].split(" while")[0] for t in text)
    assert changed == ["CALLS (0 -> 1)", "Careless._hidden (1 -> 2)", "Careless.log",
                       "Careless.steps (0 -> 1)", "Careless.table"]


def test_no_warning_with_the_graph_off_or_for_what_the_package_changes():
    class Fine(MLP):
        def __init__(self):
            super().__init__()
            self.bn, self.drop = layer.BatchNorm2d(), layer.Dropout(0.3)

        def forward(self, x):
            self.hidden = self.drop(self.bn(self.l1(x)))
            return self.l2(self.hidden)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for make in (opt.SGD, opt.Adam, opt.RMSProp, opt.AdaGrad):
            net, tx, tt = ready(True, make=Fine)
            net.optimizer = make(0.01)
            for n in (8, 5):
                net(*batch(n))
        net, tx, tt = ready(False, make=Careless)
        net(tx, tt)
    autograd.training = False


def test_a_failed_recording_leaves_the_inputs_to_the_next():
    class Fails(MLP):
        broken = True

        def train_one_batch(self, x, t):
            results = super().train_one_batch(x, t)
            if self.broken:
                raise KeyError("once")
            return results

    net, tx, tt = ready(True, make=Fails)
    with pytest.raises(KeyError):
        net(tx, tt)
    net.broken = False
    handle = tx.data.value.handle
    net(tx, tt)
    assert net._captures["train_one_batch"].recordings[0].inputs[0].handle is handle

# test_names.py - names and argument names by which scripts of SINGA call.
import numpy as np
import pytest

import weir
from weir import autograd, device, image_tool, layer, model, opt, singa_wrap, tensor

X = np.array([[0.5, -0.25, 0.75], [0.1, 0.2, -0.3]], np.float32)


def t(array=X):
    return tensor.from_numpy(np.asarray(array))


UNARY = ("relu sigmoid tanh exp log sqrt abs negative reciprocal identity erf sin cos tan asin "
         "acos atan sinh cosh asinh acosh atanh sign ceil floor round rounde elu selu leakyrelu "
         "hardsigmoid softplus softsign clip _not softmax shape nonzero flatten").split()
BINARY = "add sub mul div pow less greater equal _and _or _xor".split()


@pytest.mark.parametrize("name", UNARY)
def test_inputs_by_name(name):
    function = getattr(autograd, name)
    assert np.array_equal(function(x=t()).numpy(), function(t()).numpy(), equal_nan=True)


@pytest.mark.parametrize("name", "exp sqrt abs sign".split())
def test_singa_calls_some_inputs_a(name):
    function = getattr(autograd, name)
    assert np.array_equal(function(a=t()).numpy(), function(t()).numpy(), equal_nan=True)


@pytest.mark.parametrize("first, second", ["ab", "xy"])
@pytest.mark.parametrize("name", BINARY)
def test_two_inputs_by_name(name, first, second):
    function, a, b = getattr(autograd, name), t(X), t(X[::-1].copy())
    want = function(a, b).numpy()
    assert np.array_equal(function(**{second: b, first: a}).numpy(), want, equal_nan=True)
    assert np.array_equal(function(a, **{second: b}).numpy(), want, equal_nan=True)


@pytest.mark.parametrize("call, text", [
    (lambda: autograd.relu(y=t()), "relu: unknown argument 'y' .expected x"),
    (lambda: autograd.add(t(), a=t()), "add: argument 'a' is given twice"),
    (lambda: autograd.add(a=t(), x=t()), "add: argument 'a' is given twice"),
    (lambda: autograd.add(t()), "add: 1 inputs are given, expected 2"),
    (lambda: autograd.add(b=t()), "add: 1 inputs are given, expected 2"),
])
def test_wrong_names_are_said(call, text):
    with pytest.raises(TypeError, match=text):
        call()


@pytest.mark.parametrize("name", "lt le gt ge eq eltwise_mult".split())
def test_comparisons_by_name(name):
    function = getattr(tensor, name)
    assert np.array_equal(function(t=t(), x=0.1).numpy(), function(t(), 0.1).numpy())


@pytest.mark.parametrize("name", "add sub div".split())
def test_sums_by_name(name):
    function = getattr(tensor, name)
    assert np.array_equal(function(lhs=t(), rhs=t()).numpy(), function(t(), t()).numpy())


def test_set_params_by_name():
    linear = layer.Linear(2)
    linear(t())
    linear.set_params(parameters={"W": np.ones((3, 2), np.float32)})
    linear.set_states(states={"W": np.zeros((3, 2)), "b": np.ones(2)})
    assert linear.W.numpy().sum() == 0 and linear.b.numpy().sum() == 2


# ---- names that scripts look up ----

def test_meta_classes():
    assert type(layer.Layer) is layer.LayerMeta
    assert type(model.Model) is model.ModelMeta and issubclass(model.ModelMeta, layer.LayerMeta)

    class Own(layer.Layer, metaclass=layer.LayerMeta):
        def initialize(self, x):
            self.made = getattr(self, "made", 0) + 1

        def forward(self, x):
            return x

    own = Own()
    own(t())
    own(t())
    assert own.made == 1


def test_division_of_python_2():
    assert np.array_equal(t().__div__(2.0).numpy(), X / 2)
    assert np.allclose(t().__rdiv__(2.0).numpy(), 2 / X)


def test_dot_of_rows():
    y = autograd.CosSim.dot(t().data, t(2 * X).data)
    assert y.shape() == (2,) and np.allclose(y.to_numpy(), (2 * X * X).sum(1))


def test_scripts_define_call_of_schedules():
    class Halves(opt.DecayScheduler):
        def call(self, step):
            return tensor.from_numpy(self.init_value / (1 + tensor.to_numpy(step)))

    step = t(np.array([3.0], np.float32))
    assert opt.Constant(0.25).call(step).item() == 0.25
    assert opt.ExponentialDecay(1.0, 3, 0.5).call(step).item() == 0.5
    assert Halves(2.0)(step).item() == 0.5
    with pytest.raises(NotImplementedError, match="DecayScheduler does not define"):
        opt.DecayScheduler(1.0)(step)


def test_call_of_optimisers_updates_without_a_step(training):
    w = t([[1.0], [2.0], [3.0]])
    w.stores_grad = True
    sgd = opt.SGD(0.5)
    sgd.call(autograd.reduce_sum(autograd.matmul(t(), w)))
    assert np.allclose(w.numpy()[:, 0], [1, 2, 3] - 0.5 * X.sum(0))
    assert sgd.get_states()["step_counter"] == 0
    scaled = opt.SGD(0.5, scaler=opt.LossScaler())
    with pytest.raises(opt.StateError, match="a loss scaler scales a whole step"):
        scaled.call(autograd.reduce_sum(autograd.matmul(t(), w)))


def test_snapshot_of_raw_tensors(tmp_path):
    path = str(tmp_path / "file")
    out = singa_wrap.Snapshot(path, singa_wrap.Snapshot.kWrite)
    out.Write("a", t().data)
    out.Write("b", t(np.arange(3, dtype=np.int32)).data)
    out.Close()
    back = singa_wrap.Snapshot(path, singa_wrap.Snapshot.kRead).Read()
    assert [name for name, _ in back] == ["a", "b"]
    assert np.array_equal(back[0][1].to_numpy(), X)
    assert back[1][1].data_type() == singa_wrap.kInt


def test_images_by_height_and_width():
    Image = pytest.importorskip("PIL.Image")
    tool = image_tool.ImageTool().set([Image.new("RGB", (8, 6))])
    assert tool.num_augmentation() == 1
    tool.resize_by_hw_list([(3, 4), (5, 6), (7, 8)], num_case=3)
    assert [image.size for image in tool.get()] == [(4, 3), (6, 5), (8, 7)]
    tool.flip(2)
    assert tool.num_augmentation() == 6 == len(tool.get())
    for image in tool.resize_by_hw_range(((2, 4), (5, 6)), inplace=False):
        assert image.size[0] == 5 and image.size[1] in (2, 3)
    assert tool.num_augmentation() == 6
    assert tool.set(tool.get()[:1]).num_augmentation() == 1


def test_steps_of_recurrent_layers():
    x, h = t(), t(np.ones((2, 4), np.float32))
    rnn = layer.RNN(3, 4)
    hs, last = rnn([x, x], h)
    first = rnn.step_forward(x, h, rnn.Wx, rnn.Wh, rnn.b)
    assert np.allclose(first.numpy(), hs[0].numpy())
    assert np.allclose(rnn.step_forward(x, h=first).numpy(), last.numpy())

    lstm = layer.LSTM(3, 4)
    hs, h1, c1 = lstm([x], (h, h))
    mine = lstm.step_forward(x, h, h)
    given = lstm.step_forward(x, h, h, *[[getattr(lstm, f"{kind}_{gate}") for gate in "ifog"]
                                         for kind in ("Wx", "Wh", "Bx", "Bh")])
    for one, two in (mine, given):
        assert np.allclose(one.numpy(), h1.numpy(), atol=1e-6)
        assert np.allclose(two.numpy(), c1.numpy(), atol=1e-6)
    with pytest.raises(NotImplementedError, match="RNN_Base does not define step_forward"):
        layer.RNN_Base().step_forward(x, h)


def test_first_weights_of_lstm_are_small():
    device.get_default_device().SetRandSeed(5)
    lstm = layer.LSTM(40, 50)
    lstm([t(np.ones((1, 40), np.float32))], (tensor.zeros((1, 50)), tensor.zeros((1, 50))))
    for gate in "ifog":
        assert 0.009 < lstm.get_params()[f"Wx_{gate}"].numpy().std() < 0.011
        assert 0.009 < lstm.get_params()[f"Wh_{gate}"].numpy().std() < 0.011


# ---- several processes ----

@pytest.mark.parametrize("name", ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"])
def test_dist_opt_under_a_launcher(monkeypatch, name):
    monkeypatch.setenv(name, "1")
    assert opt.DistOpt(opt.SGD()).world_size == 1
    monkeypatch.setenv(name, "4")
    says = {"OMPI_COMM_WORLD_SIZE": "openmpi", "PMI_SIZE": "mpich",
            "SLURM_NTASKS": "SLURM_NTASKS says that a launcher started 4 processes"}[name]
    monkeypatch.setenv("WEIR_PLUGINS", "/nowhere")
    with pytest.raises(weir.CommError, match=says):
        opt.DistOpt(opt.SGD())

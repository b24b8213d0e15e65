"""test_runs - models and runs in files: exact resume, strict names, files that C reads."""
import os
import subprocess
import sys

import numpy as np
import pytest

import weir
from weir import autograd, layer, opt, tensor
from weir.data import DataLoader
from weir.errors import FileError, InvalidError, StateError
from weir.files import Entry, opened, write_safetensors
from weir.metrics import EarlyStop
from weir.model import Model
from weir.runs import packed

HERE = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(0)
IMAGES = rng.normal(size=(4, 3, 6, 6)).astype(np.float32)
CLASSES = np.array([0, 1, 2, 3], np.int32)


class Net(Model):
    def __init__(self, classes=5):
        super().__init__()
        self.conv = layer.Conv2d(3, 4, 3, padding=1)
        self.bn = layer.BatchNorm2d()
        self.drop = layer.Dropout(0.5)
        self.fc = layer.Linear(classes)
        self.loss = layer.SoftMaxCrossEntropy()

    def forward(self, x):
        return self.fc(autograd.flatten(self.drop(autograd.relu(self.bn(self.conv(x))))))

    def train_one_batch(self, x, y):
        loss = self.loss(self.forward(x), y)
        self.optimizer(loss)
        return loss


OPTIMISERS = {
    "sgd": lambda: opt.SGD(opt.ExponentialDecay(0.1, 2, 0.9), momentum=0.9),
    "plain": lambda: opt.SGD(0.1),
    "adam": lambda: opt.Adam(opt.ExponentialDecay(0.01, 2, 0.9), clip_norm=1.0),
    "adamw": lambda: opt.AdamW(0.01),
    "adagrad": lambda: opt.AdaGrad(0.1),
    "scaled": lambda: opt.RMSProp(0.01, scaler=opt.LossScaler(interval=2)),
}


@pytest.fixture(autouse=True)
def clean():
    yield
    autograd.training = False


def ready(optimiser="adam", graph=False, make=Net):
    weir.set_seed(5)
    net = make()
    net.optimizer = OPTIMISERS[optimiser]()
    net.compile([tensor.from_numpy(IMAGES)], is_train=True, use_graph=graph)
    return net


def steps(net, n):
    x, y = tensor.from_numpy(IMAGES), tensor.from_numpy(CLASSES)
    return [float(net(x, y).numpy().ravel()[0]) for _ in range(n)]


def states(net):
    return {name: t.numpy() for name, t in net.get_states().items()}


def same(a, b):
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


# ---- whole runs ----

@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_a_resumed_training_has_the_bits_of_one_that_never_stopped(tmp_path, optimiser, graph):
    path = tmp_path / "run"
    net = ready(optimiser, graph)
    steps(net, 3)
    net.save_run(path)
    losses, after = steps(net, 3), states(net)
    other = ready(optimiser, graph)
    weir.set_seed(99)
    assert other.load_run(path) == 3
    assert steps(other, 3) == losses and same(states(other), after)
    assert other.load_run(path) == 3            # into a run that has gone on, recorded or not
    assert steps(other, 3) == losses and same(states(other), after)


def test_a_run_is_saved_byte_for_byte_alike(tmp_path):
    net = ready("scaled")
    steps(net, 2)
    mine = tensor.from_numpy(np.arange(3, dtype=np.int32))
    net.save_run(tmp_path / "a", step=7, tensors={"seen": mine})
    other = ready("scaled")
    theirs = tensor.from_numpy(np.zeros(3, np.int32))
    assert other.load_run(tmp_path / "a", tensors={"seen": theirs}) == 7
    assert theirs.numpy().tolist() == [0, 1, 2]
    other.save_run(tmp_path / "b", step=7, tensors={"seen": theirs})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert weir.safetensors_metadata(tmp_path / "a")["weir_optim"] == "rmsprop square"


def test_a_constant_rate_is_the_one_that_was_set(tmp_path):
    net = ready("adamw")
    net.optimizer.lr = 0.3
    net.save_run(tmp_path / "run", step=0)
    other = ready("adamw")
    other.load_run(tmp_path / "run")
    assert other.optimizer.lr.init_value == 0.3


def refused(call, *words, kind=FileError):
    with pytest.raises(kind) as error:
        call()
    for word in words:
        assert word in str(error.value), (word, str(error.value))


def test_a_run_that_does_not_fit_changes_nothing(tmp_path):
    net = ready("adam")
    steps(net, 2)
    net.save_run(tmp_path / "run")
    other = ready("sgd")
    steps(other, 1)
    before = states(other)
    refused(lambda: other.load_run(tmp_path / "run"), "'adam m v'", "'sgd momentum'")
    other = ready("adam", make=lambda: Net(classes=4))
    refused(lambda: other.load_run(tmp_path / "run"), "different", "fc.weight",
            "F32 (4, 144) here, F32 (5, 144) in the file")
    refused(lambda: net.load_run(tmp_path / "run", tensors={"seen": tensor.zeros((1,))}),
            "1 missing", "program.seen")
    net.save(tmp_path / "model")
    refused(lambda: net.load_run(tmp_path / "model"), "weir_step")
    assert same(states(ready("sgd")), states(ready("sgd"))) and before
    for step in (-1, True, 1.5):
        refused(lambda: net.save_run(tmp_path / "x", step=step), "the step is", kind=InvalidError)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("changed, word", [
    ({"weir_step": "x"}, "weir_step is 'x'"), ({"weir_step": str(2**63)}, "2^63 - 1"),
    ({"weir_seed": "-1"}, "weir_seed"), ({"weir_position": str(2**64)}, "weir_position"),
    ({"weir_format": "2"}, "format '2'"), ({"weir_optim": "sgd"}, "optimiser 'sgd'"),
    ({"weir_counter": "1.5"}, "weir_counter")])
def test_numbers_of_a_file_are_checked(tmp_path, changed, word):
    net = ready("plain")
    net.optimizer = opt.Adam(0.1)
    net.save_run(tmp_path / "run", step=1)
    tensors = weir.load_safetensors(tmp_path / "run")
    metadata = weir.safetensors_metadata(tmp_path / "run")
    weir.save_safetensors(tmp_path / "run", tensors, {**metadata, **changed})
    refused(lambda: net.load_run(tmp_path / "run"), word)


def test_a_rate_that_is_not_finite_is_refused(tmp_path):
    net = ready("plain")
    net.save_run(tmp_path / "run", step=1)
    tensors = weir.load_safetensors(tmp_path / "run")
    tensors["optim.lr"] = np.array(np.nan)
    weir.save_safetensors(tmp_path / "run", tensors, weir.safetensors_metadata(tmp_path / "run"))
    refused(lambda: net.load_run(tmp_path / "run"), "learning rate is nan")


# ---- models ----

def test_a_model_is_saved_under_the_names_of_c_and_pytorch(tmp_path):
    net = ready()
    net.save(tmp_path / "net")
    found = weir.load_safetensors(tmp_path / "net")
    assert {name: t.shape for name, t in found.items()} == {
        "conv.weight": (4, 3, 3, 3), "conv.bias": (4,), "bn.weight": (4,), "bn.bias": (4,),
        "bn.running_mean": (4,), "bn.running_var": (4,), "fc.weight": (5, 144), "fc.bias": (5,)}
    np.testing.assert_array_equal(found["fc.weight"].numpy(), net.fc.W.numpy().T)
    other = ready()
    steps(other, 2)
    assert not other.load(tmp_path / "net")
    assert same(states(other), states(net))
    steps(net, 2)
    net.save_run(tmp_path / "run")
    assert not other.load(tmp_path / "run") and same(states(other), states(net))


def test_what_does_not_fit_is_one_error_or_is_left_out(tmp_path):
    net, other = ready(), ready(make=lambda: Net(classes=4))
    steps(other, 1)
    net.save(tmp_path / "net")
    tensors = weir.load_safetensors(tmp_path / "net")
    tensors["stray"] = tensors.pop("bn.bias")
    weir.save_safetensors(tmp_path / "net", tensors)
    before = states(other)
    refused(lambda: other.load(tmp_path / "net"), "1 missing, 1 unexpected and 2 different",
            "missing in the file: bn.bias", "not expected: stray", "fc.bias (F32 (4,) here")
    assert same(states(other), before)
    misfit = other.load(tmp_path / "net", strict=False)
    assert misfit == (["bn.bias"], ["stray"], ["fc.weight", "fc.bias"])
    np.testing.assert_array_equal(other.conv.W.numpy(), net.conv.W.numpy())
    np.testing.assert_array_equal(other.fc.W.numpy(), before["fc.W"])
    refused(lambda: Net().save(tmp_path / "x"), "compile() it first", kind=StateError)


def test_the_previous_file_is_kept_when_asked_for(tmp_path):
    net = ready()
    net.save(tmp_path / "net", keep_previous=True)
    first = (tmp_path / "net").read_bytes()
    steps(net, 1)
    net.save(tmp_path / "net", keep_previous=True)
    assert (tmp_path / "net.bak").read_bytes() == first != (tmp_path / "net").read_bytes()
    net.save(tmp_path / "net")
    assert (tmp_path / "net.bak").read_bytes() == first
    assert sorted(os.listdir(tmp_path)) == ["net", "net.bak"]


def test_halves_are_saved_as_they_are(tmp_path):
    values = np.array([1.0, -0.0, 3.140625, np.inf], np.float32)
    for kind, dtype in (("F16", "float16"), ("BF16", "bfloat16")):
        half = weir.array(values, dtype=dtype)
        weir.save_safetensors(tmp_path / "a", {"t": half})
        array = half.numpy() if kind == "BF16" else half.numpy().astype(np.float16)
        write_safetensors(tmp_path / "b", [Entry("t", kind, (4,), lambda: packed(array, kind))])
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


# ---- every kind of layer, and PyTorch's names both ways ----

class Each(Model):
    """A recurrent or other layer alone."""

    def __init__(self, part, call=None):
        super().__init__()
        self.part = part
        self.call = call or (lambda part, x: part(x))

    def forward(self, x):
        y = self.call(self.part, x)
        return y[0] if isinstance(y, tuple) else y


def by_steps(part, x):
    zero = tensor.zeros((x.shape[1], 3))
    xs = [autograd.squeeze(autograd.slice(x, [i], [i + 1], [0]), 0) for i in range(x.shape[0])]
    return part(xs, (zero, zero))[1] if isinstance(part, layer.LSTM) else part(xs, zero)[1]


LAYERS = {
    "lstm": (lambda: layer.LSTM(4, 3), by_steps), "rnn": (lambda: layer.RNN(4, 3), by_steps),
    "gru": (lambda: layer.GRU(3, num_layers=2, bidirectional=True), None),
    "cudnn": (lambda: layer.CudnnRNN(3, num_layers=2), None),
    "attention": (lambda: layer.MultiHeadAttention(2), lambda part, x: part(x, x, x)),
    "norm": (lambda: layer.LayerNorm(), None), "rms": (lambda: layer.RMSNorm(), None),
    "group": (lambda: layer.GroupNorm(1),
              lambda part, x: part(autograd.reshape(x, (-1, 4, 1, 1)))),
    "transposed": (lambda: layer.ConvTranspose2d(3, 2),
                   lambda part, x: part(autograd.reshape(x, (-1, 4, 1, 1)))),
}


@pytest.mark.parametrize("kind", LAYERS)
def test_every_layer_comes_back_bit_by_bit(tmp_path, kind):
    part, call = LAYERS[kind]
    x = tensor.from_numpy(rng.normal(size=(5, 2, 4)).astype(np.float32))
    net, other = Each(part(), call), Each(part(), call)
    for n in (net, other):
        n.compile([x], is_train=False)
    for t in net.get_states().values():
        t.gaussian(0.0, 1.0)
    net.save(tmp_path / "net")
    other.load(tmp_path / "net")
    assert same(states(other), states(net)) and states(net)
    weir.set_seed(1)
    third = Each(part(), call)
    third.compile([x], is_train=False)
    weir.load_torch_state_dict(third, weir.to_torch_state_dict(net))
    assert same(states(third), states(net))
    np.testing.assert_array_equal(third.forward(x).numpy(), net.forward(x).numpy())


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_recurrent_weights_go_to_pytorch_and_back(kind):
    torch = pytest.importorskip("torch")
    x = rng.normal(size=(5, 2, 4)).astype(np.float32)
    ours = (layer.CudnnRNN(3, num_layers=2, bidirectional=True, batch_first=False) if kind == "lstm"
            else layer.GRU(3, num_layers=2, bidirectional=True))
    net = Each(ours)
    net.compile([tensor.from_numpy(x)], is_train=False)
    theirs = (torch.nn.LSTM if kind == "lstm" else torch.nn.GRU)(4, 3, 2, bidirectional=True)
    for t in net.get_states().values():
        t.gaussian(0.0, 0.5)
    state = weir.to_torch_state_dict(net, names={"part": ""})
    theirs.load_state_dict({name.lstrip("."): torch.from_numpy(a) for name, a in state.items()})
    with torch.no_grad():
        want = theirs(torch.from_numpy(x))[0].numpy()
    np.testing.assert_allclose(net.forward(tensor.from_numpy(x)).numpy(), want, rtol=1e-4,
                               atol=1e-5)


# ---- files of others ----

def test_files_go_through_the_package_safetensors(tmp_path):
    package = pytest.importorskip("safetensors.numpy")
    net = ready()
    net.save(tmp_path / "net")
    arrays = package.load_file(tmp_path / "net")
    package.save_file(arrays, tmp_path / "theirs")
    other = ready()
    steps(other, 1)
    other.load(tmp_path / "theirs")
    assert same(states(other), states(net))


def test_an_old_file_of_c_is_read():
    path = os.path.join(HERE, "..", "data", "run-format1.safetensors")
    metadata = weir.safetensors_metadata(path)
    assert metadata["weir_format"] == "1" and int(metadata["weir_step"]) > 0
    assert weir.load_safetensors(path)


def test_optimiser_states_go_into_save_states(tmp_path):
    net = ready("sgd")
    steps(net, 2)
    net.save_states(str(tmp_path / "net.zip"), net.optimizer.get_states())
    losses = steps(ready("sgd"), 4)[2:]
    other = ready("sgd")
    other.optimizer.set_states(other.load_states(str(tmp_path / "net.zip")))
    assert float(other.optimizer.step_counter.numpy()[0]) == 2
    assert other.optimizer.moments.keys() == net.optimizer.moments.keys() and losses


# ---- kills ----

def test_a_kill_leaves_the_old_file_or_the_new_one(tmp_path):
    count = os.environ.get("WEIR_TEST_KILLS", "10")
    done = subprocess.run([sys.executable, os.path.join(HERE, "kill_saves.py"), tmp_path, count],
                          capture_output=True, text=True, check=False)
    assert done.stdout == f"{count} kills, {count} files whole\n", done.stdout + done.stderr


# ---- objects of the program ----

def loader(seed=1):
    return DataLoader((IMAGES, CLASSES), 2, shuffle=True, seed=seed)


def test_a_run_keeps_loaders_and_early_stop(tmp_path):
    net, train, stop = ready("adamw"), loader(), EarlyStop(3, higher=True)
    assert stop.improves(0.5) and not stop.improves(0.25)
    batches = iter(train)
    next(batches)
    net.save_run(tmp_path / "run", step=1, stateful={"train": train, "stop": stop})
    wanted = [y.tolist() for _, y in batches]
    other, there, again = ready("adamw"), loader(), EarlyStop(3, higher=True)
    other.load_run(tmp_path / "run", stateful={"train": there, "stop": again})
    assert [y.tolist() for _, y in there] == wanted and len(wanted) == 1
    assert (again.best, again.bad) == (0.5, 1)


def test_states_that_do_not_fit_change_nothing(tmp_path):
    net, train, stop = ready("adamw"), loader(), EarlyStop(3)
    net.save_run(tmp_path / "run", step=1, stateful={"train": train, "stop": stop})
    before = states(net)
    stop.bad = 2
    refused(lambda: net.load_run(tmp_path / "run"), "has states of ['stop', 'train'], the run has")
    refused(lambda: net.load_run(tmp_path / "run", stateful={"stop": stop, "train": loader(2)}),
            "the state has seed 1, this loader 2", kind=InvalidError)
    assert stop.bad == 2 and same(states(net), before)

    class Odd:
        def state_dict(self):
            return {"x": object()}

    refused(lambda: net.save_run(tmp_path / "x", step=1, stateful={"odd": Odd()}),
            "the state of 'odd' must be a dictionary of texts and numbers", kind=InvalidError)


@pytest.mark.parametrize("text", ["{", "[" * 100000, "[1]", "3", '{"best": "x", "bad": 0}',
                                  '{"best": 1, "bad": -1}', '{"bad": 1}'])
def test_states_are_not_trusted(tmp_path, text):
    net, stop = ready("adamw"), EarlyStop(3)
    net.save_run(tmp_path / "run", step=1, stateful={"stop": stop})
    with opened(tmp_path / "run") as archive:
        metadata = {**archive.metadata, "weir_state.stop": text}
        entries = [Entry(name, archive.kind(name), archive.shape(name),
                         lambda name=name: archive[name].tobytes()) for name in archive]
        write_safetensors(tmp_path / "bad", entries, metadata)
    with pytest.raises((FileError, InvalidError)):
        net.load_run(tmp_path / "bad", stateful={"stop": stop})
    assert stop.bad == 0

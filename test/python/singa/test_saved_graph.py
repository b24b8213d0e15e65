"""test_saved_graph - graphs in files: exported by Python, run without the model's code."""
import os
import subprocess
import sys
import warnings

import numpy as np
import pytest

import mlp
import weir
from weir import autograd, core, errors, layer, model, tensor

# A process that knows the file alone: runs it on the inputs of a .npz, once for each step.
RUN = """
import sys
import numpy as np
import weir
g = weir.load_graph(sys.argv[1], budget=sys.argv[4] or None)
given = np.load(sys.argv[2])
for _ in range(int(sys.argv[5])):
    out = g.run(dict(given))
np.savez(sys.argv[3], **{name: t.numpy() for name, t in out.items()})
assert "mlp" not in sys.modules
"""


class Dropping(mlp.MLP):
    """An MLP that draws random numbers, and returns a dict."""

    def __init__(self):
        super().__init__()
        self.drop = layer.Dropout(0.4)

    def forward(self, x):
        return self.l2(self.drop(self.relu(self.l1(x))))

    def train_one_batch(self, x, t):
        out, loss = super().train_one_batch(x, t)
        return {"scores": out, "loss": loss}


def elsewhere(path, tmp_path, steps=1, budget="", **inputs):
    """What the file gives in a process of its own, with a budget without guard zones, which would
    take their share of it."""
    environment = {**os.environ, "WEIR_GUARD": "0"} if budget else None
    np.savez(tmp_path / "in.npz", **inputs)
    result = subprocess.run([sys.executable, "-c", RUN, path, tmp_path / "in.npz",
                             tmp_path / "out.npz", budget, str(steps)], cwd=tmp_path,
                            env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return dict(np.load(tmp_path / "out.npz"))


def test_inference_has_equal_bits_without_the_code(tmp_path):
    net, x, _ = mlp.ready()
    path = str(tmp_path / "net.safetensors")
    net.export(path, [x])
    assert net.training                         # as before
    net.eval()
    expected = mlp.host(net(x))
    given, _ = mlp.data()

    assert np.array_equal(elsewhere(path, tmp_path, x=given)["out0"], expected)
    g = weir.load_graph(path)
    assert g.inputs == {"x": weir.TensorSpec((8, 4), "float32")}
    assert g.outputs == {"out0": weir.TensorSpec((8, 3), "float32")}
    first = g(x=x)["out0"]
    other = g.run(x=np.zeros_like(given))["out0"]
    assert np.array_equal(mlp.host(first), expected)    # what a run gave keeps its elements
    assert not np.array_equal(mlp.host(other), expected)
    assert g.stats["runs"] == 2


def test_a_file_has_the_names_of_the_model(tmp_path):
    net, x, _ = mlp.ready()
    path = tmp_path / "net.safetensors"
    net.export(path, [x])
    stored = weir.load_safetensors(path)
    assert set(net.get_params()) <= set(stored)
    for name, t in net.get_params().items():
        assert np.array_equal(mlp.host(stored[name]), mlp.host(t))


@pytest.mark.parametrize("budget", ["", "90%"])
def test_a_training_step_goes_on_where_it_was(tmp_path, budget):
    net, x, t = mlp.ready(True, make=Dropping)
    for _ in range(3):
        net(x, t)
    path = str(tmp_path / "step.safetensors")
    net.export(path, [x, t], train=True)
    assert net.recorded == 1                    # the graph that runs, not another
    for _ in range(4):
        expected = net(x, t)
    given = dict(zip("xt", mlp.data()))
    found = elsewhere(path, tmp_path, 4, budget, **given)
    assert set(found) == {"scores", "loss"}
    for name, value in expected.items():
        assert np.array_equal(found[name], mlp.host(value)), name


def test_a_loaded_step_is_exported_again(tmp_path):
    net, x, t = mlp.ready(True, make=Dropping)
    net.export(tmp_path / "a", [x, t], train=True)      # before its first run
    first = weir.load_graph(tmp_path / "a", core.open_device("cpu", -1))
    for _ in range(2):
        first.run(x=x, t=t)
        net(x, t)
    first.export(tmp_path / "a", keep_previous=True)
    assert os.path.exists(tmp_path / "a.bak")
    again = weir.load_graph(tmp_path / "a", core.open_device("cpu", -1))
    expected = mlp.host(net(x, t)["loss"])
    assert np.array_equal(mlp.host(first.run(x=x, t=t)["loss"]), expected)
    assert np.array_equal(mlp.host(again.run(x=x, t=t)["loss"]), expected)


class Showing(mlp.MLP):
    """A model that keeps a result which it does not return."""

    def forward(self, x):
        self.__dict__["hidden"] = self.relu(self.l1(x))
        return self.l2(self.hidden)


def test_outputs_are_what_is_returned_alone(tmp_path):
    net, x, t = mlp.ready(True, make=Showing)
    net.export(tmp_path / "g", [x])
    assert list(weir.load_graph(tmp_path / "g").outputs) == ["out0"]
    net.export(tmp_path / "g", [x, t], train=True)
    assert list(weir.load_graph(tmp_path / "g").outputs) == ["out0", "out1"]


def plain_step(training):
    """A graph without a model: a product, dropout in training, and the sum of its squares."""
    x, w = tensor.from_numpy(np.full((2, 3), 2, np.float32)), weir.ones((3, 4))
    w.stores_grad = w.requires_grad = True
    with core.cpu().graph() as step, model.training_is(training):
        with weir.name_scope("head"):
            y = autograd.dropout(autograd.matmul(x, w))
        total = autograd.reduce_sum(y * y)
    return step, x, w, y, total


def test_a_graph_without_a_model(tmp_path):
    step, x, w, y, total = plain_step(False)
    path = str(tmp_path / "g")
    step.export(path, {"x": x}, {"y": y, "total": total}, {"w": w})
    given = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = elsewhere(path, tmp_path, x=given)
    expected = given @ np.ones((3, 4), np.float32)
    assert np.array_equal(found["y"], expected)
    assert found["total"] == (expected * expected).sum()
    assert np.array_equal(mlp.host(weir.load_safetensors(path)["w"]), np.ones((3, 4)))
    assert "head/matmul" in weir.load_graph(path).graph.text("graph")
    with pytest.raises(errors.InvalidError, match="does not read the input 't'"):
        step.export(path, {"t": total}, {})
    with pytest.raises(errors.InvalidError, match="'w' is no result of the step"):
        step.export(path, {"x": x}, {"w": w})


def test_inference_recorded_in_training_is_a_warning(tmp_path):
    step, x, _, y, _ = plain_step(True)
    path = str(tmp_path / "g")
    step.export(path, {"x": x}, {"y": y})
    assert step.remark == "recorded in training mode: it draws dropout"
    with pytest.warns(weir.GraphWarning, match="was recorded in training mode: it draws dropout"):
        weir.load_graph(path)
    tool = command()
    assert f"warning: {step.remark}" in subprocess.run([tool, "run-graph", path], check=True,
                                                       capture_output=True, text=True).stdout
    net, x, t = mlp.ready(True, make=Dropping)
    net.export(path, [x, t], train=True)                # a training step draws, too
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert weir.load_graph(path).graph.remark == ""
    assert "training" not in subprocess.run([tool, "run-graph", path], check=True,
                                            capture_output=True, text=True).stdout


def command():
    """The command, which some builds lack."""
    tool = os.path.join(os.path.dirname(weir.__file__), "..", "..", "weir")
    if not os.path.exists(tool):
        pytest.skip("the build has no command")
    return tool


def test_the_command_runs_it(tmp_path):
    tool = command()
    net, x, _ = mlp.ready()
    path = str(tmp_path / "net.safetensors")
    net.export(path, [x])
    net.eval()
    np.save(tmp_path / "x.npy", mlp.data()[0])
    subprocess.run([tool, "run-graph", path, "--inputs", f"x={tmp_path}/x.npy",
                    "--outputs", f"out0={tmp_path}/y.npy"], check=True, capture_output=True)
    assert np.array_equal(np.load(tmp_path / "y.npy"), mlp.host(net(x)))


def test_mistakes_are_said(tmp_path):
    net, x, t = mlp.ready()
    path = tmp_path / "net.safetensors"
    with pytest.raises(errors.StateError, match="use_graph=True"):
        net.export(path, [x, t], train=True)
    net.export(path, [x])
    g = weir.load_graph(path)
    given, _ = mlp.data()
    with pytest.raises(errors.InvalidError, match=r"unknown input 'y' \(expected x\)"):
        g.run(y=given)
    with pytest.raises(errors.InvalidError, match="'x', float32 .8, 4., is missing"):
        g.run()
    with pytest.raises(errors.ShapeError, match=r"float32 \(8, 4\), not float32 \(2, 4\)"):
        g.run(x=given[:2])
    with pytest.raises(errors.DtypeError, match="not float64"):
        g.run(x=given.astype(np.float64))
    with pytest.raises(errors.FileError):
        weir.load_graph(__file__)
    class Deaf(mlp.MLP):
        """A model whose step reads one of two inputs."""

        def train_one_batch(self, x, t):
            return self.forward(x)

    net, x, t = mlp.ready(True, make=Deaf)
    with pytest.raises(errors.InvalidError, match="does not read the input 't'"):
        net.export(path, [x, t], train=True)

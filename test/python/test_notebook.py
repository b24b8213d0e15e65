"""test_notebook - a notebook, run by a kernel of its own: what tensors, models and graphs show."""
import os
import sys

import pytest

CELLS = ["""\
%matplotlib inline
import numpy as np
import weir
from weir import layer, model, opt, plot

class Net(model.Model):
    def __init__(self):
        super().__init__()
        self.body = layer.Sequential(layer.Linear(16), layer.GELU())
        self.head = layer.Linear(3)
        self.loss = layer.SoftMaxCrossEntropy()

    def forward(self, x):
        return self.head(self.body(x))

    def train_one_batch(self, x, y):
        loss = self.loss(self.forward(x), y)
        self.optimizer(loss)
        return loss

x, y = weir.ones((4, 8)), weir.zeros((4,), dtype="int32")
net = Net()
net.optimizer = opt.SGD(0.1)
net.compile([x], use_graph=True)""",
         "net(x, y)",
         "net",
         "net.graphs[0]",
         "print(net)",
         "plot.timeline(net.graphs[0]);",
         "plot.budget([(100, 2.0), (200, 1.0)], floor=80);",
         "net(x, weir.zeros((5,), dtype='int32'))"]


@pytest.fixture(scope="module")
def outputs():
    """The outputs of each cell."""
    for module in ("ipykernel", "matplotlib", "matplotlib_inline"):
        pytest.importorskip(module)
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    nbformat = pytest.importorskip("nbformat")
    manager = pytest.importorskip("jupyter_client").KernelManager()
    manager.kernel_spec.argv[0] = sys.executable
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in CELLS])
    client = nbclient.NotebookClient(book, km=manager, timeout=120, allow_errors=True)
    try:
        client.execute(env=dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, sys.path))))
    finally:
        if manager.has_kernel:
            manager.shutdown_kernel(now=True)
    return [cell.outputs for cell in book.cells]


def shown(outputs, cell, kind):
    """What a cell shows in one kind of data."""
    found = [out["data"][kind] for out in outputs[cell] if kind in out.get("data", {})]
    assert found, outputs[cell]
    return found[0]


def test_a_step_and_its_tensor(outputs):
    assert outputs[0] == []
    assert "float32" in shown(outputs, 1, "text/plain")


def test_a_model_is_a_table_and_a_nested_text(outputs):
    table = shown(outputs, 2, "text/html")
    assert "Net: 195 parameters, 780 bytes with states." in table and "body.0" in table
    text = shown(outputs, 2, "text/plain")
    assert text == outputs[4][0]["text"].rstrip("\n")
    assert "    (0): Linear(in_features=8, out_features=16)\n    (1): GELU()\n" in text


def test_a_graph_is_a_picture(outputs):
    assert shown(outputs, 3, "image/svg+xml").lstrip().startswith("<svg")
    assert "weir.Graph" in shown(outputs, 3, "text/plain")


@pytest.mark.parametrize("cell", [5, 6])
def test_curves_are_pictures(outputs, cell):
    assert len(shown(outputs, cell, "image/png")) > 1000


def test_an_error_is_a_sentence(outputs):
    error = outputs[7][-1]
    assert error["output_type"] == "error" and "must be i32(4)" in error["evalue"]

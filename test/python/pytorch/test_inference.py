"""test_inference - weir.torch.from_module against PyTorch: results, files, mistakes."""
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch: left out")

import weir.torch       # noqa: E402
from weir import errors     # noqa: E402

from torch_models import NAMES, build    # noqa: E402


@pytest.mark.parametrize("name", NAMES)
def test_results_are_those_of_pytorch(name):
    model, _, batch = build(name)
    assert model.training
    net = weir.torch.from_module(model, batch[0])
    assert model.training                   # as before
    with torch.no_grad():
        want = model.eval()(batch[0])
    torch.testing.assert_close(net(batch[0]), want, rtol=1e-4, atol=1e-5)


def test_a_saved_module_runs_without_pytorch(tmp_path):
    model, _, (x, _) = build("cnn")
    net = weir.torch.from_module(model, (x,))
    path = str(tmp_path / "cnn.weir")
    net.save(path)
    saved = weir.load_graph(path)
    y = saved(input0=x.numpy())
    np.testing.assert_array_equal(np.asarray(y["output0"] if isinstance(y, dict) else y),
                                  net(x).numpy())


def test_several_results_and_layers_stay_as_they_are():
    class Two(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bn = torch.nn.BatchNorm1d(3)

        def forward(self, a, b):
            return {"sum": self.bn(a) + b, "both": (a * 2, b.t())}

    model = Two()
    model.bn.eval()
    a, b = torch.randn(4, 3), torch.randn(4, 3)
    results = weir.torch.from_module(model, (a, b))(a, b)
    assert model.training and not model.bn.training
    assert [tuple(r.shape) for r in results] == [(4, 3), (4, 3), (3, 4)]
    torch.testing.assert_close(results[2], b.t())


def test_mistakes_are_named():
    model, _, (x, _) = build("mlp")
    net = weir.torch.from_module(model, x)
    with pytest.raises(errors.ShapeError, match="was recorded for"):
        net(x[:2])
    with pytest.raises(weir.torch.UnsupportedError, match="i0"):
        weir.torch.from_module(Unknown(), x)


class Unknown(torch.nn.Module):
    def forward(self, x):
        return torch.special.i0(x)

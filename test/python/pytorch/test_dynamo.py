"""test_dynamo - torch.compile(model, backend="weir") against eager PyTorch: values, gradients,
buffers, budgets; passes without gradients, forward passes that wait, breaks, what is refused."""
import copy
import gc
import os
import subprocess
import sys
import tomllib
import warnings

import pytest

torch = pytest.importorskip("torch", reason="torch: left out")

import weir.torch       # noqa: E402
from weir import errors     # noqa: E402

from torch_models import NAMES, Perceptron, build, classes    # noqa: E402

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))


@pytest.fixture(autouse=True)
def forget():
    """Dynamo forgets what it has compiled; what waits is freed."""
    yield
    torch.compiler.reset()
    gc.collect()


def compiled(model, **options):
    return torch.compile(model, backend=weir.torch.backend, options=options)


def gradients(model):
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def assert_same(found, wanted):
    """Tensors by name agree; one that is 0 but for rounding: by the longest."""
    assert set(found) == set(wanted)
    longest = max(float(t.double().norm()) for t in wanted.values())
    for name, t in wanted.items():
        off = float((found[name].double() - t.double()).norm())
        assert off <= 1e-4 * max(float(t.double().norm()), 1e-2 * longest), name


@pytest.mark.parametrize("name", NAMES)
def test_values_gradients_and_buffers_are_those_of_pytorch(name):
    model, loss_fn, (x, *rest) = build(name)
    eager = copy.deepcopy(model)
    call = compiled(model)
    for _ in range(2):
        for m in (model, eager):
            m.zero_grad()
        loss, wanted = loss_fn(call(x), *rest), loss_fn(eager(x), *rest)
        assert loss.item() == pytest.approx(wanted.item(), rel=1e-4)
        loss.backward()
        wanted.backward()
        assert_same(gradients(model), gradients(eager))
    for a, b in zip(eager.buffers(), model.buffers()):
        torch.testing.assert_close(b, a, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("views", [True, False])
def test_training_within_a_budget_keeps_the_bits(views):
    losses = []
    for budget in (None, "88%"):
        model, loss_fn, (x, y) = build("cnn")
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        options = {"views": views} if budget is None else {"views": views, "budget": budget}
        call = compiled(model, **options)
        losses.append([])
        for _ in range(4):
            optimizer.zero_grad()
            loss = loss_fn(call(x), y)
            loss.backward()
            optimizer.step()
            losses[-1].append(loss.item())
        graph = weir.torch.compiled_graphs()[-1]
        stats = graph.stats
        assert budget is None or stats["planned_peak_bytes"] <= stats["budget_bytes"]
        assert graph.measure() == stats["arena_bytes"] and stats["first_half"] > 0
        del call, loss, graph
        torch.compiler.reset()
        gc.collect()
    assert losses[0] == losses[1] and losses[0][-1] < losses[0][0]


def test_inference_evaluation_and_new_batch_sizes():
    model, loss_fn, (x, y) = build("cnn")
    eager = copy.deepcopy(model)
    call = compiled(model)
    for m, run in ((eager, eager), (model, call)):
        m.train()
        for n in (len(x), len(x) - 1, len(x), len(x) - 2):      # the last of an epoch is smaller
            loss_fn(run(x[:n]), y[:n]).backward()
    assert_same(gradients(model), gradients(eager))
    model.eval()
    eager.eval()
    with torch.no_grad():
        torch.testing.assert_close(call(x), eager(x), rtol=1e-4, atol=1e-5)
    assert not call(x.detach()).detach().requires_grad
    for p in model.parameters():
        p.requires_grad_(False)
    torch.testing.assert_close(call(x), eager(x).detach(), rtol=1e-4, atol=1e-5)


class Tied(torch.nn.Module):
    """An embedding whose weight is that of the last layer, and a gradient of the input."""

    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(7, 5)
        self.head = torch.nn.Linear(5, 7, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, index, x):
        return self.head(torch.tanh(self.embed(index) + x)), x, 3


def test_tied_weights_and_gradients_of_inputs():
    torch.manual_seed(1)
    model = Tied()
    eager = copy.deepcopy(model)
    index = torch.randint(0, 7, (4,))
    found = []
    for run in (compiled(model), eager):
        x = torch.linspace(-1, 1, 20).reshape(4, 5).requires_grad_()
        logits, same, three = run(index, x)
        assert three == 3 and same is x
        (logits * logits).sum().backward()
        found.append(x.grad)
    torch.testing.assert_close(found[0], found[1], rtol=1e-4, atol=1e-5)
    assert_same(gradients(model), gradients(eager))


class Broken(torch.nn.Module):
    """A break between two layers."""

    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(4, 6), torch.nn.Linear(6, 3)

    def forward(self, x):
        h = torch.relu(self.a(x))
        torch._dynamo.graph_break()
        return self.b(h)


def test_a_graph_break_makes_two_graphs_within_one_budget():
    torch.manual_seed(1)
    model, x = Broken(), torch.linspace(-1, 1, 32).reshape(8, 4)
    eager = copy.deepcopy(model)
    compiled(model, budget="1MB")(x).sum().backward()
    eager(x).sum().backward()
    assert_same(gradients(model), gradients(eager))


def test_two_forward_passes_before_a_backward():
    model, _, (x, _) = build("mlp")
    eager = copy.deepcopy(model)
    call = compiled(model)
    for run in (call, eager):
        first, second = run(x), run(2 * x)
        (first.sum() * 3 + second.square().sum()).backward()
    assert_same(gradients(model), gradients(eager))
    unused = call(x)                    # a pass whose gradient nobody takes gives its plan back
    del unused
    gc.collect()
    call(x).sum().backward()


def test_a_second_pass_that_does_not_fit_is_refused():
    torch.manual_seed(1)
    model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(4)))
    x = torch.randn(4096, 64)
    call = compiled(model, budget="6MB")
    first = call(x)
    with pytest.raises(errors.BudgetError):
        call(x)
    first.sum().backward()
    call(x).sum().backward()


def test_a_pass_has_one_backward_and_its_parameters_stay():
    model, _, (x, _) = build("mlp")
    call = compiled(model)
    y = call(x).sum()
    y.backward(retain_graph=True)
    with pytest.raises(errors.StateError, match="has run already"):
        y.backward()
    y = call(x).sum()
    with torch.no_grad():
        model.fc2.weight.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_dropout_draws_its_mask_once():
    model = torch.nn.Dropout(0.5)
    x = torch.ones(1000, requires_grad=True)
    y = compiled(model)(x)
    y.sum().backward()
    assert 300 < int((y == 0).sum()) < 700
    torch.testing.assert_close(x.grad, y.detach())


class Strange(torch.nn.Module):
    def forward(self, x):
        return torch.special.bessel_j0(x) + torch.linalg.inv(x)


def test_what_is_unsupported_is_listed_or_runs_in_torch():
    x = torch.eye(3) * 2
    with pytest.raises(weir.torch.UnsupportedError) as caught:
        compiled(Strange())(x)
    assert "bessel_j0" in str(caught.value) and "linalg_inv" in str(caught.value)
    assert "test_dynamo.py" in str(caught.value) and "in forward: return" in str(caught.value)
    torch.compiler.reset()
    call = compiled(Strange(), fallback=True)
    with warnings.catch_warnings(record=True) as met:
        warnings.simplefilter("always")
        for _ in range(2):
            torch.testing.assert_close(call(x), Strange()(x))
    assert sum(w.category is weir.GraphWarning for w in met) == 1


def test_fallback_of_step_and_from_module():
    class Odd(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(3, 3)

        def forward(self, x):
            return torch.special.i0e(self.fc(x))

    torch.manual_seed(1)
    model, x, y = Odd(), torch.ones(2, 3), torch.zeros(2, 3)
    eager = copy.deepcopy(model)
    loss_fn = torch.nn.MSELoss()
    with pytest.warns(weir.GraphWarning, match="i0e"):
        step = weir.torch.Step(model, loss_fn, torch.optim.SGD(model.parameters(), lr=0.1), (x, y),
                               fallback=True)
    assert step.eager and step(x, y).item() == loss_fn(eager(x), y).item()
    assert step(x, y).item() < loss_fn(eager(x), y).item()
    with pytest.raises(errors.InvalidError, match="has no graph"):
        step.stats
    with pytest.warns(weir.GraphWarning, match="i0e"):
        assert weir.torch.from_module(eager, x, fallback=True) is eager


def test_a_reset_leaves_no_graphs():
    model, x = Broken(), torch.ones(8, 4)
    call = compiled(model)
    y = call(x)
    assert len(weir.torch.compiled_graphs()) == 2
    torch.compiler.reset()              # their parts are in circles of references
    assert weir.torch.compiled_graphs() == []
    y.sum().backward()
    call(x)
    assert len(weir.torch.compiled_graphs()) == 2


def test_options_are_checked():
    model, x = Perceptron(), torch.ones(2, 6)
    with pytest.raises(Exception, match="no option 'bugdet'"):
        compiled(model, bugdet="1MB")(x)
    torch.compiler.reset()
    call = compiled(model, max_plans=1)
    call(x)
    with pytest.raises(errors.InvalidError, match="max_plans"):
        for n in (3, 4, 5):
            call(torch.ones(n, 6))


def test_the_entry_point_has_the_name(tmp_path):
    with open(os.path.join(ROOT, "pyproject.toml"), "rb") as f:
        entries = tomllib.load(f)["project"]["entry-points"]
    info = tmp_path / "weir-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: weir\nVersion: 0\n")
    (info / "entry_points.txt").write_text("".join(
        f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in each.items())
        for group, each in entries.items()))
    text = ("import torch\nm = torch.nn.Linear(2, 2)\nx = torch.ones(1, 2)\n"
            "y = torch.compile(m, backend='weir', options={'budget': '1MB'})(x)\n"
            "torch.testing.assert_close(y, m(x))\n"
            "print(type(y.grad_fn).__name__)\n")
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run([sys.executable, "-c", text], env={**os.environ, "PYTHONPATH": path},
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "HalvesBackward" in done.stdout


def test_classes_of_the_loss_can_be_compiled_too():
    model, _, (x, y) = build("mlp")
    eager = copy.deepcopy(model)

    def loss(m, x, y):
        return classes(m(x), y)
    torch.compile(loss, backend=weir.torch.backend)(model, x, y).backward()
    loss(eager, x, y).backward()
    assert_same(gradients(model), gradients(eager))

"""test_scaling - weir.torch.Step over several batches, with a scaled loss, and in evaluation."""
import copy
import math

import pytest

torch = pytest.importorskip("torch", reason="torch: left out")

import weir.torch       # noqa: E402
from weir import errors     # noqa: E402

from torch_models import build     # noqa: E402

OPTIMISERS = {
    "momentum": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, dampening=0.3),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
    "adamax": lambda p: torch.optim.Adamax(p, lr=0.01),     # runs in PyTorch
}


def batches(batch, n):
    """n batches like this one."""
    draw = torch.Generator().manual_seed(3)
    return [(torch.randn(batch[0].shape, generator=draw), batch[1].roll(i)) for i in range(n)]


def eager_update(model, loss_fn, optimizer, data, calls, scaler=None, clip=0.0):
    """The losses of the batches; one update of their mean, in `calls` calls."""
    optimizer.zero_grad()
    losses = []
    for x, y in data:
        loss = loss_fn(model(x), y)
        losses.append(loss.item())
        share = loss / calls
        (scaler.scale(share) if scaler else share).backward()
    if scaler:
        scaler.unscale_(optimizer)
    if clip:
        torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
    if scaler:
        scaler.step(optimizer)
        scaler.update()
    else:
        optimizer.step()
    return losses


def assert_same(a, b):
    for p, q in zip(a.parameters(), b.parameters()):
        torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-6)


@pytest.mark.filterwarnings("ignore:torch.optim.Adamax")
@pytest.mark.parametrize("name", OPTIMISERS)
@pytest.mark.parametrize("views", [True, False])
def test_several_calls_make_one_update(name, views):
    model, loss_fn, batch = build("mlp")
    eager = copy.deepcopy(model)
    optimizers = [OPTIMISERS[name](m.parameters()) for m in (eager, model)]
    step = weir.torch.Step(model, loss_fn, optimizers[1], batch, accumulate=3,
                           views=views)
    data = batches(batch, 8)
    for i in (0, 3):
        want = eager_update(eager, loss_fn, optimizers[0], data[i:i + 3], 3)
        assert [step(*b).item() for b in data[i:i + 3]] == pytest.approx(want, rel=1e-4)
    want = eager_update(eager, loss_fn, optimizers[0], data[6:], 3)     # the end of an epoch
    assert [step(*b).item() for b in data[6:]] == pytest.approx(want, rel=1e-4)
    step.update()
    step.update()       # nothing is left to do
    step.sync()
    assert_same(eager, model)


def test_parameters_stay_until_the_last_call():
    model, loss_fn, batch = build("mlp")
    before = copy.deepcopy(model)
    step = weir.torch.Step(model, loss_fn, OPTIMISERS["momentum"](model.parameters()), batch,
                           accumulate=2, clip_norm=0.1)
    step(*batch)
    for p, q in zip(before.parameters(), model.parameters()):
        assert torch.equal(p, q)
    step(*batch)
    optimizer = OPTIMISERS["momentum"](before.parameters())
    eager_update(before, loss_fn, optimizer, [batch, batch], 2, clip=0.1)
    assert_same(before, model)


def test_accumulation_within_a_budget_has_the_bits_without_one():
    def run(**options):
        model, loss_fn, batch = build("cnn")
        step = weir.torch.Step(model, loss_fn, OPTIMISERS["adamw"](model.parameters()), batch,
                               accumulate=2, **options)
        losses = [step(*b).item() for b in batches(batch, 6)]
        return losses, [p.clone() for p in model.parameters()], step

    free, params, _ = run()
    tight, others, step = run(budget="90%")
    assert tight == free
    assert all(torch.equal(p, q) for p, q in zip(params, others))
    assert step.stats["planned_peak_bytes"] <= step.stats["budget_bytes"]
    assert step.graph.measure() == step.stats["arena_bytes"]


class Wide(torch.nn.Module):
    """More parameters than activations."""

    def __init__(self):
        super().__init__()
        sizes = (64, 256, 256, 8)
        self.layers = torch.nn.ModuleList(map(torch.nn.Linear, sizes, sizes[1:]))

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x


@pytest.mark.parametrize("budget", [None, "80%"])
def test_statistics_count_what_updates_read(budget):
    torch.manual_seed(1)
    model, batch = Wide(), (torch.randn(4, 64), torch.randint(0, 8, (4,)))
    step = weir.torch.Step(model, torch.nn.CrossEntropyLoss(), OPTIMISERS["adamw"](
        model.parameters()), batch, accumulate=2, views=False, budget=budget,
        device=weir.device.open_cpu())
    bytes_of = sum(p.numel() * p.element_size() for p in model.parameters())
    found = []
    for _ in range(5):
        stats = step.stats
        found.append(stats["persistent_bytes"])
        if budget:      # a graph leaves in a file what the other one alone reads
            assert 2 * bytes_of < stats["persistent_bytes"] < stats["planned_peak_bytes"]
            assert stats["planned_peak_bytes"] <= stats["budget_bytes"]
        step(*batch)
    # Parameters, sums and the optimiser's two states, from the first step on.
    assert found[-1] >= found[0] if budget else min(found) == max(found) > 4 * bytes_of


@pytest.mark.parametrize("name", ["momentum", "adamw"])
@pytest.mark.parametrize("calls", [1, 2])
def test_a_scaler_scales_skips_and_grows_as_in_pytorch(name, calls):
    model, loss_fn, batch = build("mlp")
    eager = copy.deepcopy(model)
    optimizers = [OPTIMISERS[name](m.parameters()) for m in (eager, model)]
    scalers = [torch.amp.GradScaler("cpu", init_scale=2.0 ** 10, growth_interval=2)
               for _ in range(2)]
    step = weir.torch.Step(model, loss_fn, optimizers[1], batch, scaler=scalers[1],
                           accumulate=calls, clip_norm=0.5)
    data = batches(batch, 6 * calls)
    data[3 * calls - 1][0][0, 0] = math.inf         # the third update is left out
    for i in range(6):
        part = data[i * calls:(i + 1) * calls]
        eager_update(eager, loss_fn, optimizers[0], part, calls, scalers[0], clip=0.5)
        for b in part:
            step(*b)
        assert scalers[1].get_scale() == scalers[0].get_scale()
        assert scalers[1].state_dict() == scalers[0].state_dict()
        assert_same(eager, model)
    found, want = (o.state_dict()["state"][0] for o in reversed(optimizers))
    for key, value in want.items():
        torch.testing.assert_close(found[key], value, rtol=1e-4, atol=1e-6)
    for scaler in scalers:
        scaler.update(new_scale=8.0)                # a change there is taken over
    eager_update(eager, loss_fn, optimizers[0], [batch] * calls, calls, scalers[0], clip=0.5)
    for _ in range(calls):
        step(*batch)
    assert scalers[1].state_dict() == scalers[0].state_dict()
    assert scalers[1].get_scale() in (8.0, 16.0)


def test_a_scaler_keeps_small_gradients_in_f16():
    def first(scaler):
        model, loss_fn, batch = build("mlp")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        step = weir.torch.Step(model, lambda x, y: loss_fn(x, y) * 1e-7, optimizer, batch,
                               precision="f16", gradients=True, scaler=scaler)
        step(*batch)
        return next(iter(step.gradients().values()))

    kept, lost = first(torch.amp.GradScaler("cpu")), first(None)
    assert kept.count_nonzero() > 0.9 * kept.numel() > lost.count_nonzero()


def test_a_disabled_scaler_is_none():
    model, loss_fn, batch = build("mlp")
    step = weir.torch.Step(model, loss_fn, OPTIMISERS["momentum"](model.parameters()), batch,
                           scaler=torch.amp.GradScaler("cpu", enabled=False))
    assert math.isfinite(step(*batch).item())


def test_prediction_is_that_of_the_model_in_evaluation():
    model, loss_fn, batch = build("cnn")
    step = weir.torch.Step(model, loss_fn, OPTIMISERS["adamw"](model.parameters()), batch,
                           budget="95%")
    for _ in range(3):
        step(*batch)
        found = step.predict(batch[0])
        with torch.no_grad():
            want = model.eval()(batch[0])
        torch.testing.assert_close(found, want, rtol=1e-4, atol=1e-5)
        model.train()
    assert step.predict(batch[0][:2]).shape[0] == 2
    assert step.stats["planned_peak_bytes"] <= step.stats["budget_bytes"]


def test_prediction_limits_its_plans():
    model, loss_fn, batch = build("mlp")
    step = weir.torch.Step(model, loss_fn, OPTIMISERS["adamw"](model.parameters()), batch,
                           max_plans=1)
    step.predict(batch[0])
    with pytest.raises(errors.InvalidError, match="max_plans"):
        step.predict(batch[0][:1])


class Strange(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)

    def forward(self, x):
        return torch.special.i0e(self.fc(x))        # differentiable in every PyTorch


def test_the_fallback_accumulates_scales_and_predicts():
    torch.manual_seed(5)
    model = Strange()
    eager, loss_fn = copy.deepcopy(model), torch.nn.MSELoss()
    data = [(torch.randn(3, 4), torch.randn(3, 4)) for _ in range(3)]
    optimizers = [OPTIMISERS["momentum"](m.parameters()) for m in (eager, model)]
    scalers = [torch.amp.GradScaler("cpu") for _ in range(2)]
    with pytest.warns(weir.GraphWarning):
        step = weir.torch.Step(model, loss_fn, optimizers[1], data[0], accumulate=2,
                               scaler=scalers[1], fallback=True)
    eager_update(eager, loss_fn, optimizers[0], data[:2], 2, scalers[0])
    eager_update(eager, loss_fn, optimizers[0], data[2:], 2, scalers[0])
    for b in data:
        step(*b)
    step.update()
    assert_same(eager, model)
    assert step.predict(data[0][0]).shape == (3, 4)


def test_mistakes_are_named():
    model, loss_fn, batch = build("mlp")
    optimizer = OPTIMISERS["momentum"](model.parameters())
    with pytest.raises(errors.InvalidError, match="accumulate is 0"):
        weir.torch.Step(model, loss_fn, optimizer, batch, accumulate=0)
    with pytest.warns(weir.GraphWarning), pytest.raises(errors.InvalidError, match="Adamax"):
        weir.torch.Step(model, loss_fn, OPTIMISERS["adamax"](model.parameters()), batch,
                        scaler=torch.amp.GradScaler("cpu"))

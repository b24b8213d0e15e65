"""test_step - weir.torch.Step against PyTorch: losses, gradients, updates, budgets, state."""
import copy
import io

import pytest

torch = pytest.importorskip("torch", reason="torch: left out")

import weir.torch       # noqa: E402
from weir import errors     # noqa: E402

from torch_models import NAMES, Gpt, Perceptron, SmallCnn, build, classes    # noqa: E402


def sgd(params):
    return torch.optim.SGD(params, lr=0.01, momentum=0.9, weight_decay=1e-3)


def eager_step(model, loss_fn, optimizer, batch):
    """The loss and the gradients of a step in PyTorch."""
    model.train()
    optimizer.zero_grad()
    loss = loss_fn(model(*batch[:-1]), batch[-1])
    loss.backward()
    grads = {name: p.grad.clone() for name, p in model.named_parameters()}
    optimizer.step()
    return loss.item(), grads


def off(a, b):
    """The distance of b from a beside the length of a."""
    return float((a.double() - b.double()).norm())


@pytest.mark.parametrize("name", NAMES)
def test_losses_gradients_and_parameters_are_those_of_pytorch(name):
    model, loss_fn, batch = build(name)
    eager = copy.deepcopy(model)
    step = weir.torch.Step(model, loss_fn, sgd(model.parameters()), batch, gradients=True)
    optimizer = sgd(eager.parameters())
    for i in range(5):
        loss, grads = eager_step(eager, loss_fn, optimizer, batch)
        assert step(*batch).item() == pytest.approx(loss, rel=1e-4)
        if i == 0:
            longest = max(float(g.norm()) for g in grads.values())
            found = step.gradients()
            assert set(found) == set(grads)
            for key, g in grads.items():    # a gradient that is 0 but for rounding: by the longest
                assert off(g, found[key]) <= 1e-4 * max(float(g.norm()), 1e-2 * longest), key
    for (key, a), b in zip(eager.state_dict().items(), model.state_dict().values()):
        assert off(a, b) <= 1e-3 * max(float(a.double().norm()), 1.0), key


OPTIMISERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, dampening=0.3,
                                          weight_decay=0.01),
    "nesterov": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, weight_decay=0.01),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, betas=(0.8, 0.95)),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.5, centered=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.05, lr_decay=0.1, weight_decay=0.01),
    "adagrad-initial": lambda p: torch.optim.Adagrad(p, lr=0.05, initial_accumulator_value=0.5),
}


@pytest.mark.filterwarnings("error:Detected call of")        # schedulers see that steps are made
@pytest.mark.parametrize("name", OPTIMISERS)
def test_optimisers_and_schedulers_are_those_of_pytorch(name):
    model, loss_fn, batch = build("mlp")
    eager = copy.deepcopy(model)
    both = [OPTIMISERS[name](list(m.parameters())) for m in (eager, model)]
    step = weir.torch.Step(model, loss_fn, both[1], batch)
    schedules = [torch.optim.lr_scheduler.StepLR(o, 2, gamma=0.5) for o in both]
    for _ in range(6):
        eager_step(eager, loss_fn, both[0], batch)
        step(*batch)
        for schedule in schedules:
            schedule.step()
    for a, b in zip(eager.parameters(), model.parameters()):
        torch.testing.assert_close(a, b, rtol=2e-5, atol=2e-6)


def test_groups_have_their_own_numbers():
    model, loss_fn, batch = build("mlp")
    eager = copy.deepcopy(model)

    def groups(m):
        return torch.optim.SGD([{"params": m.fc1.parameters(), "lr": 0.2},
                                {"params": m.fc2.parameters(), "momentum": 0.5}], lr=0.01)
    step = weir.torch.Step(model, loss_fn, groups(model), batch)
    optimizer = groups(eager)
    for _ in range(4):
        eager_step(eager, loss_fn, optimizer, batch)
        step(*batch)
    for a, b in zip(eager.parameters(), model.parameters()):
        torch.testing.assert_close(a, b, rtol=2e-5, atol=2e-6)


def trained(name, steps=3, **how):
    model, loss_fn, batch = build(name)
    step = weir.torch.Step(model, loss_fn, torch.optim.AdamW(model.parameters(), lr=1e-3), batch,
                           device=weir.device.open_cpu(), **how)
    losses = [step(*batch).item() for _ in range(steps)]
    step.sync()
    return losses, {k: v.clone() for k, v in model.state_dict().items()}, step


@pytest.mark.parametrize("name, views, least", [
    ("images", True, 0.7), ("images", False, 0.7), ("resnet18", False, 0.6), ("gpt", False, 0.8),
    ("gpt", True, 0.95)])           # most of the memory of a small GPT with Adam are parameters
def test_a_budget_changes_no_bit_and_is_kept(name, views, least):
    losses, states, free = trained(name, views=views)
    whole = free.stats["planned_peak_bytes"]
    tight_losses, tight_states, tight = trained(name, budget=int(least * whole), views=views)
    assert tight_losses == losses
    assert all(torch.equal(states[key], tight_states[key]) for key in states)
    assert tight.stats["planned_peak_bytes"] <= least * whole
    for step in (free, tight):
        assert step.graph.measure() == step.stats["arena_bytes"]


def test_views_are_what_pytorch_saves_and_loads():
    model, loss_fn, batch = build("cnn")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    step = weir.torch.Step(model, loss_fn, optimizer, batch)
    first = [step(*batch).item() for _ in range(3)]
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    later = [step(*batch).item() for _ in range(3)]
    assert later[-1] < first[0]
    file.seek(0)
    saved = torch.load(file)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    assert [step(*batch).item() for _ in range(3)] == later
    other, _, _ = build("cnn")              # and an optimiser with a state is taken over
    other.load_state_dict(saved["model"])
    resumed = torch.optim.Adam(other.parameters(), lr=0.01)
    resumed.load_state_dict(saved["optimizer"])
    again = weir.torch.Step(other, loss_fn, resumed, batch)
    assert [again(*batch).item() for _ in range(3)] == later


def test_pytorch_evaluates_and_goes_on_with_the_trained_model():
    model, loss_fn, batch = build("cnn")
    eager = copy.deepcopy(model)
    optimizer, other = sgd(model.parameters()), sgd(eager.parameters())
    step = weir.torch.Step(model, loss_fn, optimizer, batch)
    for _ in range(3):
        step(*batch)
        eager_step(eager, loss_fn, other, batch)
    assert int(model.bn1.num_batches_tracked) == 3
    with torch.no_grad():
        torch.testing.assert_close(model.eval()(batch[0]), eager.eval()(batch[0]), rtol=1e-3,
                                   atol=1e-4)
    step.sync()
    eager_step(model, loss_fn, optimizer, batch)
    eager_step(eager, loss_fn, other, batch)
    torch.testing.assert_close(model.fc.weight, eager.fc.weight, rtol=1e-3, atol=1e-5)


def test_sync_without_views():
    model, loss_fn, batch = build("mlp")
    step = weir.torch.Step(model, loss_fn, sgd(model.parameters()), batch, views=False)
    before = model.fc1.weight.clone()
    step(*batch)
    assert torch.equal(model.fc1.weight, before)
    step.sync()
    assert not torch.equal(model.fc1.weight, before)


def test_frozen_and_tied_parameters():
    model, loss_fn, batch = build("gpt")
    model.places.weight.requires_grad_(False)
    before = {name: p.clone() for name, p in model.named_parameters()}
    step = weir.torch.Step(model, loss_fn, sgd(model.parameters()), batch, gradients=True)
    step(*batch)
    assert torch.equal(model.places.weight, before["places.weight"])
    assert model.head.weight is model.tokens.weight
    assert not torch.equal(model.tokens.weight, before["tokens.weight"])
    assert "places.weight" not in step.gradients()


def test_dropout_draws_by_the_seed():
    def losses(seed):
        torch.manual_seed(3)
        model, batch = SmallCnn(p=0.5), build("cnn")[2]
        weir.set_seed(seed)
        step = weir.torch.Step(model, classes, torch.optim.SGD(model.parameters(), lr=0.0), batch)
        return [step(*batch).item() for _ in range(4)]
    assert losses(1) == losses(1)
    assert losses(1) != losses(2)
    assert len(set(losses(1))) == 4         # each step draws others


def test_dropout_of_attention_leaves_the_mean():
    torch.manual_seed(3)
    model, batch = Gpt(p=0.3), build("gpt")[2]
    step = weir.torch.Step(model, classes, torch.optim.SGD(model.parameters(), lr=0.0), batch)
    mean = sum(step(*batch).item() for _ in range(20)) / 20
    model.p = 0.0
    assert mean == pytest.approx(classes(model(batch[0]), batch[1]).item(), rel=0.1)


def test_other_optimisers_run_in_pytorch():
    model, loss_fn, batch = build("mlp")
    eager = copy.deepcopy(model)
    with pytest.warns(weir.GraphWarning, match="Adamax"):
        step = weir.torch.Step(model, loss_fn, torch.optim.Adamax(model.parameters()), batch)
    optimizer = torch.optim.Adamax(eager.parameters())
    for _ in range(3):
        loss, _ = eager_step(eager, loss_fn, optimizer, batch)
        assert step(*batch).item() == pytest.approx(loss, rel=1e-5)
    for a, b in zip(eager.parameters(), model.parameters()):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)



def test_clipping():
    model, loss_fn, batch = build("mlp")
    eager = copy.deepcopy(model)
    step = weir.torch.Step(model, loss_fn, torch.optim.SGD(model.parameters(), lr=1.0), batch,
                           clip_norm=0.1)
    step(*batch)
    loss_fn(eager(batch[0]), batch[1]).backward()
    torch.nn.utils.clip_grad_norm_(eager.parameters(), 0.1)
    torch.optim.SGD(eager.parameters(), lr=1.0).step()
    for a, b in zip(eager.parameters(), model.parameters()):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def test_a_last_batch_of_another_size():
    model, loss_fn, batch = build("cnn")
    eager = copy.deepcopy(model)
    optimizer = sgd(eager.parameters())
    step = weir.torch.Step(model, loss_fn, sgd(model.parameters()), batch, max_plans=2)
    for n in (4, 3, 4):
        part = tuple(t[:n] for t in batch)
        loss, _ = eager_step(eager, loss_fn, optimizer, part)
        assert step(*part).item() == pytest.approx(loss, rel=1e-3)
    with pytest.raises(errors.InvalidError, match="2 plans already"):
        step(*(t[:2] for t in batch))


class Strange(torch.nn.Module):
    """Two operators that no table will have, and an attribute outside of it."""

    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)

    def forward(self, x):
        h = torch.special.bessel_j0(self.fc(x))
        h = torch.linalg.inv(h @ h.mT + torch.eye(len(x)))
        return torch.nn.functional.softplus(h, beta=2.0)


def test_what_is_unsupported_is_listed_with_lines():
    model, x = Strange(), torch.ones(2, 4)
    with pytest.raises(weir.torch.UnsupportedError) as caught:
        weir.torch.Step(model, lambda y, t: (y - t).sum(), sgd(model.parameters()),
                        (x, torch.ones(2, 2)))
    text = str(caught.value)
    assert "bessel_j0" in text and "linalg_inv" in text
    assert "test_step.py" in text and "in forward: h = torch.linalg.inv" in text


class Beta(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)

    def forward(self, x):
        return torch.nn.functional.softplus(self.fc(x), beta=2.0)


def test_an_attribute_outside_the_table_is_refused():
    model, x = Beta(), torch.ones(2, 4)
    with pytest.raises(weir.torch.UnsupportedError, match="softplus.default: beta other than 1"):
        weir.torch.Step(model, lambda y, t: (y - t).sum(), sgd(model.parameters()),
                        (x, torch.ones(2, 4)))


def test_mistakes_are_named():
    model, batch = Perceptron(), build("mlp")[2]
    with pytest.raises(errors.InvalidError, match="one tensor of one element"):
        weir.torch.Step(model, lambda y, t: y, sgd(model.parameters()), batch)
    with pytest.raises(errors.InvalidError, match="precision 'int8'"):
        weir.torch.Step(model, classes, sgd(model.parameters()), batch, precision="int8")
    step = weir.torch.Step(model, classes, torch.optim.SGD(model.parameters(), lr=0.1), batch)
    with pytest.raises(errors.InvalidError, match="not kept"):
        step.gradients()
    step.optimizer.param_groups[0]["nesterov"] = True
    with pytest.raises(errors.InvalidError, match="make another Step"):
        step(*batch)

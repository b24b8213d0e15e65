"""test_budget - budgets of a model, of a device, of a graph: the same bits, helpful errors."""
import re

import numpy as np
import pytest

import weir
from weir import _capi as capi, autograd, device, errors, layer, model, opt, tensor


class Net(model.Model):
    """Convolutions with batch norm, dropout: what runs again must not count or draw twice."""

    def __init__(self):
        super().__init__()
        self.conv1 = layer.Conv2d(8, 3, padding=1)
        self.bn = layer.BatchNorm2d()
        self.conv2 = layer.Conv2d(8, 3, padding=1)
        self.flatten = layer.Flatten()
        self.drop = layer.Dropout(0.3)
        self.fc = layer.Linear(4)

    def forward(self, x):
        y = autograd.relu(self.bn(self.conv1(x)))
        y = autograd.tanh(self.conv2(y))
        return self.fc(self.drop(self.flatten(autograd.relu(y))))

    def train_one_batch(self, x, t):
        out = self.forward(x)
        loss = autograd.softmax_cross_entropy(out, t)
        self.optimizer(loss)
        return out, loss


def train(budget=None, use_graph=True, of_device=None, steps=5, dev=None, **plan):
    """(losses, every state's bytes, stats of the graph or None)"""
    dev = dev or device.create_cpu_device()
    device.set_default_device(dev)
    dev.SetRandSeed(3)
    dev.SetBudget(of_device)
    rng = np.random.default_rng(1)
    x = tensor.Tensor(data=rng.normal(size=(8, 3, 12, 12)).astype(np.float32), device=dev,
                      requires_grad=False)
    t = tensor.Tensor(data=rng.integers(0, 4, 8).astype(np.int32), dtype=tensor.int32, device=dev,
                      requires_grad=False)
    net = Net()
    net.optimizer = opt.SGD(lr=0.1, momentum=0.9)
    try:
        net.compile([x], is_train=True, use_graph=use_graph, budget=budget,
                    **plan)
        losses = [float(tensor.to_numpy(net(x, t)[1])[0]) for _ in range(steps)]
        states = {name: tensor.to_numpy(s).tobytes() for name, s in net.get_states().items()}
        if not net.graphs:
            return losses, states, None
        stats = capi.weir_graph_stats()
        capi.weir_graph_stats_of(net.graphs[0], stats)
        return losses, states, stats
    finally:
        dev.SetBudget(None)
        device.set_default_device(device.create_cpu_device())
        autograd.training = False


def test_bits_at_every_budget():
    losses, states, _ = train(use_graph=False)
    whole = None
    for percent in range(100, 0, -8):
        try:
            mine = train(f"{percent}%")
        except errors.BudgetError as error:
            smallest = int(re.search(r"the smallest that works is (\d+)", str(error)).group(1))
            break
        assert mine[0] == losses and mine[1] == states, f"{percent} %"
        stats = mine[2]
        whole = whole or stats.unbudgeted_peak_bytes
        assert stats.planned_peak_bytes <= stats.budget_bytes
        assert percent == 100 or stats.budget_bytes < whole
    else:
        pytest.fail("every budget worked")
    mine = train(smallest)
    assert mine[0] == losses and mine[1] == states
    assert mine[2].planned_peak_bytes <= smallest and mine[2].recomputed > 0


def test_of_a_device():
    losses, states, _ = train(use_graph=False)
    mine = train(of_device="90%")
    assert mine[:2] == (losses, states)
    assert mine[2].recomputed > 0 and mine[2].planned_peak_bytes <= mine[2].budget_bytes


@pytest.mark.parametrize("plan", [
    {"policy": "dtr"}, {"placement": "tstack"}, {"measure": True}, {"guided": 2}, {"level": -1},
    {"disable": ["fuse", "mask"]}, {"sequential": True, "disable": "fuse"}], ids=str)
def test_ways_to_plan(plan):
    """Each keeps budget and bits."""
    losses, states, _ = train(use_graph=False)
    mine = train("90%", **plan)
    assert mine[:2] == (losses, states)
    assert mine[2].planned_peak_bytes <= mine[2].budget_bytes < mine[2].unbudgeted_peak_bytes
    assert (mine[2].measured_ms > 0) == ("guided" in plan)


def test_cache_of_plans(tmp_path):
    used = [train("85%", cache=folder)[2].cache
            for folder in (tmp_path / "plans", str(tmp_path / "plans"), "")]
    assert used == [capi.WEIR_CACHE_NEW, capi.WEIR_CACHE_USED, capi.WEIR_CACHE_OFF]
    assert len(list((tmp_path / "plans").iterdir())) == 1


def test_spill_dir(tmp_path):
    losses, states, _ = train(use_graph=False)
    mine = train("75%", dev=device.open_cpu(seed=3, spill_dir=tmp_path), policy="auto:swap")
    assert mine[:2] == (losses, states) and list(tmp_path.iterdir()) == []
    nowhere = device.open_cpu(spill_dir=tmp_path / "nowhere")
    with pytest.raises(errors.FileError, match="nowhere"):
        train("75%", dev=nowhere, policy="auto:swap")


@pytest.mark.parametrize("plan, error, words", [
    ({"policy": "magic"}, ValueError, "unknown policy 'magic'"),
    ({"policy": 3}, TypeError, "policy must be a string or None, not 3"),
    ({"policy": "dtr:magic"}, ValueError, "magic"),
    ({"placement": "best"}, ValueError, "unknown placement 'best' .expected auto"),
    ({"placement": 1.5}, TypeError, "placement must be a string or None, not 1.5"),
    ({"guided": -1}, ValueError, "profile_steps is -1 but must be 0 or more"),
    ({"guided": "often"}, TypeError, "integer"),
    ({"cache": 7}, TypeError, "not int"),
    ({"level": 5}, ValueError, "unknown level 5"),
    ({"disable": ["fusion"]}, ValueError, "unknown pass 'fusion'"),
    ({"policies": "auto"}, TypeError, "policies")], ids=str)
def test_what_is_no_way_to_plan(plan, error, words):
    with pytest.raises(error, match=words):
        train("90%", **plan)
    with pytest.raises(error, match=words):
        with device.create_cpu_device().graph(budget="90%", **plan):
            autograd.relu(weir.ones((4, 4)))
    assert not device.create_cpu_device().recording


@pytest.mark.parametrize("budget", ["", "much", "-1", "5 parsecs", "nan"])
def test_what_is_no_budget(budget):
    with pytest.raises(ValueError, match="budget"):
        device.create_cpu_device().SetBudget(budget)


def test_graph_within_a_budget():
    x = weir.ones((4, 4))
    with device.create_cpu_device().graph(budget=10**6) as step:
        y = autograd.relu(x)
    step.run()
    assert np.all(tensor.to_numpy(y) == 1)


def test_guard_zones_keep_the_bits():
    plain = train("75%", dev=device.open_cpu(seed=3, guard=False))
    zones = train("75%", dev=device.open_cpu(seed=3, guard=True))
    assert plain[:2] == zones[:2]
    assert plain[2].guard_bytes == 0 and zones[2].guard_bytes == 256
    assert zones[2].planned_peak_bytes <= zones[2].budget_bytes


def counters(dev):
    """(persistent bytes, arena bytes) by the device's counters."""
    m = capi.weir_memory()
    capi.weir_device_memory(dev.handle, m)
    return m.persistent, m.arena


class Held:
    """What the device holds after each run, by its counters, is what was planned: the graph's
    persistent bytes and the largest arena so far, or its own where that does not fit or the graph
    was planned again."""

    def __init__(self, dev):
        self.dev, self.peak, self.refitted = dev, 0, 0
        self.arena = counters(dev)[1]           # of what ran before

    def check(self, ran, graphs):
        s, refitted = ran.stats, sum(g.stats["refitted"] for g in graphs)
        left = self.arena if refitted == self.refitted else 0
        fits = not s["budget_bytes"] or s["persistent_bytes"] + left <= s["budget_bytes"]
        self.arena = max(left, s["arena_bytes"]) if fits else s["arena_bytes"]
        assert counters(self.dev) == (s["persistent_bytes"], self.arena)
        self.peak, self.refitted = max(self.peak, sum(counters(self.dev))), refitted


def train_and_validate(budget, sizes=(16, 8, 4), late=0, of_device=False):
    """Trains on batches of these sizes and validates after each in a graph of its own, all within
    one budget. `late`: elements of a tensor made after the second turn. (bits of losses, logits and
    states, planned = measured peak of all graphs, number of times that one was planned again)"""
    dev = weir.cpu()
    dev.SetRandSeed(3)
    rng = np.random.default_rng(1)
    batches = [(tensor.Tensor(data=rng.normal(size=(n, 3, 12, 12)).astype(np.float32), device=dev,
                              requires_grad=False),
                tensor.Tensor(data=rng.integers(0, 4, n).astype(np.int32), dtype=tensor.int32,
                              device=dev, requires_grad=False)) for n in sizes]
    net = Net()
    net.optimizer = opt.SGD(lr=0.1, momentum=0.9)
    plan = {} if of_device else {"budget": budget, "shared_budget": True}
    dev.SetBudget(budget if of_device else None)
    net.compile([batches[0][0]], use_graph=True, budget=plan.get("budget"))
    bits, held, others = [], Held(dev), []
    try:
        for turn in range(4):
            net.train()
            for x, t in batches:
                loss = net(x, t)[1]
                held.check(net.graphs[-1], net.graphs + others)     # the latest is the last
                bits.append(tensor.to_numpy(loss).tobytes())
            net.eval()
            if not others:
                with dev.graph(**plan) as validation:
                    logits = net(batches[0][0])
                others = [validation]
            validation.run()
            held.check(validation, net.graphs + others)
            bits.append(tensor.to_numpy(logits).tobytes())
            if late and turn == 1:
                beside = weir.zeros((late,), "float32")
                beside.data.value.state()
        bits += [tensor.to_numpy(s).tobytes() for _, s in sorted(net.get_states().items())]
        assert len(net.graphs) == len(sizes)
        assert not isinstance(budget, int) or held.peak <= budget
        return bits, held.peak, held.refitted
    finally:
        dev.SetBudget(None)
        autograd.training = False


def test_one_budget_of_training_and_validation():
    """Four graphs, of three batch sizes and of validation, take turns within one budget: planned =
    measured by the device's counters, with the same bits, by either way to name the budget."""
    bits, whole, again = train_and_validate(None)
    assert again == 0
    for budget, of_device in ((whole * 65 // 100, False), ("65%", False), (whole * 95 // 100, True),
                              (whole * 80 // 100, True), (whole * 65 // 100, True)):
        mine, planned, _ = train_and_validate(budget, of_device=of_device)
        assert mine == bits
        assert planned <= (whole * 65 // 100 if isinstance(budget, str) else budget)


def test_what_is_made_later_counts():
    """Graphs that no longer fit beside a later tensor are planned again, with the same bits; one
    that cannot fit is refused with what it needs and what else holds memory."""
    bits, whole, _ = train_and_validate(None)
    mine, planned, again = train_and_validate(whole, late=250)
    assert mine == bits and planned <= whole and again > 0
    with pytest.raises(errors.BudgetError,
                       match="graph of [0-9]+ operations, the last one .*, no longer fits into the "
                             f"budget of {whole} bytes that it shares with other graphs: it needs "
                             "[0-9]+ .* bytes of other graphs and tensors; planned again: .*the "
                             "smallest that works is"):
        train_and_validate(whole, late=whole // 7)
    assert train_and_validate(whole)[1] == whole

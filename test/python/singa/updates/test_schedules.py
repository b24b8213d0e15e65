"""test_schedules - schedules against PyTorch's, where it is installed, and against formulas; in a
recorded graph; numbers that are none."""
import math

import numpy as np
import pytest

import weir
from weir import core, layer, opt, tensor
from weir.model import Model

try:
    import torch
except ImportError:
    torch = None

STEPS = 30


def rates(schedule, steps=STEPS):
    step = tensor.Tensor(data=np.zeros(1), dtype=core.kDouble, requires_grad=False)
    values = []
    for n in range(steps):
        step.data.SetFloatValue(float(n))
        values.append(schedule(step).item())
    return values


def torch_rates(make, lr, steps=STEPS):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr)
    scheduler, values = make(torch.optim.lr_scheduler, optimizer), []
    for _ in range(steps):
        values.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return values


def sequence(s, o):
    return s.SequentialLR(o, [s.LinearLR(o, 0.25, 1.0, 5), s.StepLR(o, 6, 0.5),
                              s.ExponentialLR(o, 0.9)], [5, 20])


# name: (ours, PyTorch's scheduler of an optimiser with rate 0.2, steps to compare)
SCHEDULES = {
    "step": (lambda: opt.StepDecay(0.2, 7, 0.3), lambda s, o: s.StepLR(o, 7, 0.3), STEPS),
    "multi-step": (lambda: opt.MultiStepDecay(0.2, [3, 4, 20]),
                   lambda s, o: s.MultiStepLR(o, [3, 4, 20]), STEPS),
    "exponential": (lambda: opt.ExponentialDecay(0.2, 1, 0.9),
                    lambda s, o: s.ExponentialLR(o, 0.9), STEPS),
    "linear": (lambda: opt.LinearDecay(0.2, 12, 0.05), lambda s, o: s.LinearLR(o, 1, 0.25, 12),
               STEPS),
    "linear, rising": (lambda: opt.LinearDecay(0.05, 12, 0.2), lambda s, o: s.LinearLR(
        o, 0.25, 1, 12), STEPS),
    "polynomial": (lambda: opt.PolynomialDecay(0.2, 12, power=2),
                   lambda s, o: s.PolynomialLR(o, 12, 2), STEPS),
    "cosine": (lambda: opt.CosineDecay(0.2, 20, 0.01),
               lambda s, o: s.CosineAnnealingLR(o, 20, 0.01), 21),
    "one cycle": (lambda: opt.OneCycle(0.2, 30), lambda s, o: s.OneCycleLR(
        o, 0.2, total_steps=30, cycle_momentum=False), 30),
    "one cycle, uneven": (lambda: opt.OneCycle(0.2, 28, 0.4, 10, 100), lambda s, o: s.OneCycleLR(
        o, 0.2, 28, pct_start=0.4, div_factor=10, final_div_factor=100, cycle_momentum=False), 28),
    "sequence": (lambda: opt.SequentialSchedule(
        [opt.LinearDecay(0.05, 5, 0.2), opt.StepDecay(0.2, 6, 0.5),
         opt.ExponentialDecay(0.2, 1, 0.9)], [5, 20]), sequence, STEPS),
    "warm-up": (lambda: opt.WarmUp(opt.CosineDecay(0.2, 25), 5, 0.02), lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, 0.1, 1, 5), s.CosineAnnealingLR(o, 25)], [5]), STEPS),
    "warm-up to a number": (lambda: opt.WarmUp(0.2, 5, 0.02), lambda s, o: s.LinearLR(
        o, 0.1, 1, 5), STEPS),
}


@pytest.mark.skipif(torch is None, reason="PyTorch is not installed")
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", SCHEDULES)
def test_values_are_pytorchs(name):
    make, there, steps = SCHEDULES[name]
    limit = steps - 1 if name.startswith("one cycle") else steps   # PyTorch refuses one more
    np.testing.assert_allclose(rates(make(), steps)[:limit], torch_rates(there, 0.2, limit),
                               rtol=1e-6, atol=1e-9)


FORMULAS = {
    "step": lambda n: 0.2 * 0.3 ** (n // 7),
    "multi-step": lambda n: 0.2 * 0.1 ** sum(n >= m for m in (3, 4, 20)),
    "linear": lambda n: 0.2 - 0.15 * min(n / 12, 1),
    "polynomial": lambda n: 0.2 * max(1 - n / 12, 0) ** 2,
    "cosine": lambda n: 0.01 + 0.19 * (1 + math.cos(math.pi * min(n / 20, 1))) / 2,
    "warm-up to a number": lambda n: 0.02 + 0.18 * min(n / 5, 1),
    "warm-up": lambda n: (0.02 + 0.18 * n / 5 if n < 5
                          else 0.1 * (1 + math.cos(math.pi * (n - 5) / 25))),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_values_are_the_formulas(name):
    wanted = [FORMULAS[name](n) for n in range(STEPS)]
    np.testing.assert_allclose(rates(SCHEDULES[name][0]()), wanted, rtol=1e-6, atol=1e-9)


class Line(Model):
    def __init__(self):
        super().__init__()
        self.fc = layer.Linear(1, bias=False)

    def forward(self, x):
        return self.fc(x)

    def train_one_batch(self, x):
        loss = weir.autograd.reduce_sum(self.forward(x))
        self.optimizer(loss)
        return loss


@pytest.mark.parametrize("name", SCHEDULES)
def test_rates_go_on_in_a_graph(name):
    make, _, steps = SCHEDULES[name]
    x, net = weir.ones((1, 1)), Line()
    net.optimizer = opt.SGD(make())
    net.compile([x], use_graph=True)
    before = net.fc.W.item()
    for _ in range(12):
        net(x)
    assert len(net.graphs) == 1
    np.testing.assert_allclose(before - net.fc.W.item(), sum(rates(make(), 12)), rtol=1e-4)


NAN = float("nan")
MISTAKES = {
    "negative": (lambda: opt.SGD(-0.1), "SGD: lr is -0.1, must be a finite number, 0 or more"),
    "nan": (lambda: opt.Adam(NAN), "Adam: lr is nan, must be a finite number"),
    "infinite": (lambda: opt.AdamW(math.inf), "AdamW: lr is inf"),
    "later": (lambda: setattr(opt.SGD(0.1), "lr", -1), "SGD: lr is -1"),
    "decay": (lambda: opt.Adam(0.1, weight_decay=NAN), "Adam: weight_decay is nan"),
    "steps": (lambda: opt.CosineDecay(0.1, 0), "CosineDecay: steps is 0, must be a whole number"),
    "order": (lambda: opt.MultiStepDecay(0.1, [5, 3]), "milestones \\[5, 3\\] must ascend"),
    "milestones": (lambda: opt.SequentialSchedule([0.1, 0.2], []), "2 schedules need 1 milestones"),
    "share": (lambda: opt.OneCycle(0.1, 10, 1.5), "pct_start is 1.5, must be between 0 and 1"),
    "short": (lambda: opt.OneCycle(0.1, 3), "leaves no step to rise in"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_numbers_that_are_none_are_refused(name):
    call, words = MISTAKES[name]
    with pytest.raises(ValueError, match=words):
        call()

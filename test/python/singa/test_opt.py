"""test_opt - every optimiser and schedule against NumPy, at once and as a planned graph."""
import numpy as np
import pytest

from weir import autograd, core, opt, optimizer, tensor
from weir.errors import StateError

STEPS = 4


def param(array, name=None, dtype=None):
    t = tensor.Tensor(data=np.asarray(array), dtype=dtype or tensor.float32, stores_grad=True)
    if name is not None:
        t.name = name
    return t


def arrays(seed=0, shape=(3, 4)):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=shape).astype(np.float32), rng.normal(size=shape).astype(np.float32))


def train(make, graph, p0, g0, steps=STEPS):
    """p after the steps, with the constant gradient g0, and the optimiser."""
    sgd, p, g = make(), param(p0, "p"), param(g0)
    dev = core.cpu()

    def step():
        grad = tensor.Tensor(data=g.data)
        sgd.apply(p.name, p, grad)
        sgd.step()

    if graph:
        dev.EnableGraph(True)
        step()
        dev.EnableGraph(False)
    for _ in range(steps):
        if graph:
            dev.RunGraph()
        else:
            step()
    return tensor.to_numpy(p), sgd


class Half(opt.DecayScheduler):
    """A schedule of a script: half as much at every step."""

    def __call__(self, step):
        return tensor.pow(tensor.from_numpy(np.float32([0.5])), step.as_type(
            tensor.float32)) * self.init_value


def sgd_numpy(p, g, lr, momentum=0, dampening=0, decay=0, nesterov=False):
    """lr, momentum, ...: numbers or functions of the step."""
    p, b = p.astype(np.float64), np.zeros(p.shape)
    for n in range(STEPS):
        at = [v(n) if callable(v) else v for v in (lr, momentum, dampening, decay)]
        d = g + at[3] * p
        b = at[1] * b + (1 - at[2]) * d
        has = callable(momentum) or momentum
        p = p - at[0] * ((d + at[1] * b if nesterov else b) if has else d)
    return p


def square_numpy(p, g, lr, eps, decay, rho=None):
    p, h = p.astype(np.float64), np.zeros(p.shape)
    for _ in range(STEPS):
        d = g + decay * p
        h = h + d * d if rho is None else rho * h + (1 - rho) * d * d
        p = p - lr * d / np.sqrt(h + eps)
    return p


def adam_numpy(p, g, lr, b1=0.9, b2=0.999, eps=1e-8, decay=0, decouple=0):
    p, m, v = p.astype(np.float64), np.zeros(p.shape), np.zeros(p.shape)
    for n in range(1, STEPS + 1):
        p = p * (1 - lr * decouple)
        d = g + decay * p
        m, v = b1 * m + (1 - b1) * d, b2 * v + (1 - b2) * d * d
        p = p - lr * (m / (1 - b1**n)) / (np.sqrt(v / (1 - b2**n)) + eps)
    return p


def half(first):
    return lambda n: first * 0.5**n


CASES = {
    "sgd": (lambda: opt.SGD(0.1), lambda p, g: sgd_numpy(p, g, 0.1)),
    "sgd default": (opt.SGD, lambda p, g: sgd_numpy(p, g, 0.1)),
    "sgd momentum": (lambda: opt.SGD(0.1, 0.9), lambda p, g: sgd_numpy(p, g, 0.1, 0.9)),
    "sgd dampening": (lambda: opt.SGD(0.1, 0.9, 0.3),
                      lambda p, g: sgd_numpy(p, g, 0.1, 0.9, 0.3)),
    "sgd decay": (lambda: opt.SGD(0.1, weight_decay=0.2),
                  lambda p, g: sgd_numpy(p, g, 0.1, decay=0.2)),
    "sgd nesterov": (lambda: opt.SGD(0.1, 0.9, nesterov=True),
                     lambda p, g: sgd_numpy(p, g, 0.1, 0.9, nesterov=True)),
    "sgd nesterov decay": (lambda: opt.SGD(0.1, 0.9, weight_decay=0.1, nesterov=True),
                           lambda p, g: sgd_numpy(p, g, 0.1, 0.9, 0, 0.1, True)),
    "sgd lr falls": (lambda: opt.SGD(opt.ExponentialDecay(0.1, 1, 0.5)),
                     lambda p, g: sgd_numpy(p, g, half(0.1))),
    "sgd lr falls, momentum": (lambda: opt.SGD(opt.ExponentialDecay(0.1, 1, 0.5), momentum=0.9),
                               lambda p, g: sgd_numpy(p, g, half(0.1), 0.9)),
    "sgd momentum falls": (lambda: opt.SGD(0.1, opt.ExponentialDecay(0.9, 1, 0.5)),
                           lambda p, g: sgd_numpy(p, g, 0.1, half(0.9))),
    "sgd all fall": (lambda: opt.SGD(Half(0.1), Half(0.9), Half(0.3), Half(0.2)),
                     lambda p, g: sgd_numpy(p, g, half(0.1), half(0.9), half(0.3), half(0.2))),
    "sgd constant schedules": (lambda: opt.SGD(opt.Constant(0.1), opt.Constant(0.9)),
                               lambda p, g: sgd_numpy(p, g, 0.1, 0.9)),
    "rmsprop": (lambda: opt.RMSProp(0.1), lambda p, g: square_numpy(p, g, 0.1, 1e-8, 0, 0.9)),
    "rmsprop eps": (lambda: opt.RMSProp(0.1, 0.8, 0.5),
                    lambda p, g: square_numpy(p, g, 0.1, 0.5, 0, 0.8)),
    "rmsprop decay": (lambda: opt.RMSProp(0.1, 0.8, 1e-3, 0.1),
                      lambda p, g: square_numpy(p, g, 0.1, 1e-3, 0.1, 0.8)),
    "rmsprop rho 0": (lambda: opt.RMSProp(0.1, 0.0, 0.1),
                      lambda p, g: square_numpy(p, g, 0.1, 0.1, 0, 0.0)),
    "adagrad": (lambda: opt.AdaGrad(0.1), lambda p, g: square_numpy(p, g, 0.1, 1e-8, 0)),
    "adagrad eps": (lambda: opt.AdaGrad(0.1, 0.5, 0.1),
                    lambda p, g: square_numpy(p, g, 0.1, 0.5, 0.1)),
    "adagrad eps 0": (lambda: opt.AdaGrad(0.1, 0), lambda p, g: square_numpy(p, g, 0.1, 0, 0)),
    "adam": (lambda: opt.Adam(0.1), lambda p, g: adam_numpy(p, g, 0.1)),
    "adam betas": (lambda: opt.Adam(0.1, 0.5, 0.9, 1e-3, 0.1),
                   lambda p, g: adam_numpy(p, g, 0.1, 0.5, 0.9, 1e-3, 0.1)),
    "adam beta_1 0": (lambda: opt.Adam(0.1, 0.0, 0.99),
                      lambda p, g: adam_numpy(p, g, 0.1, 0.0, 0.99)),
    "adamw": (lambda: opt.AdamW(0.1, weight_decay=0.3),
              lambda p, g: adam_numpy(p, g, 0.1, decouple=0.3)),
    "adamw beta_1 0": (lambda: opt.AdamW(0.1, 0.0, weight_decay=0.3),
                       lambda p, g: adam_numpy(p, g, 0.1, 0.0, decouple=0.3)),
    "dist": (lambda: opt.DistOpt(opt.SGD(0.1, 0.9)), lambda p, g: sgd_numpy(p, g, 0.1, 0.9)),
}


@pytest.mark.parametrize("case", CASES)
def test_updates_are_numpys(case, mode):
    p, g = arrays()
    make, reference = CASES[case]
    got, _ = train(make, mode == "on", p, g)
    np.testing.assert_allclose(got, reference(p, g), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("case", CASES)
def test_graph_on_and_off_give_the_same_bits(case):
    p, g = arrays(1)
    off, _ = train(CASES[case][0], False, p, g)
    on, _ = train(CASES[case][0], True, p, g)
    core.cpu().Reset()
    np.testing.assert_array_equal(off, on)


# ---- schedules ----

def counter(n):
    return tensor.Tensor((1,)).set_value(n)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 9])
def test_constant(n):
    value = opt.Constant(0.2)(counter(n))
    assert value.shape == (1,)
    assert tensor.to_numpy(value)[0] == np.float32(0.2)


@pytest.mark.parametrize("staircase", [False, True])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 6, 7])
def test_exponential_decay(n, staircase):
    value = opt.ExponentialDecay(0.1, 3, 0.5, staircase)(counter(n))
    power = n // 3 if staircase else n / 3
    np.testing.assert_allclose(tensor.to_numpy(value), [0.1 * 0.5**power], rtol=1e-6)


def test_a_schedule_of_a_script_must_say_its_value():
    with pytest.raises(NotImplementedError):
        opt.DecayScheduler(1.0)(counter(0))


@pytest.mark.parametrize("lr", ["0.1", None, [0.1], True])
def test_a_rate_is_a_number_or_a_schedule(lr):
    with pytest.raises(TypeError):
        opt.SGD(lr)


def test_lr_value_follows_the_steps():
    sgd = opt.SGD(opt.ExponentialDecay(0.1, 2, 0.5, True))
    for n in range(5):
        np.testing.assert_allclose(tensor.to_numpy(sgd.lr_value), [0.1 * 0.5**(n // 2)], rtol=1e-6)
        sgd.step()
    assert tensor.to_numpy(sgd.step_counter)[0] == 5


def test_a_new_rate_reaches_a_recorded_graph():
    p, g = arrays()
    _, sgd = train(lambda: opt.SGD(0.1), True, p, g, steps=0)
    w = param(p)
    core.cpu().Reset()
    core.cpu().EnableGraph(True)
    sgd.apply("w", w, param(g))
    core.cpu().EnableGraph(False)
    sgd.lr = 0.5
    core.cpu().RunGraph()
    np.testing.assert_allclose(tensor.to_numpy(w), p - 0.5 * g, rtol=1e-6)
    core.cpu().Reset()


# ---- arguments ----

@pytest.mark.parametrize("bad", [dict(momentum=-0.1), dict(weight_decay=-1),
                                 dict(nesterov=True), dict(momentum=0.9, dampening=0.1,
                                                           nesterov=True)])
def test_sgd_refuses(bad):
    with pytest.raises(ValueError):
        opt.SGD(0.1, **bad)


def test_types_and_shapes_are_checked():
    with pytest.raises(AssertionError):
        opt.SGD(0.1, dtype=tensor.float64).apply("p", param(np.ones(3)), param(np.ones(3)))
    with pytest.raises(AssertionError):
        opt.SGD(0.1).apply("p", param(np.ones(3)), param(np.ones(4)))


def test_the_base_has_no_update():
    with pytest.raises(NotImplementedError):
        opt.Optimizer(0.1).apply("p", param(np.ones(3)), param(np.ones(3)))


def test_float64_parameters():
    p, g = (a.astype(np.float64) for a in arrays())
    sgd = opt.SGD(0.1, 0.9, dtype=tensor.float64)
    w, d = param(p, dtype=tensor.float64), param(g, dtype=tensor.float64)
    for _ in range(STEPS):
        sgd.apply("w", w, d)
    np.testing.assert_allclose(tensor.to_numpy(w), sgd_numpy(p, g, 0.1, 0.9), rtol=1e-15)


@pytest.mark.parametrize("name, make, update", [
    ("sgd", opt.SGD, sgd_numpy), ("adam", opt.Adam, adam_numpy),
    ("rmsprop", opt.RMSProp, lambda p, g, lr: square_numpy(p, g, lr, 1e-8, 0, 0.9)),
    ("adagrad", opt.AdaGrad, lambda p, g, lr: square_numpy(p, g, lr, 1e-8, 0))],
    ids=["sgd", "adam", "rmsprop", "adagrad"])
@pytest.mark.parametrize("lr", [0.1, opt.ExponentialDecay(0.1, 2, 0.7)], ids=["number", "schedule"])
def test_rates_of_float64_parameters_are_float64(name, make, update, lr, mode):
    """A rate that went through float32 would be wrong by 1e-8 of it."""
    p, g = (a.astype(np.float64) for a in arrays())
    rate = 0.1 if lr == 0.1 else lambda n: 0.1 * 0.7 ** (n / 2)
    if name != "sgd" and lr != 0.1:
        pytest.skip("its reference has a constant rate")
    method, dev = make(lr, dtype=tensor.float64), core.cpu()
    w, d = param(p, "p", tensor.float64), param(g, dtype=tensor.float64)

    def step():
        method.apply("p", w, tensor.Tensor(data=d.data))
        method.step()

    if mode == "on":
        dev.EnableGraph(True)
        step()
        dev.EnableGraph(False)
    for _ in range(STEPS):
        dev.RunGraph() if mode == "on" else step()
    np.testing.assert_allclose(tensor.to_numpy(w), update(p, g, rate), rtol=1e-14)


# ---- state ----

@pytest.mark.parametrize("make, tables", [(lambda: opt.SGD(0.1, 0.9), ["moments"]),
                                          (lambda: opt.RMSProp(0.1), ["running_average"]),
                                          (lambda: opt.AdaGrad(0.1), ["history"]),
                                          (lambda: opt.Adam(0.1), ["m", "v"])])
def test_states_move_on_in_another_optimiser(make, tables):
    p, g = arrays()
    whole, _ = train(make, False, p, g, steps=5)
    part, first = train(make, False, p, g, steps=2)
    states = first.get_states()
    assert states["step_counter"] == 2
    assert all(list(states[table]) == ["p"] for table in tables)
    second = make()
    second.set_states(states)
    w = param(part, "p")
    for _ in range(3):
        second.apply("p", w, param(g))
        second.step()
    np.testing.assert_array_equal(tensor.to_numpy(w), whole)


def test_states_are_taken_from_arrays_into_the_same_memory():
    p, g = arrays()
    _, sgd = train(lambda: opt.SGD(0.1, 0.9), False, p, g, steps=1)
    buffer = sgd.moments["p"]
    sgd.set_states({"step_counter": 7, "moments": {"p": np.zeros_like(p)}})
    assert sgd.moments["p"] is buffer
    assert not tensor.to_numpy(buffer).any()
    assert sgd.get_states()["step_counter"] == 7


def test_parameters_of_one_name_have_states_of_their_own(mode):
    p, g = arrays()
    a, b = param(p, "W"), param(p, "W")
    sgd = opt.SGD(0.1, 0.9)
    dev = core.cpu()

    def step():
        sgd.apply("W", a, param(g))
        sgd.apply("W", b, param(-g))

    dev.EnableGraph(mode == "on")
    step()
    dev.EnableGraph(False)
    for _ in range(STEPS if mode == "on" else STEPS - 1):
        dev.RunGraph() if mode == "on" else step()
    assert sorted(sgd.moments) == ["W", "W#2"]
    np.testing.assert_allclose(tensor.to_numpy(a), sgd_numpy(p, g, 0.1, 0.9), rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(tensor.to_numpy(b), sgd_numpy(p, -g, 0.1, 0.9), rtol=2e-5,
                               atol=1e-6)


# ---- whole steps ----

def loss_of(w, x, t):
    return autograd.mse_loss(autograd.matmul(x, w), t)


def problem(seed=3):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape).astype(np.float32) for shape in ((4, 2), (5, 4), (5, 2))]


def gradient(w, x, t):
    return 2 * x.T @ (x @ w - t) / t.size


@pytest.mark.parametrize("how", ["__call__", "backward_and_update"])
def test_a_step_of_a_loss(how, mode, training):
    w0, x0, t0 = problem()
    w, x, t = param(w0, "w"), param(x0), tensor.from_numpy(t0)
    x.stores_grad = False
    sgd = opt.SGD(0.1)
    dev = core.cpu()
    dev.EnableGraph(mode == "on")
    getattr(sgd, how)(loss_of(w, x, t))
    dev.EnableGraph(False)
    if mode == "on":
        dev.RunGraph()
    np.testing.assert_allclose(tensor.to_numpy(w), w0 - 0.1 * gradient(w0, x0, t0), rtol=1e-5,
                               atol=1e-6)
    assert sgd.get_states()["step_counter"] == 1


@pytest.mark.parametrize("clip", [dict(clip_value=0.05), dict(clip_norm=0.1),
                                  dict(clip_norm=100.0), dict(clip_norm=0.02, clip_value=0.05)])
def test_clipped_gradients(clip, mode, training):
    w0, x0, t0 = problem()
    w, x, t = param(w0, "w"), tensor.from_numpy(x0), tensor.from_numpy(t0)
    g = gradient(w0, x0, t0)
    if "clip_value" in clip:
        g = np.clip(g, -clip["clip_value"], clip["clip_value"])
    if "clip_norm" in clip:
        g = g * min(1, clip["clip_norm"] / (np.linalg.norm(g) + 1e-6))
    sgd = opt.SGD(0.1, **clip)
    dev = core.cpu()
    dev.EnableGraph(mode == "on")
    sgd(loss_of(w, x, t))
    dev.EnableGraph(False)
    if mode == "on":
        dev.RunGraph()
    np.testing.assert_allclose(tensor.to_numpy(w), w0 - 0.1 * g, rtol=1e-5, atol=1e-6)


def test_update_in_the_older_order(training):
    w0, x0, t0 = problem()
    w = param(w0)
    sgd = opt.SGD(0.1)
    for p, g in autograd.backward(loss_of(w, tensor.from_numpy(x0), tensor.from_numpy(t0))):
        sgd.update(p, g)
    np.testing.assert_allclose(tensor.to_numpy(w), w0 - 0.1 * gradient(w0, x0, t0), rtol=1e-5,
                               atol=1e-6)


@pytest.mark.parametrize("how", ["backward_and_update", "backward_and_update_half",
                                 "backward_and_partial_update", "backward_and_sparse_update",
                                 "__call__"])
def test_one_process_of_dist_opt(how, training):
    w0, x0, t0 = problem()
    w = param(w0)
    dist = opt.DistOpt(opt.SGD(0.1), world_size=1)
    getattr(dist, how)(loss_of(w, tensor.from_numpy(x0), tensor.from_numpy(t0)))
    np.testing.assert_allclose(tensor.to_numpy(w), w0 - 0.1 * gradient(w0, x0, t0), rtol=1e-5,
                               atol=1e-6)
    assert (dist.world_size, dist.local_rank, dist.global_rank) == (1, 0, 0)
    assert dist.get_states()["step_counter"] == 1


def test_nothing_is_updated_by_reading_while_recording():
    p, g = arrays()
    w = param(p)
    sgd = opt.SGD(0.1)
    core.cpu().EnableGraph(True)
    sgd.apply("w", w, param(g))
    recorded = w * 2.0
    with pytest.raises(StateError):
        tensor.to_numpy(recorded)
    core.cpu().Reset()
    np.testing.assert_array_equal(tensor.to_numpy(w), p)


# ---- names of early 2020 ----

ERA = {
    "SGD": (lambda: optimizer.SGD(0.1), lambda p, g: sgd_numpy(p, g, 0.1)),
    "SGD momentum": (lambda: optimizer.SGD(0.1, 0.9, 0.1),
                     lambda p, g: sgd_numpy(p, g, 0.1, 0.9, 0, 0.1)),
    "Nesterov": (lambda: optimizer.Nesterov(0.1, 0.9),
                 lambda p, g: sgd_numpy(p, g, 0.1, 0.9, nesterov=True)),
    "RMSProp": (lambda: optimizer.RMSProp(lr=0.1),
                lambda p, g: square_numpy(p, g, 0.1, 1e-8, 0, 0.9)),
    "AdaGrad": (lambda: optimizer.AdaGrad(lr=0.1), lambda p, g: square_numpy(p, g, 0.1, 1e-8, 0)),
    "Adam": (lambda: optimizer.Adam(lr=0.1), lambda p, g: adam_numpy(p, g, 0.1)),
    "L2": (lambda: optimizer.SGD(0.1, regularizer=optimizer.L2Regularizer(0.2)),
           lambda p, g: sgd_numpy(p, g, 0.1, decay=0.2)),
    "constraint": (lambda: optimizer.SGD(0.1, constraint=optimizer.L2Constraint(0.5)),
                   lambda p, g: sgd_numpy(p, g * 0.5 / (np.linalg.norm(g) + 1e-6), 0.1)),
}


@pytest.mark.parametrize("name", ["p", "", None])
@pytest.mark.parametrize("case", ERA)
def test_older_optimisers(case, name):
    p, g = arrays()
    sgd, w = ERA[case][0](), param(p)
    for _ in range(STEPS):
        assert sgd.apply(0, param(g), w, name) is w
    np.testing.assert_allclose(tensor.to_numpy(w), ERA[case][1](p, g), rtol=2e-5, atol=2e-6)


def test_older_apply_with_lr():
    p, g = arrays()
    sgd, w = optimizer.SGD(), param(p)
    with pytest.raises(ValueError):
        sgd.apply(0, param(g), w)
    sgd.apply_with_lr(0, 0.1, param(g), w)
    sgd.apply_with_lr(0, 0.2, param(g), w)
    np.testing.assert_allclose(tensor.to_numpy(w), p - 0.3 * g, rtol=1e-5, atol=1e-6)
    with pytest.raises(TypeError, match="epoch, grad, value"):
        sgd.apply_with_lr(0, 0.1, "w", w)


def test_a_parameter_names_itself():
    sgd = opt.SGD(lr=0.5, momentum=0.9)
    p = tensor.from_numpy(np.ones((2, 3), np.float32))
    for _ in range(2):
        sgd.apply(p, p, tensor.from_numpy(np.ones((2, 3), np.float32)))
        sgd.step()
    np.testing.assert_allclose(tensor.to_numpy(p), 1 - 0.5 - 0.5 * 1.9, rtol=1e-6)
    sgd.set_states(sgd.get_states())

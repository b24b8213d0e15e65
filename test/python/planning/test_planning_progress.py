"""test_planning_progress - what is told while a plan is made; Ctrl-C meanwhile and in a step."""
import gc
import io
import signal
import threading

import numpy as np
import pytest

import weir
from weir import _capi as capi, autograd, core, planning_progress, tensor
from weir.errors import CancelledError

from mlp import MLP, data, host, params, ready


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def clean():
    yield
    weir.set_planning_progress(None)
    autograd.training = False
    assert not core.cpu().recording


def budgeted(n=256):
    """A model whose first call plans within a budget, and its inputs.

    What earlier models leave in cycles is freed first: a plan counts all that the device holds.
    """
    gc.collect()
    net, x, t = ready(True, n=n)
    net.graph(True, budget="92%")
    return net, x, t


def undisturbed():
    """Text of the plan of budgeted, and the bits after a step."""
    net, x, t = budgeted()
    net(x, t)
    return net.graphs[0].text("plan"), bits(net)


def bits(net):
    return {name: p.tobytes() for name, p in params(net).items()}


def test_a_function_is_told_and_changes_no_plan():
    plan, wanted = undisturbed()
    told = []
    net, x, t = budgeted()
    weir.set_planning_progress(told.append)
    net(x, t)
    assert net.graphs[0].text("plan") == plan and bits(net) == wanted
    assert told and all(isinstance(p, weir.PlanningProgress) for p in told)
    assert told[0].phase == "passes" and told[0].fraction is None and told[0].plans == 0
    seconds = [p.seconds for p in told]
    assert seconds == sorted(seconds)
    known = len(told)
    net(x, t)
    assert len(told) == known           # a run plans nothing


@pytest.mark.parametrize("stop, error", [
    (lambda: False, CancelledError),
    (lambda: signal.raise_signal(signal.SIGINT), KeyboardInterrupt),
    (lambda: 1 // 0, ZeroDivisionError),
])
def test_planning_can_be_stopped(stop, error):
    plan, wanted = undisturbed()
    net, x, t = budgeted()
    before = bits(net)
    weir.set_planning_progress(lambda p: stop())
    with pytest.raises(error):
        net(x, t)
    assert net.graphs == [] and bits(net) == before
    assert not core.cpu().recording
    weir.set_planning_progress(None)
    net(x, t)
    assert net.graphs[0].text("plan") == plan and bits(net) == wanted


def test_a_stopped_plan_leaves_no_memory_behind():
    net, x, t = budgeted()
    weir.set_planning_progress(lambda p: False)
    held = []
    for _ in range(4):
        with pytest.raises(CancelledError):
            net(x, t)
        gc.collect()
        memory = core.cpu().memory()
        held.append((memory.persistent, memory.live, memory.arena))
    assert len(set(held)) == 1          # the first makes the optimiser's states


def test_ctrl_c_while_the_devices_own_graph_is_planned():
    dev = core.cpu()
    x = tensor.from_numpy(np.ones(4, np.float32))
    dev.ResetGraph()
    dev.EnableGraph(True)
    y = autograd.add(x, x)
    dev.EnableGraph(False)
    weir.set_planning_progress(lambda p: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        dev.RunGraph()
    dev.Reset()
    del y
    assert host(autograd.add(x, x)).tolist() == [2] * 4


def test_ctrl_c_during_a_step_ends_after_the_step(monkeypatch):
    net, x, t = ready(True)
    twin, ex, et = ready(False)
    net(x, t)
    twin(ex, et)
    run = capi.weir_graph_run

    def interrupted(graph):
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        run(graph)

    capture = core.cpu().memory().arena
    with monkeypatch.context() as patch:
        patch.setattr(capi, "weir_graph_run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            net(x, t)
    ran = int(host(net.optimizer.step_counter)[0]) - 1
    assert ran in (0, 1)                # Python may look before the step begins or after it
    for _ in range(ran):
        twin(ex, et)
    assert bits(net) == bits(twin)
    assert host(net(x, t)[1])[0] == host(twin(ex, et)[1])[0]
    assert core.cpu().memory().arena == capture


class Interrupted(autograd.Operator):
    """An operator of a script in which Ctrl-C comes at the call that is wanted."""

    at = 0

    def forward(self, x):
        Interrupted.at -= 1
        if Interrupted.at == 0:
            signal.raise_signal(signal.SIGINT)
        return tensor.from_numpy(x.to_numpy()).data

    def backward(self, dy):
        return dy


def test_ctrl_c_in_an_operator_of_a_script_says_where_the_step_ended():
    class Net(MLP):
        def forward(self, x):
            return self.l2(Interrupted()(self.l1(x))[0])

    net, x, t = ready(True, make=Net)
    net(x, t)
    Interrupted.at = 1
    with pytest.raises(KeyboardInterrupt) as met:
        net(x, t)
    assert "updates that were done before stay done" in met.value.__notes__[0]
    net(x, t)


# ---- the line ----

def test_the_line_appears_late_on_a_terminal_only_and_goes(monkeypatch):
    for how, screen, shows in ((None, Terminal(), True), (None, io.StringIO(), False),
                               (True, io.StringIO(), True), (False, Terminal(), False)):
        weir.set_planning_progress(how)
        monkeypatch.setattr("sys.stderr", screen)
        with planning_progress.shown():
            if how is not False:        # without a hook nothing is called
                for seconds in (0.2, 0.9, 1.2, 1.25, 1.5):
                    planning_progress._note("search", 0.25, seconds, 1234, 512_000_000, 3.14)
        lines = screen.getvalue().split("\r")
        if shows:
            assert lines[1] == "planning 1 s  search 25 %  1,234 plans  best 512.0 MB + 3.1 ms"
            assert len(lines) == 5 and not lines[3].strip() and lines[4] == ""
        else:
            assert lines == [""]


def test_a_short_plan_shows_nothing(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(planning_progress, "AFTER", 1e9)
    monkeypatch.setattr("sys.stderr", screen)
    net, x, t = budgeted()
    net(x, t)
    assert screen.getvalue() == ""


def test_parts_that_are_not_known_are_left_out():
    assert planning_progress.line(weir.PlanningProgress("passes", None, 2.4, 0, 0, 0.0)) == (
        "planning 2 s  passes")


def test_what_progress_may_be():
    with pytest.raises(TypeError, match="no function"):
        weir.set_planning_progress("yes")


def test_a_closed_stderr_ends_no_plan(monkeypatch):
    screen = Terminal()
    screen.close()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setattr(planning_progress, "AFTER", 0.0)
    x, t = map(tensor.from_numpy, data(64))
    net, *_ = budgeted(64)
    net(x, t)

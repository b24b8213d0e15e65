# test_threads.py - other Python threads while a graph runs: they go on, and what they drop is safe.
import gc
import os
import re
import signal
import sys
import threading
import time

import numpy as np
import pytest

import weir
from weir import _capi as capi, core


class Gate:
    """A graph whose run stops in a callback until told to go on: no test needs a clock."""

    def __init__(self, device):
        self.inside, self.go = threading.Event(), threading.Event()
        self.x = weir.ones((4,), device=device)

        def forward(reads, writes):
            self.inside.set()
            if not self.go.wait(60):
                raise TimeoutError("nobody opened the gate")
            writes[0][1][:] = memoryview(np.full(4, 7, np.float32)).cast("B")

        with device.graph() as self.step:
            owner, (self.y,) = capi.callback(None, "gate", forward, None,
                                             [self.x.data.handle], [(capi.WEIR_F32, (4,))])
            device.hold(owner)
        self.go.set()
        self.step.run()                 # its result has memory from now on
        self.go.clear()
        self.inside.clear()

    def start(self):
        """Runs in a thread; returns when the run is inside the callback."""
        self.failure = None

        def run():
            try:
                self.step.run()
            except BaseException as error:
                self.failure = error

        self.thread = threading.Thread(target=run)
        self.thread.start()
        assert self.inside.wait(60)

    def finish(self):
        self.go.set()
        self.thread.join(60)
        assert not self.thread.is_alive()
        assert self.failure is None
        out = np.empty(4, np.float32)
        capi.read(self.y, out)
        assert (out == 7).all()


@pytest.fixture
def device():
    return core.Device("cpu", threads=1)


def busy_graph(device):
    a = weir.randn(256, 256, device=device)
    with device.graph() as step:
        y = a.data.handle
        for _ in range(8):
            y = capi.weir_tanh(capi.weir_matmul(y, a.data.handle))
    return step, y


def test_python_goes_on_while_a_graph_runs(device):
    """The other thread counts between begin and end of runs, which hold no interpreter lock."""
    step, _ = busy_graph(device)
    step.run()
    counts, stop = [0], threading.Event()

    def count():
        while not stop.is_set():
            counts[0] += 1
            time.sleep(0.001)           # without the lock, which the other one takes

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)         # the lock changes hands only where it is let go
    try:
        thread = threading.Thread(target=count)
        thread.start()
        before = counts[0]
        for _ in range(50):
            step.run()
            if counts[0] > before + 100:
                break
        after = counts[0]
        stop.set()
    finally:
        sys.setswitchinterval(interval)
        stop.set()
        thread.join(60)
    assert after > before


def test_a_call_waits_for_a_callback_of_another_thread(device):
    """With the graph off Python runs inside a call, where another thread may get its turn."""
    inside, go, seen = threading.Event(), threading.Event(), []
    x = weir.ones((4,), device=device)
    dropped = [weir.ones((16,), device=device) for _ in range(100)]

    def other():
        assert inside.wait(60)
        dropped.clear()                 # does not wait
        go.set()
        seen.append((x + x).numpy())    # does

    def forward(reads, writes):
        inside.set()
        assert go.wait(60)
        for _ in range(100):
            time.sleep(0)               # offers the interpreter lock
        assert not seen
        writes[0][1][:] = memoryview(np.full(4, 7, np.float32)).cast("B")

    live = device.memory().live
    thread = threading.Thread(target=other)
    thread.start()
    owner, (y,) = capi.callback(None, "turn", forward, None, [x.data.handle],
                                [(capi.WEIR_F32, (4,))])
    thread.join(60)
    assert (seen[0] == 2).all() and owner is not None and y is not None
    assert device.memory().live <= live - 99 * 64


def test_dropping_while_a_run_is_on_does_not_wait(device):
    gate = Gate(device)
    dropped = [weir.ones((16,), device=device) for _ in range(500)]
    results = [capi.weir_relu(gate.x.data.handle) for _ in range(500)]
    with device.graph() as other:
        kept = capi.weir_relu(gate.x.data.handle)
    live = device.memory().live
    done = threading.Event()

    def drop():
        nonlocal other, kept
        dropped.clear()
        results.clear()
        other = kept = None
        gc.collect()
        done.set()

    gate.start()
    thread = threading.Thread(target=drop)
    thread.start()
    assert done.wait(60)                # while the run is still inside its callback
    assert gate.thread.is_alive()
    gate.finish()
    thread.join(60)
    assert device.memory().live < live - 500 * 64


def test_a_capsule_dropped_while_a_run_is_on(device):
    gate = Gate(device)
    views = [np.from_dlpack(weir.ones((16,), device=device)) for _ in range(100)]
    live = device.memory().live
    gate.start()
    done = threading.Event()

    def drop():
        views.clear()
        done.set()

    thread = threading.Thread(target=drop)
    thread.start()
    assert done.wait(60)
    gate.finish()
    thread.join(60)
    assert device.memory().live <= live - 100 * 64


def test_calls_of_others_wait_for_the_run(device):
    gate = Gate(device)
    order, calls = [], threading.Event()

    def call():
        calls.set()
        y = capi.weir_relu(gate.x.data.handle)
        order.append("call")
        del y

    gate.start()
    thread = threading.Thread(target=call)
    thread.start()
    assert calls.wait(60)
    thread.join(0.05)                   # it cannot be through: the gate is closed
    assert order == []
    gate.finish()
    thread.join(60)
    assert order == ["call"]


def test_many_threads_on_one_device(device):
    """Recorded runs and calls at once from four threads: all results are right, nothing is left."""
    step, y = busy_graph(device)
    step.run()
    expected = np.empty((256, 256), np.float32)
    capi.read(y, expected)
    failures = []

    def work(number):
        try:
            for i in range(20):
                step.run()
                x = weir.full((8,), number * 100 + i, device=device)
                z = capi.weir_add(x.data.handle, x.data.handle)
                out = np.empty(8, np.float32)
                capi.read(z, out)
                assert (out == 2 * (number * 100 + i)).all()
        except BaseException as error:
            failures.append(error)

    gc.collect()
    live = device.memory().live
    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert failures == []
    out = np.empty_like(expected)
    capi.read(y, out)
    assert np.array_equal(out, expected)
    gc.collect()
    assert device.memory().live == live


def test_collector_on_another_thread(device):
    """Handles in reference cycles die wherever the collector runs."""
    gate = Gate(device)
    live = device.memory().live

    class Knot:
        pass

    for _ in range(50):
        knot = Knot()
        knot.self, knot.tensor = knot, weir.ones((16,), device=device)
    del knot
    gate.start()
    thread = threading.Thread(target=gc.collect)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    gate.finish()
    gc.collect()
    assert device.memory().live == live


def test_a_script_s_error_in_a_thread_stays_there(device):
    def forward(reads, writes):
        raise ZeroDivisionError("there")

    x = weir.ones((4,), device=device)
    with device.graph() as step:
        owner, (y,) = capi.callback(None, "bad", forward, None, [x.data.handle],
                                    [(capi.WEIR_F32, (4,))])
        device.hold(owner)
    caught = []

    def run():
        try:
            step.run()
        except ZeroDivisionError as error:
            caught.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(60)
    assert caught == ["there"]
    with pytest.raises(ZeroDivisionError, match="there"):
        step.run()


def in_child(calls):
    """What `calls` returns in a forked process, as text; "hung" if it never comes back."""
    end, start = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            os.write(start, str(calls()).encode())
        except BaseException as error:
            os.write(start, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(start)
    with os.fdopen(end, "rb") as pipe:
        text = pipe.read().decode()
    return text if os.waitpid(child, 0)[1] == 0 else "hung"


def test_a_forked_child(device):
    step, _ = busy_graph(device)
    step.run()
    assert in_child(lambda: np.arange(4).sum()) == "6"
    said = "StateError: .*: this process was forked after Weir"
    assert re.match(said, in_child(lambda: weir.ones((2,), device=device)))
    assert re.match(said, in_child(step.run))
    assert re.match(said, in_child(lambda: core.Device("cpu")))
    step.run()


def test_a_child_forked_while_another_thread_runs(device):
    gate = Gate(device)
    gate.start()
    text = in_child(lambda: weir.ones((2,), device=device))
    gate.finish()
    assert "this process was forked after Weir" in text

# test_errors.py - every status of the core arrives as its exception class, with its sentence.
import ctypes
import re
import subprocess
import sys
import warnings

import numpy as np
import pytest

import weir
from weir import _capi as capi, core, errors, layer, model, opt


def f32(*shape):
    return weir.ones(shape).data.handle


def open_named():
    capi.weir_device_open("toaster", None)


def closed():
    device = core.Device("cpu")
    capi.weir_device_close(device.handle)
    device.handle = None
    device.SetRandSeed(1)


def read_recorded():
    with weir.cpu().graph():
        capi.read(capi.weir_relu(f32(3)), bytearray(12))


def huge():
    shape = (1 << 20, 1 << 20, 1 << 4)
    capi.weir_write_fill(capi.weir_state(weir.cpu().handle, (capi.WEIR_F32, shape), None), 1.0)


def poor():
    x = f32(64, 64)
    with weir.cpu().graph(budget=1):
        return capi.weir_matmul(capi.weir_softmax(capi.weir_matmul(x, x), 1), x)


MISTAKES = [
    (errors.BudgetError, MemoryError, r"\d", poor),
    (errors.InvalidError, ValueError, "softmax: axis 5 does not exist",
     lambda: capi.weir_softmax(f32(2, 3), 5)),
    (errors.ShapeError, ValueError, r"matmul.*\(2,3\)",
     lambda: capi.weir_matmul(f32(2, 3), f32(2, 3))),
    (errors.DtypeError, TypeError, "i32",
     lambda: capi.weir_matmul(f32(2, 2), weir.ones((2, 2), "int32").data.handle)),
    (errors.DeviceError, RuntimeError, "toaster", open_named),
    (errors.StateError, RuntimeError, "weir_read", read_recorded),
    (errors.OutOfMemoryError, MemoryError, "", huge),
    (errors.ShapeError, ValueError, "weir_write.*16 bytes",
     lambda: capi.write(f32(4), np.zeros(3, np.float32))),
]


@pytest.mark.parametrize("kind, builtin, text, mistake", MISTAKES,
                         ids=[f"{m[0].__name__}-{i}" for i, m in enumerate(MISTAKES)])
def test_mistake(kind, builtin, text, mistake):
    with pytest.raises(builtin) as caught:
        mistake()
    assert type(caught.value) is kind
    assert isinstance(caught.value, weir.Error)
    assert str(caught.value) == capi.weir_error()
    assert re.search(text, str(caught.value)), str(caught.value)


def test_no_status_is_without_a_class():
    numbers = {name: value for name, value in vars(capi).items()
               if name.startswith("WEIR_ERR_") or name == "WEIR_OK"}
    assert set(errors.BY_STATUS) == set(numbers.values())
    classes = [errors.BY_STATUS[n] for n in sorted(numbers.values()) if n != capi.WEIR_OK]
    assert len(set(classes)) == len(classes)
    for kind in classes:
        assert issubclass(kind, errors.Error) and len(kind.__mro__) > 4    # and a built-in one


def test_classes_are_exported():
    for kind in set(errors.BY_STATUS.values()):
        assert getattr(weir, kind.__name__) is kind


def test_chain_reports_the_first_mistake():
    with pytest.raises(errors.ShapeError, match="weir_matmul|matmul"):
        capi.weir_relu(capi.weir_matmul(f32(2, 3), f32(2, 3)))


def test_after_an_error_all_goes_on():
    with pytest.raises(errors.ShapeError):
        capi.weir_matmul(f32(2, 3), f32(2, 3))
    assert capi.weir_tensor_desc(capi.weir_matmul(f32(2, 3), f32(3, 2)))[1] == (2, 2)


@pytest.mark.parametrize("bad", [None, 3, "x", (1,), (capi.WEIR_F32,), (capi.WEIR_F32, 5),
                                 (capi.WEIR_F32, (1,) * 9), (capi.WEIR_F32, ("a",))])
def test_bad_desc(bad):
    with pytest.raises((TypeError, ValueError)):
        capi.weir_state(weir.cpu().handle, bad, None)


@pytest.mark.parametrize("name, arguments", [
    ("weir_relu", (None,)), ("weir_tensor_desc", (None,)), ("address", (None,)),
    ("memory", (None,)), ("weir_keep", (None,)), ("weir_hollow", (None,)),
    ("dlpack_export", (None, True, False, False)), ("weir_concat", ([None], 0)),
    ("weir_graph_run", (None,)), ("weir_graph_stats_of", (None, None)),
    ("weir_graph_text", (None, 0)), ("read", (None, bytearray(4))), ("write", (None, b"1234")),
    ("gradients", (None, None, [])), ("vjp", ([None], [None], [None])), ("split", (None, 0, (1,))),
    ("clip", ([None], [None], 1.0, True)), ("weir_tensor_make_state", (None,)),
    ("weir_tensor_device", (None,)), ("weir_tensor_bytes", (None,)), ("weir_tensor_name", (None,)),
    ("weir_write_fill", (None, 1.0)), ("weir_device_seed", (None, 1)),
    ("weir_fill", (None, (0, (1,)), 1.0)), ("weir_arange", (None, 0, 3, 0, 1)),
])
def test_none_never_crashes(name, arguments):
    """In a separate process: a crash would end the other tests."""
    code = ("import sys, weir\nfrom weir import _capi as capi\n"
            f"try:\n    capi.{name}(*{arguments!r})\n"
            "except Exception as error:\n    print(type(error).__name__)\n")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"{name}: code {done.returncode} {done.stderr[-300:]}"


def test_exception_of_a_callback_is_the_script_s():
    def forward(reads, writes):
        raise KeyError("mine")

    x = f32(3)
    with pytest.raises(KeyError, match="mine"):
        capi.callback(None, "bad", forward, None, [x], [(capi.WEIR_F32, (3,))])


def test_exception_of_a_callback_in_a_graph():
    calls = []

    def forward(reads, writes):
        calls.append(1)
        raise KeyError("in the run")

    device = weir.cpu()
    with device.graph() as step:
        owner, (y,) = capi.callback(None, "bad", forward, None, [f32(3)],
                                    [(capi.WEIR_F32, (3,))])
        device.hold(owner)
    with pytest.raises(KeyError, match="in the run"):
        step.run()
    assert calls == [1]


def test_memory_error_leaks_nothing():
    device = weir.cpu()
    before = device.memory().live
    for _ in range(20):
        with pytest.raises(MemoryError):
            huge()
    assert device.memory().live == before


def test_wrong_buffers():
    x = f32(2, 2)
    with pytest.raises(BufferError):
        capi.read(x, b"0123456789abcdef")               # read-only
    with pytest.raises((ValueError, BufferError)):
        capi.write(x, np.zeros((4, 4), np.float32)[::2, ::2])
    with pytest.raises(TypeError):
        capi.write(x, 3.0)
    elements = (ctypes.c_float * 4)()
    capi.read(x, elements)
    assert list(elements) == [1, 1, 1, 1]


class Net(model.Model):
    """A classifier; a function of the loss runs within its step."""

    def __init__(self, inside=lambda loss: None):
        super().__init__()
        self.fc, self.loss, self.inside = layer.Linear(3), layer.SoftMaxCrossEntropy(), inside
        self.optimizer = opt.SGD(0.1)

    def forward(self, x):
        return self.fc(x)

    def train_one_batch(self, x, y):
        loss = self.loss(self.forward(x), y)
        self.optimizer(loss)
        self.inside(loss)
        return loss


def notes_of(call, *args):
    with pytest.raises((TypeError, errors.StateError)) as caught:
        call(*args)
    return " ".join(getattr(caught.value, "__notes__", []))


def test_a_read_within_a_step_is_told_where_to_read():
    for read in (lambda loss: loss.item(), np.asarray):
        net, x = Net(read), weir.ones((2, 4))
        net.compile([x], use_graph=True)
        assert "read it after the call" in notes_of(net, x, weir.zeros((2,), "int32"))
    net.eval()


def test_a_call_with_the_arguments_of_the_other_mode_says_the_mode():
    net, x = Net(), weir.ones((2, 4))
    net.compile([x])
    assert "eval() makes it forward" in notes_of(net, x)
    net.eval()
    assert "train() makes it train_one_batch" in notes_of(net, x, x)
    net.forward = lambda x: x + None                # another TypeError gets no such note
    assert notes_of(net, x) == ""


BEGINNERS = [
    (TypeError, "NumPy array.*weir.array", lambda: Net()(np.ones((2, 4), "f"), None)),
    (TypeError, "a list of ndarray", lambda: Net().compile([np.ones((2, 4), "f")])),
    (TypeError, "unknown plan option 'bugdet'.*budget, ",
     lambda: Net().compile([weir.ones((2, 4))], bugdet="75%")),
    (ValueError, 'budget 0.7: must be a whole number of bytes.*"75%"',
     lambda: weir.cpu().graph(budget=0.7)),
    (ValueError, 'budget 0.7: must be', lambda: weir.cpu().SetBudget("0.7")),
    (TypeError, "a shape must be integers, not .*weir.array", lambda: weir.zeros([1.0, 2.0])),
    (ValueError, r"axis 3 does not exist in a tensor of shape \(2, 3\)",
     lambda: weir.ones((2, 3)).sum(3)),
    (ValueError, "decay_steps is 0", lambda: opt.ExponentialDecay(0.1, 0, 0.5)),
    (ValueError, r"Conv2d: x has shape \(1, 8, 8\), must have four axes",
     lambda: layer.Conv2d(2, 3)(weir.ones((1, 8, 8)))),
    (ValueError, "MaxPool2d: .*must have four axes",
     lambda: layer.MaxPool2d(2)(weir.ones((8, 8)))),
]


@pytest.mark.parametrize("kind, sentence, call", BEGINNERS)
def test_mistakes_of_beginners(kind, sentence, call):
    with pytest.raises(kind, match=sentence):
        call()
    assert weir.options.plan_options(budget=4096.0).budget == "4096"


def test_layers_in_a_list_are_a_warning():
    class Listed(Net):
        def __init__(self, register):
            super().__init__()
            self.more = [layer.Linear(3)]
            if register:
                self.register_layers(*self.more)

    x = weir.ones((2, 4))
    with pytest.warns(UserWarning, match="Listed.more .*register_layers"):
        Listed(False).compile([x], is_train=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Listed(True).compile([x], is_train=False)

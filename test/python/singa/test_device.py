"""test_device - weir.device: getting devices, SINGA's switches of both ages, memory, profiling."""
import gc

import numpy as np
import pytest

from mlp import MLP
import weir
from weir import autograd, core, device, errors, layer, model, opt, tensor
from weir import singa_wrap as singa
from weir.errors import StateError
from weir.tensor import Tensor


@pytest.fixture
def dev():
    """The CPU, left as it was."""
    yield device.get_default_device()
    device.set_default_device(None)
    core.cpu().Reset()


def test_the_cpu_is_one(dev):
    assert device.create_cpu_device() is dev and device.default_device is dev
    assert singa.Platform.GetDefaultDevice() is dev and dev.host() is dev
    assert dev.id() == -1 and dev.get_id() == -1 and dev.get_host() is dev
    assert isinstance(dev, singa.Device) and isinstance(dev, device.Device)


def test_the_wrapper_of_2020_is_the_device(dev):
    assert device.Device(-1, dev) is dev


def test_a_device_of_its_own():
    own = device.open_cpu(threads=1, seed=3)
    assert own is not core.cpu() and own.threads == 1
    a = Tensor((100,), own).gaussian(0, 1).numpy()
    assert a.std() > 0.5
    own.SetRandSeed(3)
    np.testing.assert_array_equal(Tensor((100,), own).gaussian(0, 1).numpy(), a)


def test_default_device(dev):
    own = device.open_cpu(threads=1)
    device.set_default_device(own)
    assert device.get_default_device() is own and device.default_device is own
    assert Tensor((2,)).device is own and tensor.from_numpy(np.zeros(2)).device is own
    assert singa.Tensor((2,)).device() is own and tensor.zeros((2,)).device is own
    assert device.create_cpu_device() is dev
    device.set_default_device(dev)
    assert Tensor((2,)).device is dev
    with pytest.raises(TypeError, match="not a device"):
        device.set_default_device("cpu")


def test_a_simulated_machine():
    sim = device.create_sim("v100,capacity=1GB")
    assert device.clock(sim) == 0 and device.memory(sim)["total"] == 10**9
    a = Tensor((1024, 1024), sim).gaussian(0, 1)
    before = device.clock(sim)
    product = singa.Mult(a.data, a.data)
    assert device.clock(sim) - before == pytest.approx(5e-6 + 2 * 1024**3 / 14e12)
    product.ToDevice(core.cpu())
    assert not tensor.from_raw_tensor(product).numpy().any()
    with pytest.raises(errors.OutOfMemoryError, match="of the capacity of 1000000000"):
        Tensor((1 << 15, 1 << 15), sim).gaussian(0, 1)
    with pytest.raises(ValueError, match="unknown preset or key 'abacus' .expected format, "):
        device.create_sim("abacus")
    with pytest.raises(ValueError, match="capacity=much must be"):
        device.create_sim("capacity=much")


def test_a_model_on_a_simulated_machine(dev):
    del dev
    seconds = []
    for use_graph in (False, True):
        sim = device.create_sim("laptop")
        device.set_default_device(sim)
        model = MLP()
        model.optimizer = opt.SGD(lr=0.1, momentum=0.9)
        x = Tensor(data=np.ones((64, 4), np.float32), device=sim, requires_grad=False)
        y = Tensor(data=np.ones(64, np.int32), dtype=tensor.int32, device=sim, requires_grad=False)
        model.compile([x], is_train=True, use_graph=use_graph)
        for _ in range(3):
            begin = device.clock(sim)
            _, loss = model(x, y)
        seconds.append(device.clock(sim) - begin)
        assert not tensor.to_numpy(loss).any()
    assert 0 < seconds[1] <= seconds[0]


def test_no_cuda_and_no_opencl():
    for make in (device.create_cuda_gpu, lambda: device.create_cuda_gpu_on(0),
                 lambda: device.create_cuda_gpu_on(0, set_default=False),
                 lambda: device.create_cuda_gpus(2), lambda: device.create_cuda_gpus_on([0]),
                 lambda: device.get_gpu_mem_size(0), lambda: device.device_query(0, verbose=True),
                 device.create_opencl_device, device.get_num_opencl_devices,
                 device.get_num_opencl_platforms):
        with pytest.raises(AssertionError, match="CUDA|OpenCL"):
            make()
    assert device.get_num_gpus() == 0 and list(device.get_gpu_ids()) == []
    assert singa.Platform.GetNumGPUs() == 0 and list(singa.Platform.GetGPUIDs()) == []
    for name in ("CreateCudaGPUs", "CreateCudaGPUsOn", "DeviceQuery", "GetGPUMemSize"):
        with pytest.raises(errors.DeviceError, match="CUDA"):
            getattr(singa.Platform, name)(1)


def test_lazy_allocation_is_a_switch_to_remember():
    device.enable_lazy_alloc(False)
    assert not singa.Device.lazy_alloc
    singa.Device.EnableLazyAlloc(True)
    assert singa.Device.lazy_alloc


@pytest.mark.parametrize("names", [("EnableGraph", "graph_enabled", "RunGraph"),
                                   ("SetBufferFlag", "GetBufferFlag", "ExecBuffOps"),
                                   ("set_buffer_flag", "get_buffer_flag", "ExecBuffOps")])
def test_recording_under_the_names_of_both_ages(dev, names):
    switch, asked, execute = (getattr(dev, name) for name in names)
    x = tensor.from_numpy(np.zeros(3, np.float32))
    assert not asked()
    switch(True)
    assert asked()
    x += 1.0
    y = x * 2.0
    switch(False)
    assert not asked() and x.numpy().tolist() == [0, 0, 0]
    with pytest.raises(errors.StateError, match="recorded"):
        y.numpy()
    for run in (1, 2, 3):
        execute()
        assert x.numpy().tolist() == [run] * 3 and y.numpy().tolist() == [2 * run] * 3
    dev.Sync()


def test_run_graph_while_recording_restores_the_switch(dev):
    x = tensor.from_numpy(np.zeros(2, np.float32))
    dev.EnableGraph(True)
    x += 1.0
    dev.RunGraph(True)
    assert x.numpy().tolist() == [1, 1]


def test_reset_graph_forgets(dev):
    x = tensor.from_numpy(np.zeros(2, np.float32))
    dev.EnableGraph(True)
    x += 1.0
    dev.EnableGraph(False)
    dev.ResetGraph()
    dev.EnableGraph(True)
    x += 5.0
    dev.EnableGraph(False)
    dev.RunGraph()
    assert x.numpy().tolist() == [5, 5]


def test_reset_stops_recording(dev):
    dev.EnableGraph(True)
    dev.Reset()
    assert not dev.graph_enabled()
    assert (tensor.ones((2,)) + 1).numpy().tolist() == [2, 2]


def test_profile(dev, capfd):
    dev.SetVerbosity(2)
    dev.SetSkipIteration(1)
    x = tensor.from_numpy(np.ones((4, 4), np.float32))
    dev.EnableGraph(True)
    y = x @ x
    dev.EnableGraph(False)
    for _ in range(3):
        dev.RunGraph()
    dev.PrintTimeProfiling()
    assert "matmul" in capfd.readouterr().out
    assert y.numpy()[0, 0] == 4


def test_info_names_the_version(dev):
    import weir
    assert weir.__version__ in dev.info()


def test_memory_counts_what_lives():
    own = device.open_cpu(threads=1, guard=False)
    before = device.memory(own)
    assert set(before) == {"persistent", "live", "live_peak", "pool", "arena", "total"}
    t = Tensor((1024, 256), own).set_value(1)
    assert device.memory(own)["persistent"] - before["persistent"] == 1 << 20
    u = t + t
    assert device.memory(own)["live"] - before["live"] == 2 << 20
    del t, u
    after = device.memory(own)
    assert after["live"] == before["live"] and after["live_peak"] - before["live"] == 2 << 20
    device.reset_peak(own)
    assert device.memory(own)["live_peak"] == after["live"]
    assert device.memory()["total"] > 0


def test_dropped_tensors_leave_nothing():
    """Without the garbage collector: no temporary is part of a reference cycle."""
    own = device.open_cpu(threads=1)
    a = Tensor((64, 64), own).set_value(1)
    before = device.memory(own)["live"]
    gc.disable()
    try:
        for _ in range(50):
            b = (a @ a.T() + 1).reshape((-1,)).sum().clone()
            b += a.mean()
            b = a.T()
            b *= 0.5
    finally:
        gc.enable()
    del b
    assert device.memory(own)["live"] == before


def test_a_temporary_of_a_recording_is_no_output():
    """Only what a script still holds after the recording costs memory outside the arena."""
    own = device.open_cpu(threads=1, guard=False)
    x = Tensor((256, 256), own).set_value(1)

    def persistent(hold):
        own.ResetGraph()
        own.EnableGraph(True)
        y = x
        held = []
        for _ in range(10):
            y = (y @ x).tanh()
            held.append(y if hold else None)
        own.EnableGraph(False)
        own.RunGraph()
        return device.memory(own)["persistent"]
    assert persistent(True) - persistent(False) == 9 * 4 * 256 * 256


def test_error_classes():
    """Each is also the built-in exception that says the same."""
    a, b = tensor.zeros((2, 3)), tensor.zeros((4, 5))
    with pytest.raises(ValueError, match="add"):
        a + b
    with pytest.raises(errors.ShapeError):
        a @ b
    with pytest.raises(TypeError):
        autograd.matmul(a, tensor.zeros((3, 2), dtype=tensor.float16))
    for error, base in [(errors.StateError, RuntimeError), (errors.DtypeError, TypeError),
                        (errors.OutOfMemoryError, MemoryError), (errors.FileError, OSError),
                        (errors.DeviceError, RuntimeError), (errors.InvalidError, ValueError),
                        (errors.NoKernelError, NotImplementedError)]:
        assert issubclass(error, base) and issubclass(error, errors.Error)


# ---- the switch inside a recorded step ----

class Pausing(model.Model):
    """Makes its optimiser's buffers as SINGA's optimisers do: in a pause of the recording."""

    def __init__(self, names):
        super().__init__()
        self.enable, self.enabled = names
        self.linear = layer.Linear(2)
        self.buffers, self.steps = {}, 0

    def forward(self, x):
        return self.linear(x)

    def paused(self, dev, make):
        flag = getattr(dev, self.enabled)()
        getattr(dev, self.enable)(False)
        made = make()
        assert not getattr(dev, self.enabled)()
        getattr(dev, self.enable)(flag)
        assert getattr(dev, self.enabled)() == flag
        return made

    def train_one_batch(self, x, y):
        self.steps += 1
        out = self.forward(x)
        loss = autograd.mse_loss(out, y)
        for p, g in autograd.backward(loss):
            if p.name not in self.buffers:
                def make(p=p):
                    buffer = tensor.Tensor(p.shape, p.device).set_value(0.5)
                    assert (tensor.to_numpy(buffer + 1.0) == 1.5).all()      # computed at once
                    return buffer
                self.buffers[p.name] = self.paused(x.device, make)
            buffer = self.buffers[p.name]
            buffer *= 0.5
            buffer += g
            tensor.axpy(-0.1, buffer, p)
        return out, loss


@pytest.mark.parametrize("names", [("EnableGraph", "graph_enabled"),
                                   ("SetBufferFlag", "GetBufferFlag")])
def test_a_pause_in_a_step(names):
    x = tensor.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3) / 6)
    y = tensor.from_numpy(np.ones((2, 2), np.float32))
    losses = []
    for use_graph in (False, True):
        x.device.SetRandSeed(1)
        net = Pausing(names)
        net.compile([x], is_train=True, use_graph=use_graph)
        losses.append([net(x, y)[1].item() for _ in range(4)])
        assert not x.device.graph_enabled()
        assert net.steps == (1 if use_graph else 4)
    assert losses[0] == losses[1] and losses[0][3] < losses[0][0]
    autograd.training = False


def test_a_pause_without_an_end():
    dev = device.get_default_device()
    x = weir.ones((2,))
    graph = dev.graph()
    with pytest.raises(StateError, match="the recorded step ended in a pause: EnableGraph.False."):
        with graph:
            x + 1
            dev.EnableGraph(False)
    assert not dev.graph_enabled() and (x + 1).tolist() == [2, 2]
    with dev.graph() as again:
        y = x + 1
    again.run()
    assert y.tolist() == [2, 2]


def test_on_inside_of_what_computes_at_once():
    dev = device.get_default_device()
    with dev.graph() as graph:
        y = weir.ones((2,)) + 1
        with dev.at_once():
            dev.EnableGraph(dev.graph_enabled())        # off is off
            with pytest.raises(StateError, match="what runs here is computed at once"):
                dev.EnableGraph(True)
        y += 1
    graph.run()
    assert y.tolist() == [3, 3]


def test_a_graph_in_the_pause_of_another():
    dev = device.get_default_device()
    x = weir.ones((2,))
    with dev.graph() as outer:
        y = x + 1
        dev.EnableGraph(False)
        with dev.graph() as inner:
            z = x + 10
        inner.run()
        assert z.tolist() == [11, 11]
        dev.EnableGraph(True)
        y = y + 1
        with pytest.raises(StateError, match="recorded"):
            y.numpy()
        with pytest.raises(StateError, match="another graph is being recorded"):
            dev.RunGraph()
    outer.run()
    assert y.tolist() == [3, 3]

"""ranks - one rank of a test: ranks.py CASE NAME RANK WORLD. Prints what it found as JSON, last."""
import contextlib
import errno
import gc
import glob
import json
import os
import sys
import tempfile

import numpy as np

import weir
from weir import autograd, core, layer, model, opt, singa_wrap, tensor
from weir.comm import Communicator

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def spec(name, rank, world):
    return f"local:{name},rank={rank},world={world}"


def array_of(rank, shape=(4, 3)):
    return (np.arange(np.prod(shape)).reshape(shape) * (rank + 1) + rank).astype(np.float32)


def sentence(kind, function):
    """The sentence of the exception that the call must raise."""
    try:
        function()
    except kind as error:
        return str(error)
    raise AssertionError(f"no {kind}")


# ---- collectives ----

@case
def values(name, rank, world):
    """Results and gradients of each collective, graph off and on."""
    found = {}
    with Communicator(spec(name, rank, world)) as comm:
        assert (comm.rank, comm.world) == (rank, world) and f"rank {rank} of {world}" in repr(comm)
        calls = {"all_reduce": comm.all_reduce, "reduce_scatter": comm.reduce_scatter,
                 "all_gather": comm.all_gather, "broadcast": lambda x: comm.broadcast(x, 1)}
        for what, call in calls.items():
            for graph in (False, True):
                x = tensor.from_numpy(array_of(rank))
                x.requires_grad = x.stores_grad = True
                step = weir.Graph(core.cpu()) if graph else contextlib.nullcontext()
                with autograd_on(), step:
                    y = call(x)
                    weights = tensor.from_numpy(array_of(rank, y.shape) / 8)
                    loss = autograd.reduce_sum(y * weights)
                    (_, dx), = autograd.backward(loss)
                if graph:
                    step.run()
                found[f"{what} {graph}"] = [y.numpy().tolist(), dx.numpy().tolist()]
        found["equal"] = [comm.equal(b"same"), comm.equal(bytes([rank]))]
        found["stats"] = comm.stats
        constant, per_byte = comm.measure()
        found["measured"] = constant > 0 and per_byte >= 0
    return found


@contextlib.contextmanager
def autograd_on():
    autograd.training = True
    try:
        yield
    finally:
        autograd.training = False


@case
def messages(name, rank, world):
    """Rank 0 sends to rank 1, and gets the gradient back."""
    comm = Communicator(spec(name, rank, world))
    with autograd_on():
        if rank == 0:
            x = tensor.from_numpy(array_of(0))
            x.requires_grad = x.stores_grad = True
            (_, dx), = autograd.backward(comm.send(x, 1))
            return dx.numpy().tolist()
        through = tensor.from_numpy(np.zeros(1, np.float32))
        through.requires_grad = through.stores_grad = True
        y = comm.receive((4, 3), 0, through=through)
        for _, gradient in autograd.backward(autograd.reduce_sum(autograd.mul(y, y))):
            gradient.numpy()
        return y.numpy().tolist()


@case
def sharing(name, rank, world):
    """Models become equal; what is on no rank's device, and numbers that are no rank."""
    core.cpu().SetRandSeed(rank)
    comm = Communicator(spec(name, rank, world), timeout=30.0, order="tree")
    net = Net()
    net.compile([tensor.zeros((2, 6))], is_train=True)
    before = digest(net)
    comm.share(net, root=1)
    found = {"before": before, "after": digest(net),
             "equal": all(comm.equal_elements(t) for t in net.get_states().values())}
    other = tensor.Tensor((2, 2), device=weir.device.open_cpu(threads=1))
    found["device"] = sentence(weir.DeviceError, lambda: comm.all_reduce(other))
    found["root"] = sentence(weir.InvalidError, lambda: comm.broadcast(tensor.zeros((2,)), 9))
    found["rows"] = sentence(weir.ShapeError, lambda: comm.reduce_scatter(tensor.zeros((3, 2))))
    return found


@case
def leaving(name, rank, world):
    """Who has left cannot go on, in a graph neither; who waits for it learns it. A graph keeps its
    communicator."""
    x = tensor.from_numpy(array_of(rank))
    dropped = Communicator(spec(name + "-dropped", rank, world), timeout=30.0)
    with weir.Graph(core.cpu()) as step:
        y = dropped.all_reduce(x)
    del dropped
    gc.collect()
    step.run()
    assert y.numpy().tolist() == (array_of(0) + array_of(1)).tolist()
    comm = Communicator(spec(name, rank, world), timeout=30.0)
    with weir.Graph(core.cpu()) as step:
        y = comm.all_reduce(x)
    step.run()
    if rank == 1:
        comm.close()
        comm.close()
    found = [sentence(weir.CommError, step.run),
             sentence(weir.CommError, lambda: comm.all_reduce(x)),
             sentence(weir.CommError, lambda: comm.equal(b"x"))]
    del y
    return found


@case
def agreement(name, rank, world):
    """Ranks that record other graphs learn it when recording ends, unless they may."""
    found = []
    for agree in ("graphs", "collectives"):
        comm = Communicator(spec(f"{name}-{agree}", rank, world), agree=agree)
        x = tensor.from_numpy(array_of(rank))
        step = weir.Graph(core.cpu())

        def record():
            with step:
                return comm.all_reduce(x * (2.0 + rank))
        if agree == "graphs":
            found.append(sentence(weir.CommError, record))
        else:
            y = record()
            step.run()
            found.append(y.numpy().tolist())
    found.append([b.decode() for b in comm.gather(f"rank {rank}".encode())])
    return found


# ---- DistOpt ----

class Net(model.Model):
    def __init__(self):
        super().__init__()
        self.first, self.act, self.last = layer.Linear(16), layer.ReLU(), layer.Linear(4)

    def forward(self, x):
        return self.last(self.act(self.first(x)))

    def train_one_batch(self, x, y):
        out = self.forward(x)
        loss = autograd.softmax_cross_entropy(out, y)
        self.how(self.optimizer, loss)
        return out, loss


def digest(net):
    return [p.numpy().tolist() for _, p in sorted(net.get_params().items())]


def batch(part):
    random = np.random.RandomState(part)
    return (random.randn(4, 6).astype(np.float32), random.randint(0, 4, 4).astype(np.int32))


class Normed(Net):
    """A batch norm that is called twice, and one in a function that is computed again."""

    def __init__(self):
        super().__init__()
        self.norm, self.again = layer.BatchNorm2d(momentum=0.3), layer.BatchNorm2d(momentum=0.2)

    def forward(self, x):
        hidden = self.norm(self.norm(self.first(x)))
        return self.last(weir.checkpoint(lambda t: self.act(self.again(t)), hidden))


STEPS = {
    "plain": lambda o, loss: o(loss),
    "joined": lambda o, loss: o.backward_and_update(loss, threshold=20),
    "half": lambda o, loss: o.backward_and_update_half(loss, clipping=True, clip_Value=0.05),
    "sparse": lambda o, loss: o.backward_and_sparse_update(loss, threshold=30, spars=0.01),
    "topk": lambda o, loss: o.backward_and_sparse_update(loss, spars=0.2, topK=True),
    "all": lambda o, loss: o.backward_and_sparse_update(loss, spars=1.0, topK=True, corr=False),
    "partial": lambda o, loss: o.backward_and_partial_update(loss, threshold=20),
}
OPTIMISERS = {
    "sgd": lambda: opt.SGD(0.2, momentum=0.9),
    "clip": lambda: opt.Adam(0.05, clip_norm=0.1),
    "scaler": lambda: opt.SGD(0.2, scaler=opt.LossScaler(scale=64.0)),
}


def trained(how, optimiser, holder, rank, world, graph):
    core.cpu().SetRandSeed(3)
    net = Net()
    net.how = STEPS[how]
    net.optimizer = opt.DistOpt(OPTIMISERS[optimiser](), holder, rank, world)
    x, y = (tensor.from_numpy(a) for a in batch(rank))
    net.compile([x], is_train=True, use_graph=graph)
    for _ in range(3):
        net(x, y)
    net.optimizer.communicator.ranks.close()
    return digest(net)


@case
def training(name, rank, world):
    holder = singa_wrap.NcclIdHolder()
    found = {}
    ways = [(how, "sgd") for how in STEPS] + [("plain", "clip"), ("plain", "scaler")]
    for how, optimiser in ways:
        for graph in (False, True):
            if how == "partial" and graph:
                continue
            holder.name = f"{name}-{how}-{optimiser}-{graph}"
            found[f"{how} {optimiser} {graph}"] = trained(how, optimiser, holder, rank, world,
                                                          graph)
    return found


def normed(holder, rank, world, graph=True, how="plain", part=None):
    core.cpu().SetRandSeed(3)
    net = Normed()
    net.how = STEPS[how]
    net.optimizer = opt.DistOpt(opt.SGD(0.2, momentum=0.9), holder, rank, world)
    x, y = (tensor.from_numpy(a) for a in batch(rank if part is None else part))
    net.compile([x], is_train=True, use_graph=graph)
    return net, x, y


def running(net):
    return {name: t.numpy().tolist() for name, t in sorted(net.get_states().items())
            if "running" in name}


@case
def statistics(name, rank, world):
    """Running statistics of batch norm after steps, graph off and on; in a loop without a model;
    in a checkpoint of all ranks."""
    holder = singa_wrap.NcclIdHolder()
    found = {}
    for how in ("plain", "half", "partial"):
        for graph in (False, True)[:1 if how == "partial" else 2]:
            holder.name = f"{name}-{how}-{graph}"
            net, x, y = normed(holder, rank, world, graph, how)
            for _ in range(3):
                net(x, y)
            found[f"{how} {graph}"] = running(net)
            net.optimizer.communicator.ranks.close()
    found["first"], found["batches"] = first_step(holder, name, rank, world)
    found["loop"] = own_loop(holder, name, rank, world)
    path = os.path.join(tempfile.gettempdir(), name)
    net, x, y = trained_and_saved(holder, name, rank, world, path)
    comm = net.optimizer.communicator.ranks
    net(x, y)
    found["whole"] = [running(net), digest(net)]
    comm.close()
    holder.name = name + "-resumed"
    net, x, y = normed(holder, rank, world)
    comm = net.optimizer.communicator.ranks
    net.load_run(path, comm=comm)
    net(x, y)
    found["resumed"] = [running(net), digest(net)]
    comm.equal(b"")
    return found


def first_step(holder, name, rank, world):
    """The running mean of `again` after one step, and its mean of each rank's batch."""
    holder.name = name + "-first"
    net, x, y = normed(holder, rank, world)
    net(x, y)
    found = net.again.running_mean.numpy().tolist()
    means = []
    for part in range(world):
        holder.name = f"{name}-alone-{rank}-{part}"
        alone, x, y = normed(holder, None, 1, False, part=part)
        alone(x, y)
        means.append((alone.again.running_mean.numpy() / 0.2).tolist())
    return found, means


def own_loop(holder, name, rank, world):
    """Layers and DistOpt alone, first without the scope that gathers, then within it; a failure in
    it leaves nothing behind."""
    holder.name = name + "-loop"
    core.cpu().SetRandSeed(3)
    dist = opt.DistOpt(opt.SGD(0.1), holder, rank, world)
    first, norm = layer.Linear(4), layer.BatchNorm2d(momentum=0.5)
    x, y = (tensor.from_numpy(a) for a in batch(rank))
    found = []
    for gathers in (False, True):
        with autograd_on():
            if gathers:
                dist.share([norm.running_mean, norm.running_var])
                assert sentence(ValueError, lambda: failing(dist, norm, first(x))) == "on purpose"
            with dist.batch_statistics() if gathers else contextlib.nullcontext():
                dist(autograd.softmax_cross_entropy(norm(first(x)), y))
        found.append(norm.running_mean.numpy().tolist())
    dist.communicator.ranks.close()
    return found


def failing(dist, norm, x):
    with dist.batch_statistics():
        norm(x)
        raise ValueError("on purpose")


def trained_and_saved(holder, name, rank, world, path):
    holder.name = name + "-saved"
    net, x, y = normed(holder, rank, world)
    for _ in range(2):
        net(x, y)
    net.save_run(path, comm=net.optimizer.communicator.ranks)
    return net, x, y


@case
def checkpoints(name, rank, world):
    """A run that all ranks have saved goes on with the same bits; a full disk leaves it alone."""
    path = os.path.join(tempfile.gettempdir(), name)
    holder = singa_wrap.NcclIdHolder()
    holder.name = name
    x, y = (tensor.from_numpy(a) for a in batch(rank))

    def ready(seed):
        core.cpu().SetRandSeed(seed)
        net = Net()
        net.how = STEPS["plain"]
        net.optimizer = opt.DistOpt(opt.Adam(0.05), holder, rank, world)
        net.compile([x], is_train=True, use_graph=True)
        return net, net.optimizer.communicator.ranks
    net, comm = ready(3)
    seen = tensor.from_numpy(np.full(2, rank, np.float32))
    for _ in range(2):
        net(x, y)
    net.save_run(path, tensors={"seen": seen}, comm=comm)
    files = sorted(os.path.basename(p)[len(name):] for p in glob.glob(path + "*"))
    for _ in range(2):
        net(x, y)
    found = {"path": path, "files": files, "whole": digest(net)}
    fsync, os.fsync = os.fsync, full_disk if rank == 1 else os.fsync
    found["full"] = sentence((OSError, weir.FileError),
                             lambda: net.save_run(path, tensors={"seen": seen}, comm=comm))
    os.fsync = fsync
    comm.equal(b"")
    comm.close()
    holder.name += "-2"
    net, comm = ready(4)
    seen = tensor.from_numpy(np.full(2, 9, np.float32))
    found["step"] = net.load_run(path, tensors={"seen": seen}, comm=comm)
    for _ in range(2):
        net(x, y)
    found["resumed"] = digest(net)
    found["seen"] = seen.numpy().tolist()
    alone = weir.load_safetensors(path + ".1.0.part")
    found["parts"] = len(alone)
    return found


def full_disk(handle):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@case
def raw(name, rank, world):
    """SINGA's methods on raw tensors, in place."""
    holder = singa_wrap.NcclIdHolder()
    holder.name = name
    dist = opt.DistOpt(opt.SGD(1.0), holder, rank, world)
    found = {}

    def two():
        return [tensor.from_numpy(array_of(rank)), tensor.from_numpy(array_of(rank, (5,)))]
    for what in ("all_reduce", "all_reduce_half"):
        t = two()[0]
        getattr(dist, what)(t.data)
        found[what] = t.numpy().tolist()
    for what in ("fused_all_reduce", "fused_all_reduce_half"):
        ts = two()
        getattr(dist, what)([t.data for t in ts], send=False)
        assert ts[0].numpy().tolist() == array_of(rank).tolist()
        getattr(dist, what)([t.data for t in ts])
        found[what] = [t.numpy().tolist() for t in ts]
    t, rest = two()[1], tensor.zeros((5,))
    dist.sparsification(t.data, rest.data, spars=5.0)
    found["sparse"] = [t.numpy().tolist(), rest.numpy().tolist()]
    t, rest = two()[1], tensor.zeros((5,))
    dist.sparsification(t.data, rest.data, spars=0.4, topK=True)
    found["topk"] = [t.numpy().tolist(), rest.numpy().tolist()]
    dist.wait()
    p, g = tensor.from_numpy(array_of(0)), tensor.from_numpy(array_of(rank))
    p.requires_grad = p.stores_grad = True
    dist.all_reduce(g.data)
    dist.update(p, g)
    found["update"] = p.numpy().tolist()
    return found


@case
def mistakes(name, rank, world):
    holder = singa_wrap.NcclIdHolder()
    found = {"no holder": sentence(weir.InvalidError,
                                   lambda: opt.DistOpt(opt.SGD(), None, rank, world)),
             "no rank": sentence(weir.InvalidError,
                                 lambda: opt.DistOpt(opt.SGD(), holder, 7, world))}
    core.cpu().SetRandSeed(rank)
    holder.name = name
    net = Net()
    net.how = STEPS["plain"]
    net.optimizer = opt.DistOpt(opt.SGD(), holder, rank, world)
    x, y = (tensor.from_numpy(a) for a in batch(rank))
    net.compile([x], is_train=True)
    found["seeds"] = sentence(weir.StateError, lambda: net(x, y))
    net.optimizer.share(net)
    net(x, y)
    net.graph(True)
    net.how = STEPS["partial"]
    found["partial"] = sentence(weir.StateError, lambda: net(x, y))
    return found


if __name__ == "__main__":
    which, meeting, number, of = sys.argv[1:]
    print(json.dumps(CASES[which](meeting, int(number), int(of))))

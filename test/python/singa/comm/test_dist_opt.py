"""test_dist_opt - SINGA's DistOpt over processes: bits, means, what is sent, mistakes."""
import numpy as np
import pytest

from processes import arrays, ranks
from ranks import OPTIMISERS, STEPS, Net, batch, digest
from weir import autograd, core, device, opt, singa_wrap, tensor


@pytest.fixture(scope="module")
def found():
    return ranks("training")


WAYS = [("plain", "sgd"), ("joined", "sgd"), ("half", "sgd"), ("sparse", "sgd"), ("topk", "sgd"),
        ("all", "sgd"), ("plain", "clip"), ("plain", "scaler")]


@pytest.mark.parametrize("how,optimiser", WAYS)
def test_ranks_and_graph_agree(found, how, optimiser):
    """All ranks have the same bits, and the graph on those of the graph off."""
    sets = [one[f"{how} {optimiser} {graph}"] for one in found for graph in (False, True)]
    assert all(values == sets[0] for values in sets)


def alone(optimiser, how=lambda o, loss: o(loss)):
    """One process on the batches of both ranks, whose mean gradient is that of the whole."""
    core.cpu().SetRandSeed(3)
    net = Net()
    net.how = how
    net.optimizer = optimiser
    x, y = (tensor.from_numpy(np.concatenate(parts)) for parts in zip(batch(0), batch(1)))
    net.compile([x], is_train=True)
    for _ in range(3):
        net(x, y)
    autograd.training = False
    return digest(net)


@pytest.mark.parametrize("how,optimiser", [w for w in WAYS if w[0] in ("plain", "joined", "all")])
def test_means(found, how, optimiser):
    for got, want in zip(found[0][f"{how} {optimiser} True"], alone(OPTIMISERS[optimiser]())):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_joining_changes_no_bit(found):
    assert found[0]["plain sgd True"] == found[0]["joined sgd True"]


def test_what_is_left_out_counts(found):
    """Limited, rounded and sparse gradients are others than the whole ones."""
    plain = found[0]["plain sgd False"]
    assert all(found[0][f"{how} sgd False"] != plain for how in ("half", "sparse", "topk"))


@pytest.mark.parametrize("clipping", [True, False])
def test_half_of_one_process(clipping):
    """Nothing is rounded; the limit is that of the optimiser, whose own stays as it is."""
    def half(o, loss):
        o.backward_and_update_half(loss, clipping=clipping, clip_Value=0.05)
    own = opt.SGD(0.2, momentum=0.9, clip_value=0.1)
    limit = 0.05 if clipping else 0.1
    assert alone(opt.DistOpt(own), half) == alone(opt.SGD(0.2, momentum=0.9, clip_value=limit))
    assert own.clip_value == 0.1
    assert alone(own) != alone(opt.SGD(0.2, momentum=0.9))


def test_partial_updates(found):
    """After each step one part is the mean of all ranks; the others are each rank's own."""
    mine, other = (one["partial sgd False"] for one in found)
    same = [a == b for a, b in zip(mine, other)]
    assert any(same) and not all(same)


def test_running_statistics():
    """Those of batch norm are the same on all ranks, graph off and on: the batches of all ranks,
    in their order."""
    found = ranks("statistics")
    for key in ("plain False", "plain True", "half False", "half True", "partial False", "whole"):
        assert found[0][key] == found[1][key], key
    for how in ("plain", "half"):
        assert found[0][f"{how} False"] == found[0][f"{how} True"]
    assert found[0]["whole"] == found[0]["resumed"] == found[1]["resumed"]
    want = np.zeros(16, np.float32)
    for mean in found[0]["batches"]:
        want += np.float32(0.2) * (np.array(mean, np.float32) - want)
    np.testing.assert_allclose(found[0]["first"], want, rtol=1e-4, atol=1e-6)
    assert found[0]["batches"][0] != found[0]["batches"][1]
    (own, gathered), (other, same) = (one["loop"] for one in found)
    assert own != other and gathered == same


def test_a_simulated_world():
    """Rank 0 of 8, which computes nothing: DistOpt joins the world of the default device."""
    sim = device.create_sim("p100,world=8,node=4,wire=3.1e9,alpha=20e-6")
    device.set_default_device(sim)
    try:
        net = Net()
        net.how = STEPS["plain"]
        net.optimizer = opt.DistOpt(opt.SGD(0.1))
        assert (net.optimizer.global_rank, net.optimizer.world_size) == (0, 8)
        x, y = (tensor.from_numpy(part) for part in batch(0))
        net.compile([x], is_train=True)
        comm = net.optimizer.communicator.ranks
        net(x, y)
        before, began = comm.stats, device.clock(sim)
        net(x, y)
        spent = {name: value - before[name] for name, value in comm.stats.items()}
        assert spent["collectives"] >= 1 and spent["bytes"] >= 180 * 4
        assert 0 < spent["waited_ms"] <= spent["wire_ms"] < 1e3 * (device.clock(sim) - began)
    finally:
        autograd.training = False
        device.set_default_device(None)


def test_raw_tensors():
    for rank, one in enumerate(ranks("raw")):
        total, line = sum(arrays(2)), sum(arrays(2, (5,)))
        assert one["all_reduce"] == one["all_reduce_half"] == total.tolist()
        assert one["fused_all_reduce"] == one["fused_all_reduce_half"] == [total.tolist(),
                                                                           line.tolist()]
        own = arrays(2, (5,))
        large = [np.where(a >= 5, a, 0) for a in own]
        assert one["sparse"] == [sum(large).tolist(), (own[rank] - large[rank]).tolist()]
        first = [np.where(np.arange(5) >= 3, a, 0) for a in own]       # they grow
        assert one["topk"] == [sum(first).tolist(), (own[rank] - first[rank]).tolist()]
        assert one["update"] == (arrays(1)[0] - total / 2).tolist()


def test_mistakes():
    for one in ranks("mistakes"):
        assert "needs the NcclIdHolder" in one["no holder"]
        assert "local_rank 7 is no rank in a world of 2" in one["no rank"]
        assert "differs between ranks" in one["seeds"] and "share(model)" in one["seeds"]
        assert "train with the graph off" in one["partial"]


def test_names_of_singa():
    comm = singa_wrap.Communicator(4)
    assert (comm.global_rank, comm.world_size, comm.local_rank) == (0, 1, 0)
    assert opt.DistOpt(opt.SGD(), singa_wrap.NcclIdHolder(), 0, 1).world_size == 1
    assert singa_wrap.USE_DIST == 1

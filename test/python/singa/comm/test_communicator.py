"""test_communicator - processes of one machine: values, gradients, equal models, ranks that leave.
"""
import numpy as np
import pytest

import weir
from processes import arrays, ranks
from weir import tensor
from weir.comm import Communicator


def test_values_and_gradients():
    world = 2
    found = ranks("values", world)
    x = arrays(world)
    total = sum(x)
    for graph in (False, True):
        for r in range(world):
            for what, y in {"all_reduce": total, "all_gather": np.concatenate(x),
                            "broadcast": x[1], "reduce_scatter": np.split(total, world)[r]}.items():
                got, dx = found[r][f"{what} {graph}"]
                np.testing.assert_array_equal(got, y)
                w = [a / 8 for a in arrays(world, y.shape)]
                want = {"all_reduce": sum(w), "broadcast": sum(w) if r == 1 else 0 * w[0],
                        "all_gather": np.split(sum(w), world)[r],
                        "reduce_scatter": np.concatenate(w)}[what]
                np.testing.assert_array_equal(dx, want)
    assert all(one["equal"] == [True, False] and one["measured"] for one in found)
    assert all(sorted(one["stats"]) == ["bytes", "collectives", "waited_ms", "wire_ms"] and
               all(value > 0 for value in one["stats"].values()) for one in found)
    assert found[0]["stats"]["bytes"] == found[1]["stats"]["bytes"] > 0


def test_messages():
    dx, y = ranks("messages")
    np.testing.assert_array_equal(y, arrays(1)[0])
    np.testing.assert_array_equal(dx, 2 * arrays(1)[0])


def test_sharing():
    found = ranks("sharing")
    assert found[0]["before"] != found[1]["before"]
    assert found[0]["after"] == found[1]["after"] == found[1]["before"]
    assert all(one["equal"] for one in found)
    assert all("9 is no rank in a world of 2" in one["root"] and "3" in one["rows"]
               and "not on the communicator's device" in one["device"] for one in found)


def test_leaving():
    stayed, left = ranks("leaving")
    assert all("rank 1 has left its communicator" in text for text in left)
    assert all("rank 1" in text or "earlier" in text for text in stayed), stayed


def test_agreement():
    x = arrays(2)
    for refused, value, texts in ranks("agreement"):
        assert "ranks have recorded different graphs" in refused
        np.testing.assert_array_equal(value, x[0] * 2 + x[1] * 3)
        assert texts == ["rank 0", "rank 1"]


def test_a_world_of_one():
    with Communicator() as comm:
        x = tensor.from_numpy(arrays(1)[0])
        assert (comm.rank, comm.world) == (0, 1) and comm.all_reduce(x) is x
        assert comm.all_gather(x) is x and comm.broadcast(x) is x and comm.reduce_scatter(x) is x
        assert comm.equal(b"x") and comm.gather(b"x") == [b"x"] and comm.measure() == (0.0, 0.0)
        comm.share(x)
        with pytest.raises(weir.InvalidError, match="rank 0 is this one"):
            comm.send(x, 0)


def test_specs():
    with pytest.raises(weir.InvalidError, match="expected auto, local"):
        Communicator("nonsense")
    with pytest.raises(weir.InvalidError, match="serial, tree or engine"):
        Communicator(order="fast")
    with pytest.raises(weir.InvalidError, match="timeout"):
        Communicator(timeout=-1.0)

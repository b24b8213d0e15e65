"""test_checkpoints - runs that all ranks save together: bits, a full disk, damaged files."""
import glob
import os

import numpy as np
import pytest

import weir
from processes import ranks
from ranks import STEPS, Net, batch, digest
from weir import core, layer, model, opt, tensor

HERE = os.path.dirname(os.path.abspath(__file__))


@pytest.fixture(scope="module")
def found():
    both = ranks("checkpoints")
    yield both
    for path in glob.glob(both[0]["path"] + "*"):
        os.unlink(path)


def test_ranks_go_on(found):
    assert [one["step"] for one in found] == [2, 2]
    assert all(one["resumed"] == found[0]["whole"] for one in found)
    assert [one["seen"] for one in found] == [[0, 0], [1, 1]]       # each rank has its own again
    assert found[0]["files"] == ["", ".1.0.part", ".1.1.part"]
    assert 0 < found[0]["parts"] < len(found[0]["whole"]) * 3 + 3


def test_a_full_disk_is_a_failure_of_all_ranks(found):
    assert "No space left on device" in found[1]["full"]
    assert "save_run: rank 1 has failed: " in found[0]["full"]
    assert "No space left on device" in found[0]["full"]


def alone():
    net = Net()
    net.how = STEPS["plain"]
    net.optimizer = opt.Adam(0.05)
    net.compile([tensor.from_numpy(batch(0)[0])], is_train=True)
    return net


def test_one_process_goes_on(found):
    """With rank 0's tensors where ranks differ."""
    core.cpu().SetRandSeed(8)
    net, seen = alone(), tensor.from_numpy(np.full(2, 9, np.float32))
    assert net.load_run(found[0]["path"], tensors={"seen": seen}) == 2
    assert seen.numpy().tolist() == [0, 0]
    again = alone()
    again.load(found[0]["path"])
    assert digest(again) == digest(net)


class Normed(model.Model):
    def __init__(self):
        super().__init__()
        self.fc1, self.bn, self.fc2 = layer.Linear(8), layer.BatchNorm2d(), layer.Linear(3)
        self.optimizer = opt.Adam(0.5)
        self.compile([tensor.zeros((4, 6))], is_train=True)

    def forward(self, x):
        return self.fc2(self.bn(self.fc1(x)))


def test_checkpoints_of_c_and_python_are_one_format():
    """Python's was written by two ranks that had read that of C."""
    nets = {}
    for language in ("c", "python"):
        path = os.path.join(HERE, "..", "..", "..", "data", f"ranks-{language}.safetensors")
        nets[language] = Normed()
        assert nets[language].load_run(path) == 3
        assert len(weir.load_safetensors(path + ".1.0.part")) > 5
    assert digest(nets["c"]) == digest(nets["python"]) != digest(Normed())
    states = [net.optimizer.get_states() for net in nets.values()]
    for moment in ("m", "v"):
        one, other = states[0][moment], states[1][moment]
        assert one.keys() == other.keys() and len(one) == 6
        assert all(one[name].numpy().tolist() == other[name].numpy().tolist() for name in one)
    statistics = [net.bn.running_mean.numpy() for net in nets.values()]
    assert np.array_equal(*statistics) and statistics[0].any()


@pytest.mark.parametrize("part,old,new,text", [
    (".1.1.part", b'"dtype"', b'"dtypo"', "has the checksum"),
    (".1.0.part", b"", b"more", "another size"),
    ("", b'"weir_ranks":"2"', b'"weir_ranks":"0"', "of 0 ranks"),
    ("", b'"weir_ranks":"2"', b'"weir_ranks":"7"', "no name of a part"),
    ("", b'.1.1.part"', b'.1/1.part"', "no name of a part"),
    ("", b'.1.1.part"', b'.1.2.part"', "cannot be opened")])
def test_damaged_checkpoints_are_refused(found, part, old, new, text):
    path = found[0]["path"]
    with open(path + part, "rb") as f:
        whole = f.read()
    assert old in whole
    try:
        with open(path + part, "wb") as f:
            f.write(whole.replace(old, new, 1))
        with pytest.raises(weir.FileError, match=text):
            alone().load_run(path, tensors={"seen": tensor.zeros((2,))})
    finally:
        with open(path + part, "wb") as f:
            f.write(whole)

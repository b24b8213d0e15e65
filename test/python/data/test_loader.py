"""test_loader - batches of weir.data.DataLoader: order, rest, workers, resuming, mistakes."""
import threading

import numpy as np
import pytest

import weir
from weir import transforms
from weir.data import DataLoader, to_tensors

X = np.arange(40, dtype=np.float32).reshape(10, 1, 2, 2)
Y = np.arange(10, dtype=np.int32)
AUGMENT = (transforms.RandomCrop(2, padding=1), transforms.RandomHorizontalFlip())


class Squares:
    """A data set as PyTorch has them."""

    def __init__(self, n=10):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        if not 0 <= i < self.n:
            raise IndexError(i)
        return np.full((1, 2, 2), i, np.float32), i


def labels(loader):
    return [batch[1].tolist() for batch in loader]


def bits(batches):
    return [tuple(part.tobytes() for part in batch) for batch in batches]


def test_rest_batch():
    assert labels(DataLoader((X, Y), 4)) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert labels(DataLoader((X, Y), 4, drop_last=True)) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert [len(DataLoader(X, n)) for n in (1, 3, 5, 10, 99)] == [10, 4, 2, 1, 1]
    assert [len(DataLoader(X, n, drop_last=True)) for n in (1, 3, 5, 10)] == [10, 3, 2, 1]
    assert [b[0].shape for b in DataLoader(X, 8)] == [(8, 1, 2, 2), (2, 1, 2, 2)]


def test_shuffling_has_all_samples_and_its_own_order_in_each_epoch():
    loader, twin = (DataLoader((X, Y), 3, shuffle=True, seed=5) for _ in range(2))
    epochs = [sum(labels(loader), []) for _ in range(3)]
    assert all(sorted(order) == list(range(10)) for order in epochs)
    assert len(set(map(tuple, epochs))) == 3 and loader.epoch == 3
    assert epochs == [sum(labels(twin), []) for _ in range(3)]
    other = DataLoader((X, Y), 3, shuffle=True, seed=6)
    assert sum(labels(other), []) != epochs[0]


@pytest.mark.parametrize("data", [(X, Y), Squares(), list(zip(X, Y))])
def test_workers_change_no_bit(data):
    def run(workers):
        loader = DataLoader(data, 3, shuffle=True, workers=workers, transforms=AUGMENT, seed=1)
        return bits([*loader, *loader])
    assert run(0) == run(1) == run(3)


def test_augmentation_differs_by_epoch_and_seed():
    def run(seed):
        loader = DataLoader((X, Y), 10, transforms=AUGMENT, seed=seed)
        return bits([*loader, *loader])
    first, second = run(0)
    assert first[0] != second[0] and first[1] == second[1]
    assert run(1)[0][0] != first[0] and run(0) == [first, second]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("done", [0, 1, 3, 4, 6])
def test_resumes_with_equal_bits(workers, done):
    def make():
        return DataLoader((X, Y), 3, shuffle=True, workers=workers, transforms=AUGMENT, seed=2)

    def steps(loader, n):
        got = []
        while len(got) < n:
            for batch in loader:
                got.append(batch)
                if len(got) == n:
                    break
        return got, loader.state_dict()

    whole = bits(steps(make(), 9)[0])
    state = steps(make(), done)[1]
    resumed = make()
    resumed.load_state_dict(state)
    assert bits(steps(resumed, 9 - done)[0]) == whole[done:]


def test_an_epoch_that_was_left_is_not_gone_on_with():
    loader = DataLoader((X, Y), 4)
    next(iter(loader))
    assert loader.state_dict()["batch"] == 1
    assert labels(loader)[0] == [0, 1, 2, 3] and loader.epoch == 2


def test_a_state_of_another_loader():
    state = DataLoader((X, Y), 4, seed=1).state_dict()
    with pytest.raises(weir.InvalidError, match="the state has seed 1, this loader 2"):
        DataLoader((X, Y), 4, seed=2).load_state_dict(state)
    with pytest.raises(weir.InvalidError, match="batch 3, but an epoch has 3 batches"):
        DataLoader((X, Y), 4, seed=1).load_state_dict(state | {"batch": 3})
    with pytest.raises(weir.InvalidError, match="the state has seed None"):
        DataLoader((X, Y), 4).load_state_dict({})


class Counted(Squares):
    """Fails at one index, and counts what was read."""

    def __init__(self, bad=None):
        super().__init__(1000)
        self.bad, self.read, self.lock = bad, 0, threading.Lock()

    def __getitem__(self, i):
        with self.lock:
            self.read += 1
        if i == self.bad:
            raise RuntimeError(f"sample {i} is broken")
        return super().__getitem__(i)


def threads():
    return [t for t in threading.enumerate() if t.name.startswith("weir-data")]


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_comes_in_its_place(workers):
    got = []
    with pytest.raises(RuntimeError, match="sample 9 is broken"):
        for batch in DataLoader(Counted(bad=9), 4, workers=workers):
            got.append(batch)
    assert len(got) == 2 and not threads()


def test_the_queue_is_bounded_and_threads_end():
    data = Counted()
    batches = iter(DataLoader(data, 1, workers=2, prefetch=3))
    next(batches)
    assert data.read <= 6
    batches.close()
    assert not threads() and data.read <= 6
    for _ in DataLoader(data, 1, workers=2):
        break
    assert not threads()


def test_numbers_get_the_types_of_labels_and_values():
    batch, = DataLoader([(X[0], 3, 0.5), (X[1], 4, 1.5)], 2)
    assert [part.dtype for part in batch] == [np.float32, np.int32, np.float32]
    assert batch[1].tolist() == [3, 4]


@pytest.mark.parametrize("make, error, words", [
    (lambda: DataLoader((X, Y[:4]), 2), weir.ShapeError, r"one length .* \(10, 1, 2, 2\), \(4,\)"),
    (lambda: DataLoader((), 2), weir.ShapeError, "not be none"),
    (lambda: DataLoader(X, 0), weir.InvalidError, "batch_size is 0 but must be 1 or more"),
    (lambda: DataLoader(X, workers=-1), weir.InvalidError, "workers is -1"),
    (lambda: DataLoader([], 2), weir.InvalidError, "no samples"),
    (lambda: DataLoader(X, 11, drop_last=True), weir.InvalidError, "drop_last leaves none"),
    (lambda: list(DataLoader([np.ones(2), np.ones(3)], 2)), weir.ShapeError,
     r"element 0 .* \(2,\) and \(3,\)"),
    (lambda: list(DataLoader([(1, 2), (1,)], 2)), weir.ShapeError, "different numbers"),
    (lambda: list(DataLoader([{"x": 1}], 1)), weir.DtypeError, "a dict is no array"),
])
def test_mistakes(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_batches_become_tensors():
    x, y = to_tensors(next(iter(DataLoader((X, Y), 4))))
    assert x.shape == (4, 1, 2, 2) and y.numpy().tolist() == [0, 1, 2, 3]
    assert to_tensors([x])[0] is x
    assert to_tensors(X)[0].shape == X.shape


def test_the_rest_batch_is_a_second_graph():
    from mlp import ready
    net, x, t = ready(True, n=8)
    values, wanted = x.numpy(), t.numpy()
    for _ in range(2):
        for batch in DataLoader((values, wanted), 5):
            net(*to_tensors(batch))
    assert len(net.graphs) == 2


def test_torch_loaders_and_data_sets():
    torch = pytest.importorskip("torch")
    from torch.utils.data import DataLoader as TorchLoader, TensorDataset
    data = TensorDataset(torch.from_numpy(X), torch.from_numpy(Y))
    assert bits(DataLoader(data, 4)) == bits(DataLoader((X, Y), 4))
    x, y = torch.from_numpy(X), torch.from_numpy(Y)
    assert bits(DataLoader((x, y), 4)) == bits(DataLoader((X, Y), 4))
    for workers in (0, 2):
        got = [tuple(t.numpy() for t in to_tensors(batch))
               for batch in TorchLoader(data, 4, num_workers=workers)]
        assert bits(got) == bits(DataLoader((X, Y), 4))


@pytest.mark.parametrize("workers", [0, 2])
def test_ranks_read_what_one_reads(workers):
    data, together = np.arange(53), 4
    one = [b[0].tolist() for b in DataLoader(data, 3, shuffle=True, seed=7, micro_batches=4)]
    assert len(one) == 16 and len(set(sum(one, []))) == 48
    for world in (2, 4):
        each = together // world
        ranks = [DataLoader(data, 3, shuffle=True, seed=7, workers=workers, rank=r, world=world,
                            micro_batches=each) for r in range(world)]
        assert {len(rank) for rank in ranks} == {4 * each}
        parts = [[b[0].tolist() for b in rank] for rank in ranks]
        whole = [parts[r][update * each + j] for update in range(4) for r in range(world)
                 for j in range(each)]
        assert whole == one


def test_a_state_fits_another_world():
    two = DataLoader(Y, 1, shuffle=True, rank=1, world=2, micro_batches=2)
    batches = iter(two)
    for _ in range(2):
        next(batches)
    state = two.state_dict()
    assert (state["epoch"], state["batch"]) == (0, 4)
    four = DataLoader(Y, 1, shuffle=True, rank=3, world=4)
    four.load_state_dict(state)
    next(batches)
    assert next(iter(four))[0].tolist() == next(batches)[0].tolist()
    with pytest.raises(weir.InvalidError, match="5 batches|1 batches behind the beginning"):
        four.load_state_dict({**state, "batch": 5})
    with pytest.raises(weir.InvalidError, match="batch 8, but an epoch has 8 batches"):
        two.load_state_dict({**state, "batch": 8})


@pytest.mark.parametrize("ranks, text", [
    ({"rank": 1}, "world is 1 but must be 2 or more"), ({"rank": -1}, "rank is -1"),
    ({"micro_batches": 0}, "micro_batches is 0"),
    ({"world": 11}, "an update of 11 ranks reads 1 batches of 1 samples from each, more than the "
     "10 there are")])
def test_ranks_that_are_none_are_refused(ranks, text):
    with pytest.raises(weir.InvalidError, match=text):
        DataLoader(Y, 1, **ranks)

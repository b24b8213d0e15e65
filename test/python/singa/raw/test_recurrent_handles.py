"""test_recurrent_handles - SINGA's recurrent functions of raw tensors: the operator's numbers."""
import numpy as np
import pytest

from weir import autograd, singa_wrap as singa, tensor

STEPS, N, FEATURES, HIDDEN = 3, 2, 4, 5


class Case:
    """Inputs of a call, and what the operator of weir.autograd makes of them."""

    def __init__(self, mode, layers, both, bias=True):
        self.handle = singa.CudnnRNNHandle(raw(np.zeros((STEPS, N, FEATURES))), HIDDEN, mode=mode,
                                           num_layers=layers, bias=bias, bidirectional=both)
        draw = np.random.RandomState(3).randn
        state = (layers * (2 if both else 1), N, HIDDEN)
        self.xs = [draw(STEPS, N, FEATURES), draw(*state), draw(*state),
                   draw(self.handle.weights_size) / 3]
        self.dy = draw(STEPS, N, HIDDEN * (2 if both else 1))

    def raws(self):
        return [raw(x) for x in self.xs]


def raw(array):
    return tensor.from_numpy(np.asarray(array, np.float32)).data


def host(raw_tensor):
    return tensor.to_numpy(tensor.from_raw_tensor(raw_tensor))


def by_operator(case, lengths=None):
    """(y, gradients of x, hx, cx, W) of autograd._RNN, all outputs."""
    given = [tensor.Tensor(data=r, requires_grad=True, stores_grad=True) for r in case.raws()]
    autograd.training = True
    try:
        mask = None if lengths is None else tensor.from_numpy(np.asarray(lengths, np.int32))
        y = autograd._RNN(case.handle, return_sequences=True, use_mask=mask is not None,
                          seq_lengths=mask)(*given)[0]
        loss = autograd.mul(y, tensor.from_numpy(case.dy.astype(np.float32))).sum()
        gradients = {id(x): dx for x, dx in autograd.backward(loss)}
    finally:
        autograd.training = False
    return tensor.to_numpy(y), [gradients.get(id(x)) for x in given]


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
@pytest.mark.parametrize("layers, both, bias", [(1, False, True), (2, True, True),
                                                (2, False, False)])
@pytest.mark.parametrize("lengths", [None, [3, 1]])
def test_forward_and_gradients(mode, layers, both, bias, lengths):
    case = Case(mode, layers, both, bias)
    want, gradients = by_operator(case, lengths)
    x, hx, cx, w = case.raws()
    more = [] if lengths is None else [tensor.from_numpy(np.asarray(lengths, np.int32)).data]
    kind = "" if lengths is None else "Ex"
    train = getattr(singa, "GpuRNNForwardTraining" + kind)
    infer = getattr(singa, "GpuRNNForwardInference" + kind)
    for forward in (infer, train):
        y, hy, cy = forward(x, hx, cx, w, *more, case.handle)
        np.testing.assert_array_equal(host(y), want)
        assert hy.shape() == cy.shape() == hx.shape()
    zero = raw(np.zeros(hx.shape()))
    dxs = getattr(singa, "GpuRNNBackwardx" + kind)(y, raw(case.dy), zero, zero, w, hx, cx, *more,
                                                   case.handle)
    dw = getattr(singa, "GpuRNNBackwardW" + kind)(x, hx, y, *more, case.handle)
    for got, expected in zip([*dxs, dw], gradients):
        expected = 0 if expected is None else tensor.to_numpy(expected)
        np.testing.assert_allclose(host(got), expected + np.zeros(got.shape()), rtol=1e-5,
                                   atol=1e-6)


def test_last_states_have_gradients():
    """The gradient of the sum of hy reaches x through no output."""
    case = Case(2, 1, False)
    x, hx, cx, w = case.raws()
    y, hy, cy = singa.GpuRNNForwardTraining(x, hx, cx, w, case.handle)
    zero, one = raw(np.zeros(hx.shape())), raw(np.ones(hx.shape()))
    by_h = singa.GpuRNNBackwardx(y, raw(0 * case.dy), one, zero, w, hx, cx, case.handle)[0]
    last = np.zeros_like(case.dy)
    last[-1] = 1                    # the last output of one layer is its last state
    singa.GpuRNNForwardTraining(x, hx, cx, w, case.handle)
    by_y = singa.GpuRNNBackwardx(y, raw(last), zero, zero, w, hx, cx, case.handle)[0]
    np.testing.assert_allclose(host(by_h), host(by_y), rtol=1e-5)
    assert np.abs(host(by_h)).max() > 0


def test_parts_of_the_weights():
    """Written gate by gate, the vector is what the operator reads, in PyTorch's order of gates."""
    handle = Case(2, 2, True).handle
    w = raw(np.full(handle.weights_size, -1.0))
    count = 0
    for is_bias in (False, True):
        for pseudo in range(4):
            for lin in range(8):
                part = singa.GpuRNNGetParamCopy(lin, pseudo, w, is_bias, handle)
                assert (host(part) == -1).all()         # no part overlaps another
                values = count + np.arange(part.Size(), dtype=np.float32).reshape(part.shape())
                singa.GpuRNNSetParam(lin, pseudo, w, raw(values), is_bias, handle)
                np.testing.assert_array_equal(
                    host(singa.GpuRNNGetParamCopy(lin, pseudo, w, is_bias, handle)), values)
                count += part.Size()
    assert count == handle.weights_size == 1120
    np.testing.assert_array_equal(host(w), np.arange(count))


def test_mistakes_are_told():
    case = Case(3, 1, False, bias=False)
    x, hx, cx, w = case.raws()
    y, _, _ = singa.GpuRNNForwardInference(x, hx, cx, w, case.handle)
    with pytest.raises(RuntimeError, match="GpuRNNForwardTraining"):
        singa.GpuRNNBackwardx(y, raw(case.dy), hx, cx, w, hx, cx, case.handle)
    with pytest.raises(RuntimeError, match="GpuRNNBackwardx"):
        singa.GpuRNNBackwardW(x, hx, y, case.handle)
    with pytest.raises(ValueError, match="linLayerID 6"):
        singa.GpuRNNGetParamCopy(6, 0, w, False, case.handle)
    with pytest.raises(ValueError, match="no bias"):
        singa.GpuRNNGetParamCopy(0, 0, w, True, case.handle)
    with pytest.raises(ValueError, match="25 elements"):
        singa.GpuRNNSetParam(3, 0, w, x, False, case.handle)
    with pytest.raises(ValueError, match="dropout 1"):
        singa.CudnnRNNHandle(x, 5, dropout=1)

"""operators - SINGA's differentiable operators: a class and a function of each name."""
from . import capi
from . import core
from . import singa_wrap as singa
from .engine import Core, Loss


def out(handle, like):
    """The raw result of a core call on the device of the raw tensor `like`."""
    return singa.result(handle, like.device())


class Matmul(Core):
    """Matrices, or batches of them that broadcast."""

    def forward(self, x, w):
        return out(capi.weir_matmul(x.handle, w.handle), x)


def matmul(x, w):
    return Matmul()(x, w)[0]


class AddBias(Core):
    """x (r, c) + b: (c) or (1, c) to each row with axis 0, (r) to each column with axis 1.

    SINGA adds into x and sums the gradient over the wrong axis with axis 1; x stays as it is here.
    """

    def __init__(self, axis=0):
        super().__init__()
        self.axis = axis

    def forward(self, x, b):
        bias = b.handle
        if self.axis == 0 and b.nDim() == 2:
            bias = capi.weir_reshape(bias, (-1,))
        if self.axis == 1:
            bias = capi.weir_reshape(bias, (-1, 1))
        return out(capi.weir_add(x.handle, bias), x)


def add_bias(x, b, axis=0):
    assert axis in (0, 1), f"add_bias: axis {axis}, must be 0 or 1"
    assert len(x.shape) == 2, f"add_bias: x has shape {x.shape}, must have 2 axes"
    assert len(b.shape) == 1 or (axis == 0 and len(b.shape) == 2 and b.shape[0] == 1), \
        f"add_bias: b has shape {b.shape}, must have 1 axis"
    return AddBias(axis)(x, b)[0]


class ReLU(Core):
    def forward(self, x):
        return out(capi.weir_relu(x.handle), x)


def relu(x):
    return ReLU()(x)[0]


class SoftMaxCrossEntropy(Loss):
    """Mean cross entropy of the rows of x with class numbers (n) or (n, 1), or rows of weights."""

    def __init__(self, t):
        super().__init__()
        self.t = t.data

    def forward(self, x):
        t = self.t.handle
        if self.t.nDim() == 2 and self.t.shape(1) == 1 and x.shape(1) != 1:
            t = capi.weir_reshape(t, (-1,))
        rows = len(capi.weir_tensor_desc(t)[1]) == 2
        if rows or core.is_float(self.t.data_type()):
            wanted = core.core_dtype(x.data_type() if rows else core.kInt)
            t = capi.weir_cast(t, wanted)
        return out(capi.weir_reshape(capi.weir_cross_entropy(x.handle, t), (1,)), x)


def softmax_cross_entropy(x, t):
    assert len(x.shape) == 2, f"softmax_cross_entropy: x has shape {x.shape}, must have 2 axes"
    assert len(t.shape) <= 2, f"softmax_cross_entropy: t has shape {t.shape}, at most 2 axes"
    return SoftMaxCrossEntropy(t)(x)[0]

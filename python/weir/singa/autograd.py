"""autograd - SINGA's module of operators and gradients: names of weir.tape and weir.operators."""
from .tape import (Dummy, Operation, Operator, axis_helper, back_broadcast,  # noqa: F401
                     backward, ctensor2numpy, gradients, infer_dependency, make_slice)
from .operators.elementwise import (  # noqa: F401
    Abs, Acos, Acosh, Add, And, Asin, Asinh, Atan, Atanh, Ceil, Clip, Cos, Cosh, Div, Dropout, Elu,
    Equal, Erf, Exp, Floor, Greater, HardSigmoid, Identity, LeakyRelu, Less, Log, Max, Mean, Min,
    Mul, Negative, Not, Or, Pow, PRelu, Reciprocal, ReLU, Round, Rounde, SeLU, Sigmoid, Sign, Sin,
    Sinh, SoftPlus, SoftSign, Sqrt, Sub, Sum, Tan, Tanh, Xor, _and, _not, _or, _xor, abs, acos,
    acosh, add, add_all, asin, asinh, atan, atanh, ceil, clip, cos, cosh, div, dropout, elu, equal,
    erf, exp, floor, greater, hardsigmoid, identity, leakyrelu, less, log, max, mean, min, mul,
    negative, pow, prelu, reciprocal, relu, round, rounde, selu, sigmoid, sign, sin, sinh, softplus,
    softsign, sqrt, sub, sum, tan, tanh)
from .operators.image import (  # noqa: F401
    _BatchNorm2d, _Conv2d, _Pooling2d, batchnorm_2d, conv2d, pooling_2d)
from .operators.loss import (  # noqa: F401
    BinaryCrossEntropy, CosSim, CrossEntropy, MeanSquareError, RankingLoss, SoftMaxCrossEntropy,
    binary_cross_entropy, cossim, cross_entropy, mse_loss, ranking_loss, softmax_cross_entropy)
from .operators.matrix import AddBias, Gemm, Matmul, add_bias, gemm, matmul  # noqa: F401
from .operators.recurrent import _RNN  # noqa: F401
from .operators.reduce import (  # noqa: F401
    GlobalAveragePool, ReduceMean, ReduceSum, SoftMax, globalaveragepool, reduce_mean, reduce_sum,
    softmax)
from .operators.shape import (  # noqa: F401
    Cast, Concat, ConstantOfShape, DepthToSpace, Embedding, Expand, Flatten, Gather, NonZero,
    OneHot, Pad, Reshape, ScatterElements, Shape, Slice, SpaceToDepth, Split, Squeeze, Tile,
    Transpose, Unsqueeze, UpSample, Where, cast, cat, constant_of_shape, depth_to_space, embedding,
    expand, flatten, gather, nonzero, onehot, pad, reshape, scatter_elements, shape, slice,
    space_to_depth, split, squeeze, tile, transpose, unsqueeze, upsample, where)
from .singa_wrap import CTensor  # noqa: F401

training = False        # scripts assign it: operators remember what gradients need only when True

# Layers that older scripts take from here; weir.layer imports this module, so they come when asked.
_LAYERS = ("Layer", "Linear", "Conv2d", "SeparableConv2d", "BatchNorm2d", "Pooling2d", "MaxPool2d",
           "AvgPool2d", "MaxPool1d", "AvgPool1d", "RNN_Base", "RNN", "LSTM")


def __getattr__(name):
    if name not in _LAYERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import layer
    return getattr(layer, name)

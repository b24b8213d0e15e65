"""autograd - SINGA's module of operators and gradients: names of weir.tape and weir.operators."""
import sys
import types

from . import taping
from .layer import (  # noqa: F401
    LSTM, RNN, AvgPool1d, AvgPool2d, BatchNorm2d, Conv2d, Layer, Linear, MaxPool1d, MaxPool2d,
    Pooling2d, RNN_Base, SeparableConv2d)
from .tape import (Dummy, Operation, Operator, axis_helper, back_broadcast,  # noqa: F401
                     backward, ctensor2numpy, gradients, infer_dependency, make_slice)
from .operators.attention import (  # noqa: F401
    ScaledDotProductAttention, scaled_dot_product_attention)
from .operators.elementwise import (  # noqa: F401
    Abs, Acos, Acosh, Add, And, Asin, Asinh, Atan, Atanh, Ceil, Clip, Cos, Cosh, Div, Dropout, Elu,
    Equal, Erf, Exp, Floor, Gelu, GeluTanh, Greater, HardSigmoid, HardSwish, Identity, LeakyRelu,
    Less, Log, LogSigmoid, Max, Mean, Min, Mish, Mul, Negative, Not, Or, Pow, PRelu, Reciprocal,
    ReLU, ReLU6, Round, Rounde, SeLU, Sigmoid, Sign, Silu, Sin, Sinh, SoftPlus, SoftSign, Sqrt,
    Sub, Sum, Tan, Tanh, Xor, _and, _not, _or, _xor, abs, acos, acosh, add, add_all, asin, asinh,
    atan, atanh, ceil, clip, cos, cosh, div, dropout, elu, equal, erf, exp, floor, gelu, gelu_tanh,
    greater, hardsigmoid, hardswish, identity, leakyrelu, less, log, log_sigmoid, max, mean, min,
    mish, mul, negative, pow, prelu, reciprocal, relu, relu6, round, rounde, selu, sigmoid, sign,
    silu, sin, sinh, softplus, softsign, sqrt, sub, sum, tan, tanh)
from .operators.image import (  # noqa: F401
    _BatchNorm2d, _Conv2d, _Pooling2d, batchnorm_2d, conv2d, pooling_2d)
from .operators.loss import (  # noqa: F401
    BinaryCrossEntropy, CosSim, CrossEntropy, MeanSquareError, RankingLoss, SoftMaxCrossEntropy,
    binary_cross_entropy, cossim, cross_entropy, mse_loss, ranking_loss, softmax_cross_entropy)
from .operators.matrix import AddBias, Gemm, Matmul, add_bias, gemm, matmul  # noqa: F401
from .operators.recurrent import _RNN  # noqa: F401
from .operators.reduce import (  # noqa: F401
    GlobalAveragePool, LogSoftMax, ReduceMean, ReduceSum, SoftMax, globalaveragepool, log_softmax,
    reduce_mean, reduce_sum, softmax)
from .operators.shapes import (  # noqa: F401
    Cast, Concat, ConstantOfShape, DepthToSpace, Embedding, Expand, Flatten, Gather, NonZero,
    OneHot, Pad, Reshape, ScatterElements, Shape, Slice, SpaceToDepth, Split, Squeeze, Tile,
    Transpose, Unsqueeze, UpSample, Where, cast, cat, constant_of_shape, depth_to_space, embedding,
    expand, flatten, gather, nonzero, onehot, pad, reshape, scatter_elements, shape, slice,
    space_to_depth, split, squeeze, tile, transpose, unsqueeze, upsample, where)
from .singa_wrap import CTensor  # noqa: F401

__all__ = ["_and", "_BatchNorm2d", "_Conv2d", "_not", "_or", "_Pooling2d", "_RNN", "_xor", "Abs",
           "abs", "Acos", "acos", "Acosh", "acosh", "Add", "add", "add_all", "add_bias", "AddBias",
           "And", "Asin", "asin", "Asinh", "asinh", "Atan", "atan", "Atanh", "atanh", "AvgPool1d",
           "AvgPool2d", "axis_helper", "back_broadcast", "backward", "BatchNorm2d", "batchnorm_2d",
           "binary_cross_entropy", "BinaryCrossEntropy", "Cast", "cast", "cat", "Ceil", "ceil",
           "Clip", "clip", "Concat", "constant_of_shape", "ConstantOfShape", "Conv2d", "conv2d",
           "Cos", "cos", "Cosh", "cosh", "CosSim", "cossim", "cross_entropy", "CrossEntropy",
           "CTensor", "ctensor2numpy", "depth_to_space", "DepthToSpace", "Div", "div", "Dropout",
           "dropout", "Dummy", "Elu", "elu", "Embedding", "embedding", "Equal", "equal", "Erf",
           "erf", "Exp", "exp", "Expand", "expand", "Flatten", "flatten", "Floor", "floor",
           "Gather", "gather", "Gelu", "gelu", "gelu_tanh", "GeluTanh", "Gemm", "gemm",
           "GlobalAveragePool", "globalaveragepool", "gradients", "Greater", "greater",
           "HardSigmoid", "hardsigmoid", "HardSwish", "hardswish", "Identity", "identity",
           "infer_dependency", "Layer", "LeakyRelu", "leakyrelu", "Less", "less", "Linear", "Log",
           "log", "log_sigmoid", "log_softmax", "LogSigmoid", "LogSoftMax", "LSTM", "make_slice",
           "Matmul", "matmul", "Max", "max", "MaxPool1d", "MaxPool2d", "Mean", "mean",
           "MeanSquareError", "Min", "min", "Mish", "mish", "mse_loss", "Mul", "mul", "Negative",
           "negative", "NonZero", "nonzero", "Not", "OneHot", "onehot", "Operation", "Operator",
           "Or", "Pad", "pad", "Pooling2d", "pooling_2d", "Pow", "pow", "PRelu", "prelu",
           "ranking_loss", "RankingLoss", "Reciprocal", "reciprocal", "reduce_mean", "reduce_sum",
           "ReduceMean", "ReduceSum", "ReLU", "relu", "ReLU6", "relu6", "Reshape", "reshape",
           "RNN", "RNN_Base", "Round", "round", "Rounde", "rounde", "scaled_dot_product_attention",
           "ScaledDotProductAttention", "scatter_elements", "ScatterElements", "SeLU", "selu",
           "SeparableConv2d", "Shape", "shape", "Sigmoid", "sigmoid", "Sign", "sign", "Silu",
           "silu", "Sin", "sin", "Sinh", "sinh", "Slice", "slice", "SoftMax", "softmax",
           "softmax_cross_entropy", "SoftMaxCrossEntropy", "SoftPlus", "softplus", "SoftSign",
           "softsign", "space_to_depth", "SpaceToDepth", "Split", "split", "Sqrt", "sqrt",
           "Squeeze", "squeeze", "Sub", "sub", "Sum", "sum", "sys", "Tan", "tan", "Tanh", "tanh",
           "Tile", "tile", "training", "Transpose", "transpose", "Unsqueeze", "unsqueeze",
           "UpSample", "upsample", "Where", "where", "Xor"]

class _Autograd(types.ModuleType):
    """weir.autograd: the module whose `training` scripts assign, and weir.taping keeps."""

    @property
    def training(self) -> bool:
        """Operators remember what gradients need only when True."""
        return taping.is_training()

    @training.setter
    def training(self, on: bool) -> None:
        taping.set_training(on)


training: bool
sys.modules[__name__].__class__ = _Autograd

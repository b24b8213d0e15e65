"""autograd - SINGA's module of operators and gradients: names of engine and operators."""
from .engine import (Dummy, Operation, Operator, backward, gradients,  # noqa: F401
                     infer_dependency)
from .operators import (AddBias, Matmul, ReLU, SoftMaxCrossEntropy, add_bias,  # noqa: F401
                        matmul, relu, softmax_cross_entropy)
from .singa_wrap import CTensor  # noqa: F401

training = False        # scripts assign it: operators remember what gradients need only when True

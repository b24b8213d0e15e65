"""singa_wrap - SINGA's low-level names: raw tensors, functions of them, the platform, flags.

A raw tensor is a Value of weir.core (shared by shallow copies) or a view of one. Functions compute
at once or, while the device records, become part of the graph; gradients do not pass them unless an
operator of weir.autograd calls them.
"""
from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, cast, overload

from weir import cuda
from weir import core
from weir.errors import DeviceError
from weir.core import (Device, Value, kBFloat16, kBool, kChar, kDouble, kFloat16,  # noqa: F401
                   kFloat32, kInt, kInt64, kUChar)
from .raw.snapshot import Snapshot  # noqa: F401
from .raw.tensor import CTensor, SizeOf, Tensor, result, to_shape  # noqa: F401
from .raw.handles import (BatchNormHandle, ConvHandle, CpuBatchNormBackwardx,  # noqa: F401
                          CpuBatchNormForwardInference, CpuBatchNormForwardTraining,
                          CpuConvBackwardb, CpuConvBackwardW, CpuConvBackwardx, CpuConvForward,
                          CpuPoolingBackward, CpuPoolingForward, CudnnBatchNormHandle,
                          CudnnConvHandle, CudnnPoolingHandle, GpuBatchNormBackward,
                          GpuBatchNormForwardInference, GpuBatchNormForwardTraining,
                          GpuConvBackwardb, GpuConvBackwardW, GpuConvBackwardx, GpuConvForward,
                          GpuPoolingBackward, GpuPoolingForward, PoolingHandle, ReLUBackward,
                          SoftMaxBackward)
from .raw.recurrent import (CudnnRNNHandle, GpuRNNBackwardW, GpuRNNBackwardWEx,  # noqa: F401
                            GpuRNNBackwardx, GpuRNNBackwardxEx, GpuRNNForwardInference,
                            GpuRNNForwardInferenceEx, GpuRNNForwardTraining,
                            GpuRNNForwardTrainingEx, GpuRNNGetParamCopy, GpuRNNSetParam)
from .raw.math import (Abs, Acos, Acosh, Add, AddColumn, AddColumnWithScale,  # noqa: F401
                       AddFloat, AddFloatWithRet, And, ArgReduce, Clip, FloorDiv, Mod, Not, Or,
                       Scalar, Xor, AddRow, AddRowWithScale, Asin, Asinh, Atan,
                       Atanh, Average, AverageAsFloat, Axpy, Bernoulli, Ceil, Cos, Cosh,
                       CrossEntropyFwd, Div,
                       DivColumn, DivFloat, DivFloatWithRet, DivRow, Einsum, EltwiseMult,
                       EltwiseMultFloatWithRet, EQ, EQFloat, Erf, Exp, Floor, Gaussian, GE,
                       GEFloat, GT, GTFloat, LE, LEFloat, Log, LogSoftMax, LT, LTFloat, Maximum,
                       Minimum, Mult, MultColumn, MultFloat, MultRow, MultWithRet, MultWithScale,
                       NE, NEFloat, Negative, Pow, PowFloat, PowFloatWithRet, PowWithRet, ReLU,
                       Round, RoundE, Sigmoid, Sign, Sin, Sinh, SoftMax, SoftmaxCrossEntropyBwd,
                       Sqrt, Square, Std, Sub, SubColumn, SubFloat, SubFloatWithRet, SubRow, Sum,
                       SumAll, SumAsFloat, SumColumns, SumRows, Tan, Tanh, TensorDot, Uniform,
                       __add__, __div__, __eq__, __ge__, __gt__, __le__, __lt__, __mul__, __sub__,
                       reduced)
from .raw.shape import (AssignSlice, Broadcast, ConcatColumns, ConcatOn,  # noqa: F401
                        ConcatRows, Contiguous, CopyDataToFrom, CopyRows, DefaultTranspose,
                        Product, RepeatDataToFrom, Reshape, Slice, SliceColumns, SliceOn,
                        SliceRows, Transpose, WithSlice, squeezed)

if TYPE_CHECKING:       # what __getattr__ imports at its first use
    from .comm.nccl import Communicator as Communicator, NcclIdHolder as NcclIdHolder

__all__ = ["__add__", "__div__", "__eq__", "__ge__", "__gt__", "__le__", "__lt__", "__mul__",
           "__sub__", "Abs", "Acos", "Acosh", "Add", "AddColumn", "AddColumnWithScale", "AddFloat",
           "AddFloatWithRet", "AddRow", "AddRowWithScale", "And", "ArgReduce", "Asin", "Asinh",
           "AssignSlice", "Atan", "Atanh", "Average", "AverageAsFloat", "Axpy", "BatchNormHandle",
           "Bernoulli", "Broadcast", "Ceil", "Clip", "Communicator", "ConcatColumns", "ConcatOn",
           "ConcatRows", "Contiguous", "ConvHandle", "CopyDataToFrom", "CopyRows", "Cos", "Cosh",
           "CpuBatchNormBackwardx", "CpuBatchNormForwardInference", "CpuBatchNormForwardTraining",
           "CpuConvBackwardb", "CpuConvBackwardW", "CpuConvBackwardx", "CpuConvForward",
           "CpuPoolingBackward", "CpuPoolingForward", "CrossEntropyFwd", "CTensor",
           "CudnnBatchNormHandle", "CudnnConvHandle", "CudnnPoolingHandle", "CudnnRNNHandle",
           "DefaultTranspose", "Device", "Div", "DivColumn", "DivFloat", "DivFloatWithRet",
           "DivRow", "Einsum", "EltwiseMult", "EltwiseMultFloatWithRet", "EQ", "EQFloat", "Erf",
           "Exp", "Floor", "FloorDiv", "Gaussian", "GE", "GEFloat", "GpuBatchNormBackward",
           "GpuBatchNormForwardInference", "GpuBatchNormForwardTraining", "GpuConvBackwardb",
           "GpuConvBackwardW", "GpuConvBackwardx", "GpuConvForward", "GpuPoolingBackward",
           "GpuPoolingForward", "GpuRNNBackwardW", "GpuRNNBackwardWEx", "GpuRNNBackwardx",
           "GpuRNNBackwardxEx", "GpuRNNForwardInference", "GpuRNNForwardInferenceEx",
           "GpuRNNForwardTraining", "GpuRNNForwardTrainingEx", "GpuRNNGetParamCopy",
           "GpuRNNSetParam", "GT", "GTFloat", "InitLogging", "kBFloat16", "kBool", "kChar",
           "kDouble", "kFloat16", "kFloat32", "kInt", "kInt64", "kUChar", "LE", "LEFloat", "Log",
           "LogSoftMax", "LT", "LTFloat", "Maximum", "Minimum", "Mod", "Mult", "MultColumn",
           "MultFloat", "MultRow", "MultWithRet", "MultWithScale", "NcclIdHolder", "NE", "NEFloat",
           "Negative", "Not", "Or", "Platform", "PoolingHandle", "Pow", "PowFloat",
           "PowFloatWithRet", "PowWithRet", "Product", "reduced", "ReLU", "ReLUBackward",
           "RepeatDataToFrom", "Reshape", "result", "Round", "RoundE", "Scalar", "Shape",
           "Sigmoid", "Sign", "Sin", "SINGA_VERSION", "Sinh", "SizeOf", "Slice", "SliceColumns",
           "SliceOn", "SliceRows", "Snapshot", "SoftMax", "SoftMaxBackward",
           "SoftmaxCrossEntropyBwd", "Sqrt", "Square", "squeezed", "Std", "Sub", "SubColumn",
           "SubFloat", "SubFloatWithRet", "SubRow", "Sum", "SumAll", "SumAsFloat", "SumColumns",
           "SumRows", "Tan", "Tanh", "Tensor", "TensorDot", "to_shape", "Transpose", "Uniform",
           "USE_DIST", "USE_DNNL", "USE_JAVA", "USE_OPENCL", "USE_PYTHON", "Value", "VecInt",
           "VecTensor", "VecVecSize", "WithSlice", "Xor"]

# USE_CUDA and USE_CUDNN are asked of the machine when they are first read: see __getattr__.
USE_DIST = 1
USE_OPENCL = 0
USE_DNNL = 1
USE_PYTHON = 1
USE_JAVA = 0

# Names of modules that need this one: they are imported when a name is first read.
_LATER = {"Communicator": "comm.nccl", "NcclIdHolder": "comm.nccl"}

SINGA_VERSION = 5100        # of the interface this one stands in for


def __getattr__(name: str) -> int:
    """Flags that ask the machine; else says why a name of SINGA is absent."""
    if name in ("USE_CUDA", "USE_CUDNN"):
        return int(cuda.count() > 0)
    if name.startswith(("Gpu", "GPU", "Cudnn")):
        raise AttributeError(f"singa_wrap.{name} does not exist: operators of the core run on "
                             "cards under the names of those that run on the CPU")
    if name in _LATER:
        found = getattr(importlib.import_module(f"weir.{_LATER[name]}"), name)
        return cast("int", found)       # checkers have its type from above
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class Platform:
    """What devices there are."""

    @staticmethod
    def GetDefaultDevice() -> Device:
        """The CPU device."""
        return core.cpu()

    @staticmethod
    def GetNumGPUs() -> int:
        """The number of usable cards."""
        return cuda.count()

    @staticmethod
    def GetGPUIDs() -> list[int]:
        """The numbers of the usable cards."""
        return list(range(cuda.count()))

    @staticmethod
    @overload
    def GetGPUMemSize(id: int) -> tuple[int, int]: ...
    @staticmethod
    @overload
    def GetGPUMemSize(id: None = None) -> list[tuple[int, int]]: ...
    @staticmethod
    def GetGPUMemSize(id: int | None = None) -> tuple[int, int] | list[tuple[int, int]]:
        """(free, total) bytes of a card; without a number a list of all."""
        if id is None:
            return [cuda.memory(number) for number in range(cuda.count())]
        return cuda.memory(id)

    @staticmethod
    def DeviceQuery(id: int, verbose: bool = False) -> str:
        """A line that describes a card; verbose: several. DeviceError without such a card."""
        return cuda.query(id, verbose)

    @staticmethod
    def CreateCudaGPUs(num: int, init_mb: int = 0) -> list[Device]:
        """The first `num` cards; memory is taken when it is needed, so init_mb changes nothing."""
        return Platform.CreateCudaGPUsOn(range(num), init_mb)

    @staticmethod
    def CreateCudaGPUsOn(device_ids: Iterable[int], init_mb: int = 0) -> list[Device]:
        """The devices of these cards; init_mb is ignored. DeviceError without CUDA."""
        del init_mb
        if not cuda.count():
            raise DeviceError(f"there is no CUDA device: {cuda.why()}")
        return [cuda.gpu(number) for number in device_ids]


def InitLogging(name: str = "") -> None:
    """SINGA's logging starts here; errors are exceptions with us, so there is nothing to start."""
    del name


# ---- containers of SINGA's C++ signatures: lists here ----

class VecTensor(list[Tensor]):
    """Raw tensors."""


class VecInt(list[int]):
    """Integers."""


class VecVecSize(list[Sequence[int]]):
    """Shapes."""


class Shape(list[int]):
    """Sizes."""

"""weir - lazy-execution deep learning with a planned memory; SINGA's names, see README.

Modules with SINGA's names, and those under them, are files of the folder singa/. Their names are
weir.tensor, weir.layer, ...: the package weir.singa gives the same modules, but importing it also
makes `singa` mean weir. Modules are imported when they are first used.
`weir.tensor` is SINGA's module and, called, makes a tensor like `weir.array`.
"""
from __future__ import annotations

import importlib
import os
import types
from typing import TYPE_CHECKING

__path__.append(os.path.join(__path__[0], "singa"))

from . import _capi
from . import errors
from . import tensor
from . import typing
from .errors import (BudgetError, CancelledError, CommError, DeviceError,  # noqa: F401
                     DtypeError, Error, FileError, GraphWarning, InvalidError, NoKernelError,
                     OutOfMemoryError, OutOfRangeError, ShapeError, StateError)

if TYPE_CHECKING:       # what __getattr__ imports at its first use
    from . import autograd as autograd
    from . import comm as comm
    from . import data as data
    from . import device as device
    from . import image_tool as image_tool
    from . import initializer as initializer
    from . import layer as layer
    from . import metrics as metrics
    from . import model as model
    from . import module as module
    from . import onnx as onnx
    from . import opt as opt
    from . import optimizer as optimizer
    from . import plot as plot
    from . import singa_wrap as singa_wrap
    from . import snapshot as snapshot
    from . import sonnx as sonnx
    from . import torch as torch    # noqa: F401
    from . import transforms as transforms
    from . import utils as utils
    from .checkpoint import checkpoint as checkpoint
    from .create import (arange as arange, array as array, empty as empty, eye as eye,
        from_dlpack as from_dlpack, full as full, full_like as full_like, ones as ones,
        ones_like as ones_like, rand as rand, randn as randn, zeros as zeros,
        zeros_like as zeros_like)
    from .dtypes import (DType as DType, bfloat16 as bfloat16, bool_ as bool_, float16 as float16,
        float32 as float32, float64 as float64, int8 as int8, int16 as int16, int32 as int32,
        int64 as int64, uint8 as uint8, uint16 as uint16, uint32 as uint32, uint64 as uint64)
    from .files import (load_npz as load_npz, load_safetensors as load_safetensors,
        safetensors_metadata as safetensors_metadata, save_npz as save_npz,
        save_safetensors as save_safetensors)
    from .fit import LargestBatch as LargestBatch, largest_batch as largest_batch
    from .graph import Graph as Graph, NonFinite as NonFinite
    from .names import name_scope as name_scope
    from .planning_progress import (PlanningProgress as PlanningProgress,
        set_planning_progress as set_planning_progress)
    from .saved_graph import (SavedGraph as SavedGraph, TensorSpec as TensorSpec,
        load_graph as load_graph)
    from .settings import (autocast as autocast, cpu as cpu, no_grad as no_grad,
        progress as progress, set_seed as set_seed, show_config as show_config)
    from .torch_names import (load_torch_state_dict as load_torch_state_dict,
        to_torch_state_dict as to_torch_state_dict)
    from .core import Device
    from .interop import Data
    from .typing import DTypeLike
    from .tensor import Tensor

__version__ = _capi.weir_version()

# Modules that are imported at their first use, and names that come from such modules.
MODULES = ("autograd", "comm", "data", "device", "image_tool", "initializer", "layer", "metrics",
           "model", "module", "onnx", "opt", "optimizer", "plot", "singa_wrap", "snapshot",
           "sonnx", "tensor", "transforms", "utils")
OPTIONAL = ("torch",)       # the same, for what is installed beside this package
_NAMES = {
    "checkpoint": ("checkpoint",),
    "create": ("arange", "array", "empty", "eye", "from_dlpack", "full", "full_like", "ones",
               "ones_like", "rand", "randn", "zeros", "zeros_like"),
    "dtypes": ("DType", "bfloat16", "bool_", "float16", "float32", "float64", "int16", "int32",
               "int64", "int8", "uint16", "uint32", "uint64", "uint8"),
    "files": ("load_npz", "load_safetensors", "safetensors_metadata", "save_npz",
              "save_safetensors"),
    "fit": ("LargestBatch", "largest_batch"),
    "graph": ("Graph", "NonFinite"),
    "names": ("name_scope",),
    "planning_progress": ("PlanningProgress", "set_planning_progress"),
    "saved_graph": ("SavedGraph", "TensorSpec", "load_graph"),
    "torch_names": ("load_torch_state_dict", "to_torch_state_dict"),
    "settings": ("autocast", "cpu", "no_grad", "progress", "set_seed", "show_config"),
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names}

__all__ = ["arange", "array", "autocast", "autograd", "bfloat16", "bool_", "BudgetError",
           "CancelledError", "checkpoint", "comm", "CommError", "cpu", "data", "device",
           "DeviceError", "DType", "DtypeError", "empty", "Error", "errors", "eye", "FileError",
           "float16", "float32", "float64", "from_dlpack", "full", "full_like", "Graph",
           "GraphWarning", "image_tool", "initializer", "int16", "int32", "int64", "int8",
           "InvalidError", "largest_batch", "LargestBatch", "layer", "load_graph", "load_npz",
           "load_safetensors", "load_torch_state_dict", "metrics", "model", "module", "name_scope",
           "no_grad", "NoKernelError", "NonFinite", "ones", "ones_like", "onnx", "opt",
           "optimizer", "OutOfMemoryError", "OutOfRangeError", "PlanningProgress", "plot",
           "progress", "rand", "randn", "safetensors_metadata", "save_npz", "save_safetensors",
           "SavedGraph", "set_planning_progress", "set_seed", "ShapeError", "show_config",
           "singa_wrap", "snapshot", "sonnx", "StateError", "tensor", "TensorSpec",
           "to_torch_state_dict", "transforms", "typing", "uint16", "uint32", "uint64", "uint8",
           "utils", "zeros", "zeros_like"]


class _TensorModule(types.ModuleType):
    """weir.tensor: a module that can be called."""

    def __call__(self, data: Data, dtype: DTypeLike | None = None, device: Device | None = None,
                 requires_grad: bool = False) -> Tensor:
        from .create import array
        return array(data, dtype, device, requires_grad)


setattr(tensor, "__class__", _TensorModule)


if not TYPE_CHECKING:       # for checkers of types there are no other names
    def __getattr__(name):
        if name in _MODULE_OF:
            value = getattr(importlib.import_module(f"weir.{_MODULE_OF[name]}"), name)
            globals()[name] = value
            return value
        if name in MODULES or name in OPTIONAL:
            return importlib.import_module(f"weir.{name}")
        raise AttributeError(f"module 'weir' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*(name for name in globals() if name.startswith("__")), *__all__})

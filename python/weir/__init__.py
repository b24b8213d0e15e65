"""weir - lazy-execution deep learning with a planned memory; SINGA's names, see README.

Modules with SINGA's names, and those under them, are files of the folder singa/. Their names are
weir.tensor, weir.layer, ...: the package weir.singa gives the same modules, but importing it also
makes `singa` mean weir. Modules are imported when they are first used.
`weir.tensor` is SINGA's module and, called, makes a tensor like `weir.array`.
"""
import importlib
import os
import types

__path__.append(os.path.join(__path__[0], "singa"))

from . import _capi as capi
from . import errors
from . import tensor
from .errors import (BudgetError, DeviceError, DtypeError, Error, FileError,  # noqa: F401
                     GraphWarning, InvalidError, NoKernelError, OutOfMemoryError, OutOfRangeError,
                     ShapeError, StateError)

__version__ = capi.weir_version()

# Modules that are imported at their first use, and names that come from such modules.
MODULES = ("autograd", "data", "device", "image_tool", "initializer", "layer", "model", "module",
           "opt", "optimizer", "plot", "singa_wrap", "snapshot", "tensor", "utils")
_NAMES = {
    "checkpoint": ("checkpoint",),
    "create": ("arange", "array", "empty", "eye", "from_dlpack", "full", "full_like", "ones",
               "ones_like", "rand", "randn", "zeros", "zeros_like"),
    "files": ("load_npz", "load_safetensors", "safetensors_metadata", "save_npz",
              "save_safetensors"),
    "graph": ("Graph",),
    "torch_names": ("load_torch_state_dict", "to_torch_state_dict"),
    "settings": ("autocast", "cpu", "no_grad", "progress", "set_seed", "show_config"),
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names}

__all__ = ["Error", "errors", *MODULES, *_MODULE_OF]


class _TensorModule(types.ModuleType):
    """weir.tensor: a module that can be called."""

    def __call__(self, data, dtype=None, device=None, requires_grad=False):
        from .create import array
        return array(data, dtype, device, requires_grad)


tensor.__class__ = _TensorModule


def __getattr__(name):
    if name in _MODULE_OF:
        value = getattr(importlib.import_module(f"weir.{_MODULE_OF[name]}"), name)
        globals()[name] = value
        return value
    if name in MODULES:
        return importlib.import_module(f"weir.{name}")
    raise AttributeError(f"module 'weir' has no attribute '{name}'")


def __dir__():
    return sorted({*globals(), *__all__})

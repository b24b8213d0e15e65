"""errors - the exceptions of the package, one for each status of the core.

Each is also the built-in exception that says the same, so `except ValueError` catches a wrong
shape. The message is the core's sentence: operation, argument, shapes, numbers.
"""
from . import _capi as capi


class Error(Exception):
    """The base of all errors of the core."""


class InvalidError(Error, ValueError):
    """An argument makes no sense."""


class ShapeError(Error, ValueError):
    """Shapes do not fit each other or the operation."""


class DtypeError(Error, TypeError):
    """An element type that the operation does not take."""


class DeviceError(Error, RuntimeError):
    """A device is unknown, closed or failing."""


class StateError(Error, RuntimeError):
    """Not possible at this moment: reading a value that is only recorded, for example."""


class OutOfMemoryError(Error, MemoryError):
    """Out of memory."""


class BudgetError(Error, MemoryError):
    """No plan needs as little memory as the budget; the sentence names the smallest that works."""


class NoKernelError(Error, NotImplementedError):
    """No kernel for this operation on this device."""


class FileError(Error, OSError):
    """A file is missing, unreadable or malformed."""


class OutOfRangeError(Error, IndexError):
    """An index or a class number is out of range."""


class CancelledError(Error, RuntimeError):
    """A callback, or Ctrl-C, stopped what was at work: nothing of it is kept."""


class CommError(Error, RuntimeError):
    """Another rank is missing or late, or calls another collective; the sentence names it."""


class GraphWarning(UserWarning):
    """Python code of a step that is recorded does what a recorded step cannot repeat, or a graph
    for inference was recorded in training mode."""


BY_STATUS = {
    capi.WEIR_OK: Error,
    capi.WEIR_ERR_INVALID: InvalidError,
    capi.WEIR_ERR_SHAPE: ShapeError,
    capi.WEIR_ERR_DTYPE: DtypeError,
    capi.WEIR_ERR_DEVICE: DeviceError,
    capi.WEIR_ERR_STATE: StateError,
    capi.WEIR_ERR_NOMEM: OutOfMemoryError,
    capi.WEIR_ERR_BUDGET: BudgetError,
    capi.WEIR_ERR_NOKERNEL: NoKernelError,
    capi.WEIR_ERR_IO: FileError,
    capi.WEIR_ERR_INDEX: OutOfRangeError,
    capi.WEIR_ERR_CANCELLED: CancelledError,
    capi.WEIR_ERR_COMM: CommError,
}

capi.set_errors([BY_STATUS.get(status, Error) for status in range(max(BY_STATUS) + 1)])

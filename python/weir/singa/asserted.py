"""asserted - exceptions for what SINGA asserts: those of weir.errors that are AssertionErrors too.

A script of SINGA may catch an AssertionError where SINGA's own checks raise one; users of NumPy and
PyTorch expect a ValueError, a TypeError or a RuntimeError. Each of these is both.
"""
from weir import errors


class ShapeError(errors.ShapeError, AssertionError):
    """Shapes do not fit: a ValueError."""


class InvalidError(errors.InvalidError, AssertionError):
    """An argument has a value that makes no sense: a ValueError."""


class DtypeError(errors.DtypeError, AssertionError):
    """Element types do not fit: a TypeError."""


class ArgumentError(errors.Error, TypeError, AssertionError):
    """An argument is of the wrong Python type: a TypeError."""


class DeviceError(errors.DeviceError, AssertionError):
    """The requested device is not available: a RuntimeError."""


class StateError(errors.StateError, AssertionError):
    """Not possible for what the object is now: a RuntimeError."""


class ExistsError(errors.FileError, FileExistsError, AssertionError):
    """The file that is to be written exists: an OSError."""

"""asserted - the exceptions of weir.errors as AssertionErrors too, raised where SINGA asserts.

A script of SINGA may catch an AssertionError where SINGA's own checks raise one; users of NumPy and
PyTorch expect a ValueError, a TypeError or a RuntimeError. Each of these is both.
"""
from weir import errors


class ShapeError(errors.ShapeError, AssertionError):
    """Shapes do not match; also a ValueError."""


class InvalidError(errors.InvalidError, AssertionError):
    """An argument has an invalid value; also a ValueError."""


class DtypeError(errors.DtypeError, AssertionError):
    """Element types do not match; also a TypeError."""


class ArgumentError(errors.Error, TypeError, AssertionError):
    """An argument has the wrong Python type; also a TypeError."""


class DeviceError(errors.DeviceError, AssertionError):
    """The requested device is not available; also a RuntimeError."""


class StateError(errors.StateError, AssertionError):
    """The object's present state does not allow the call; also a RuntimeError."""


class ExistsError(errors.FileError, FileExistsError, AssertionError):
    """The file to be written exists already; also an OSError."""

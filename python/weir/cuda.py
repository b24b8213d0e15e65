"""cuda - NVIDIA cards: how many there are, and the one device of each that everybody shares.

Nothing is loaded before somebody asks. Libraries of CUDA that were installed as wheels for this
Python are made known to the core first ($WEIR_CUDA_LIBS, unless it is set).
"""
import glob
import os
import sys

from . import capi
from . import core
from .errors import DeviceError

_count = None
_why = ""
_open = {}


def _tell_where_wheels_are():
    folders = [folder for path in sys.path if path
               for folder in sorted(glob.glob(os.path.join(path, "nvidia", "*", "lib")))]
    if folders:
        os.environ.setdefault("WEIR_CUDA_LIBS", ":".join(folders))


def count():
    """Cards that can be used; 0 too where there is no driver or no plugin (why says which)."""
    global _count, _why
    if _count is None:
        _tell_where_wheels_are()
        found = capi.weir_device_count("cuda")
        _count = max(found, 0)
        _why = (capi.weir_error() if found < 0 else
                "" if found else "the machine has no card that can be used")
    return _count


def why():
    """A sentence about why there is no card; "" if there is one."""
    return "" if count() else _why


def card(number):
    """The device of a card; asked for again it is the same one, reset."""
    if not isinstance(number, int) or isinstance(number, bool):
        raise TypeError(f"a card has a number, not {number!r}")
    if not count():
        raise DeviceError(f"there is no CUDA device: {why()}")
    device = _open.get(number)
    if device is None:
        device = _open[number] = core.open_device(f"cuda:{number}", number)
    else:
        device.Reset()
    return device


def memory(number):
    """(free, total) bytes of a card."""
    counts = _shown(number).memory()
    return counts.unused, counts.total


def query(number, verbose=False):
    """What a card is, in a line; verbose: and what works on it, in several."""
    text = _shown(number).info()
    return text if verbose else next(
        (line for line in text.splitlines() if line.startswith("card ")), text)


def _shown(number):
    """The device of a card, left as it is."""
    return _open[number] if number in _open else card(number)

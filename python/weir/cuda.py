"""cuda - NVIDIA cards: how many there are, and the one shared device of each.

The plugin is loaded when a function of this module is first called. CUDA's libraries may come from
wheels of this Python: the core finds them through $WEIR_CUDA_LIBS, which is set here unless it is
set already.
"""
from __future__ import annotations

import glob
import os
import sys

from . import _capi as capi
from . import core
from .errors import DeviceError

_count: int | None = None
_why = ""
_open: dict[int, core.Device] = {}        # device by number


def _find_wheels() -> None:
    folders = [folder for path in sys.path if path
               for folder in sorted(glob.glob(os.path.join(path, "nvidia", "*", "lib")))]
    if folders:
        os.environ.setdefault("WEIR_CUDA_LIBS", ":".join(folders))


def count() -> int:
    """The number of usable cards; 0 without a driver or a plugin (why says which is missing)."""
    global _count, _why
    if _count is None:
        _find_wheels()
        found = capi.weir_device_count("cuda")
        _count = max(found, 0)
        _why = (capi.weir_error() if found < 0 else
                "" if found else "the machine has no card that can be used")
    return _count


def why() -> str:
    """Why no card can be used, as a sentence; "" if one can."""
    return "" if count() else _why


def gpu(number: int) -> core.Device:
    """The device of a card: always the same one, reset at each call."""
    if not isinstance(number, int) or isinstance(number, bool):
        raise TypeError(f"the number of a card must be an integer, not {number!r}")
    if not count():
        raise DeviceError(f"there is no CUDA device: {why()}")
    device = _open.get(number)
    if device is None:
        device = _open[number] = core.open_device(f"cuda:{number}", number)
    else:
        device.Reset()
    return device


def memory(number: int) -> tuple[int, int]:
    """(free, total) bytes of a card."""
    counts = _open_gpu(number).memory()
    return counts.unused, counts.total


def query(number: int, verbose: bool = False) -> str:
    """A line that describes a card; verbose: several, with what runs on it."""
    text = _open_gpu(number).info()
    return text if verbose else next(
        (line for line in text.splitlines() if line.startswith("card ")), text)


def _open_gpu(number: int) -> core.Device:
    """The device of a card, not reset if it is open."""
    return _open[number] if number in _open else gpu(number)

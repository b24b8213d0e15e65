"""planning_progress - what is shown while a plan is made: a line on the terminal, or a function.

A plan within a budget may take seconds. On a terminal a line appears on stderr after the first of
them, and goes when the plan is there. set_planning_progress switches it, or names a function.
"""
import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

from . import _capi as capi

AFTER = 1.0     # seconds of planning until the line appears
EVERY = 0.1     # seconds between two lines


class PlanningProgress(NamedTuple):
    """How far the planning of a step has come."""

    phase: str              # the part at work: "passes", "kernels", "search" or "placement"
    fraction: float | None  # of this part that is done; None: unknown
    seconds: float          # since planning began
    plans: int              # tried so far
    best_bytes: int         # live bytes of the best plan of the search at work; 0: none yet
    best_extra_ms: float    # that this plan adds to a step


_Callback = Callable[[PlanningProgress], object]

_how: "_Callback | bool | None" = None      # None: a line if stderr is a terminal
_next = 0.0         # seconds of planning at which the next line is due
_width = 0          # of the line that is on the screen


def set_planning_progress(progress: "_Callback | bool | None") -> None:
    """What happens while plans are made, from now on, on all devices. None, as at the start: a line
    on stderr if that is a terminal. True: the line in any case. False: nothing. A function is
    called with a PlanningProgress up to 50 times a second; if it returns False the planning stops
    with weir.CancelledError, and an exception of it stops the planning too. Plans never depend on
    it. Ctrl-C stops planning whatever is set here."""
    global _how
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise TypeError(f"set_planning_progress: {progress!r} is no function, True, False or None")
    _how = progress
    capi.set_planning_hook(None if progress is False else _note)


def _note(phase: str, fraction: float, seconds: float, plans: int, best_bytes: int,
          best_extra_ms: float) -> object:
    now = PlanningProgress(phase, None if fraction < 0 else fraction, seconds, plans, best_bytes,
                           best_extra_ms)
    if callable(_how):
        return _how(now)
    if seconds >= _next and (_how or _is_terminal()):
        _show(now)
    return True


def _is_terminal() -> bool:
    try:
        return sys.stderr is not None and sys.stderr.isatty()
    except ValueError:          # closed
        return False


def line(now: PlanningProgress) -> str:
    """What the terminal shows: "planning 12 s  search 40 %  1,234 plans  best 512.0 MB + 3.1 ms".
    """
    words = [f"planning {now.seconds:.0f} s", now.phase]
    if now.fraction is not None:
        words[1] += f" {100 * now.fraction:.0f} %"
    if now.plans:
        words.append(f"{now.plans:,} plans")
    if now.best_bytes:
        words.append(f"best {now.best_bytes / 1e6:.1f} MB + {now.best_extra_ms:.1f} ms")
    return "  ".join(words)


def _show(now: PlanningProgress) -> None:
    global _next, _width
    _next = now.seconds + EVERY
    text = line(now)
    _write("\r" + text.ljust(_width))
    _width = len(text)


def _write(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):      # a closed terminal ends no plan
        sys.stderr.write(text)
        sys.stderr.flush()


@contextlib.contextmanager
def shown() -> Iterator[None]:
    """Plans may be made inside; afterwards the line is gone."""
    global _next, _width
    _next, _width = AFTER, 0
    try:
        yield
    finally:
        if _width:
            _write("\r" + " " * _width + "\r")
        _width = 0


set_planning_progress(None)

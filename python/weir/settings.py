"""settings - what holds for the whole package: seed, gradients on or off, what was built in."""
import platform

import numpy as np

from . import capi
from . import cards
from . import core
from .engine import no_grad  # noqa: F401


def cpu():
    """The default device."""
    return core.cpu()


def set_seed(seed, device=None):
    """Starts the random numbers of a device (the default one) anew: initialisers, dropout."""
    (core.cpu() if device is None else device).SetRandSeed(seed)


def config():
    """What show_config prints, as a string."""
    cuda = "; ".join(cards.query(n) for n in range(cards.count())) or f"none ({cards.why()})"
    return (f"{core.cpu().info().rstrip()}\n"
            f"CUDA: {cuda}\n"
            f"Python {platform.python_version()}, NumPy {np.__version__}, "
            f"module {capi.__file__.removesuffix('/capi.py')}")


def show_config():
    """Prints version, instruction set, kernels chosen, threads, CUDA, Python and NumPy."""
    print(config(), flush=True)


def progress(iterable, **options):
    """The iterable with tqdm's progress bar, if tqdm is installed; options are tqdm's."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return iterable
    return tqdm(iterable, **options)

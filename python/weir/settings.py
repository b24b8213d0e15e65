"""settings - settings of the whole package: seed, gradients on or off, mixed precision."""
from __future__ import annotations

import contextlib
import platform
from collections.abc import Iterable, Iterator
from typing import TypeVar

import numpy as np

from . import _capi as capi
from . import cuda
from . import core
from .taping import no_grad  # noqa: F401
from .typing import DTypeLike

__all__ = ["autocast", "config", "cpu", "no_grad", "progress", "set_seed", "show_config", "T"]


T = TypeVar("T")


def cpu() -> core.Device:
    """The default device."""
    return core.cpu()


@contextlib.contextmanager
def autocast(dtype: DTypeLike = "bfloat16", device: core.Device | None = None) -> Iterator[None]:
    """Inside, matrix products, linear layers, convolutions and attention of a device (the default
    one) are computed in bfloat16 or float16: float32 inputs are cast by recorded operations,
    through which gradients come back in float32. Norms, softmax, sums and losses are computed in
    float32; parameters stay what they are. "float32": not inside.

    Gradients may be asked for inside or after; those of float16 need a scaled loss: LossScaler of
    weir.opt.
    """
    handle = (core.cpu() if device is None else device).handle
    capi.weir_autocast_begin(handle, core.core_dtype(core.dtype_number(dtype)))
    try:
        yield
    finally:
        capi.weir_autocast_end(handle)


def set_seed(seed: int, device: core.Device | None = None) -> None:
    """Seeds the random numbers of a device (the default one): initialisers, dropout."""
    (core.cpu() if device is None else device).SetRandSeed(seed)


def config() -> str:
    """What show_config prints, as a string."""
    found = "; ".join(cuda.query(n) for n in range(cuda.count())) or f"none ({cuda.why()})"
    return (f"{core.cpu().info().rstrip()}\n"
            f"CUDA: {found}\n"
            f"Python {platform.python_version()}, NumPy {np.__version__}, "
            f"module {capi.__file__.removesuffix('/_capi.py')}")


def show_config() -> None:
    """Prints version, instruction set, kernels chosen, threads, CUDA, Python and NumPy."""
    print(config(), flush=True)


def progress(iterable: Iterable[T], **options: object) -> Iterable[T]:
    """The iterable with tqdm's progress bar, if tqdm is installed; options are tqdm's."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return iterable
    bar: Iterable[T] = tqdm(iterable, **options)        # type: ignore[call-overload]
    return bar

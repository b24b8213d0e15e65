"""sparse - sums of the large elements of a vector: Deep Gradient Compression, arXiv 1712.01887, and
sums over ranks of what each of them sends.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from weir import _capi as capi
from weir import core
from weir.errors import DtypeError
from weir.typing import Handle

if TYPE_CHECKING:
    from typing_extensions import Buffer
    from ..script_operator import Operand
    from . import Communicator


def above(comm: Communicator, x: Handle, least: float) -> tuple[Handle, Handle]:
    """(sum over the ranks, rest of this one) of the elements of x (n) that are `least` or more
    without their sign. How many they are is not known to a plan, so zeros are sent for the rest."""
    kind, shape = capi.weir_tensor_desc(x)
    limit = capi.weir_fill(comm.device.handle, (kind, ()), float(least))
    none = capi.weir_fill(comm.device.handle, (kind, shape), 0.0)
    large = capi.weir_ge(capi.weir_abs(x), limit)
    sent = capi.weir_where(large, x, none)
    return capi.weir_all_reduce(comm.handle, sent), capi.weir_where(large, none, x)


def largest(comm: Communicator, x: Handle, share: float) -> tuple[Handle, Handle]:
    """(sum over the ranks, rest of this one) of the int(n share) elements of x (n), at least one,
    that are largest without their sign: values and positions are sent."""
    kind, shape = capi.weir_tensor_desc(x)
    k = min(max(1, int(shape[0] * share)), shape[0])
    values, positions, rest = _chosen(comm, x, k)
    total = capi.weir_fill(comm.device.handle, (kind, shape), 0.0)
    total = capi.weir_scatter_add(total, capi.weir_all_gather(comm.handle, positions),
                                  capi.weir_all_gather(comm.handle, values))
    return total, rest


def _choose(reads: list[Operand], writes: list[Operand]) -> None:
    """Values and positions of the largest elements, in the order of positions, and x without them.
    Of equal ones the first are chosen."""
    (_, x), = reads
    if x is None:
        return
    (desc, values), (_, positions), (_, rest) = writes
    array = np.frombuffer(x, core.numpy_dtype(core.singa_dtype(desc[0])))
    order = np.argsort(-np.abs(array), kind="stable")
    chosen = np.sort(order[:desc[1][0]]).astype(np.int32)
    left = array.copy()
    left[chosen] = 0
    for data, what in ((values, array[chosen]), (positions, chosen), (rest, left)):
        if data is not None:
            data[:] = memoryview(cast("Buffer", np.ascontiguousarray(what))).cast("B")


def _chosen(comm: Communicator, x: Handle, k: int) -> list[Handle]:
    kind, shape = capi.weir_tensor_desc(x)
    if kind == capi.WEIR_BF16:
        raise DtypeError("sparse sums by topK choose in NumPy, which has no bfloat16")
    owner, made = capi.callback(None, "largest", _choose, None, [x],
                                [(kind, (k,)), (capi.WEIR_I32, (k,)), (kind, shape)])
    comm.device.hold(owner)
    return made

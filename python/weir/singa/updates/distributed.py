"""distributed - SINGA's DistOpt: an optimiser whose gradients are summed over several processes.

All ranks train one model, each on data of its own. The wrapped optimiser clips, scales and updates
as it does alone; between the way back and that stands the mean over the ranks. Its sums go in the
order of ranks, so all ranks have the same bits, and for one micro-batch a rank they do not depend
on how gradients are joined into messages. Running statistics of batch norm are those of all ranks.
"""
from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from weir import _capi as capi
from weir import core
from weir.typing import Handle
from .. import singa_wrap as singa
from ..asserted import DeviceError, StateError
from ..comm.nccl import Communicator, NcclIdHolder
from ..raw.tensor import CTensor
from ..tensor import Tensor
from .launcher import refuse_launcher
from .scaler import zeros_state
from .statistics import BatchStatistics

if TYPE_CHECKING:
    from ..opt import Optimizer
    Wrapped: TypeAlias = Optimizer      # __getattr__ gives what the optimiser has
else:
    Wrapped = object

Pair: TypeAlias = tuple[Tensor, Tensor]                 # a parameter, its gradient
Sum: TypeAlias = Callable[[int, Sequence[Handle]], Sequence[Handle]]   # of message number i

THRESHOLD = 2097152     # elements: SINGA's size of a message


_usual: list[Callable[[], Optimizer]] = []


def set_usual(make: Callable[[], Optimizer]) -> None:
    """What makes the optimiser that DistOpt() wraps: weir.opt, which this module cannot import,
    gives SGD."""
    _usual.append(make)


def _raw(t: CTensor | Tensor) -> CTensor:
    return t.data if isinstance(t, Tensor) else t


class DistOpt(Wrapped):
    """An optimiser (SGD) over several processes: those that weir launch or mpirun has started, or
    world_size processes of one machine that got the same NcclIdHolder. One process alone works as
    the optimiser it is given. buffSize changes nothing.

    Parameters must be equal on all ranks before the first step: give all the same seed, or call
    share(model). All ranks must then call the same methods, and train models and batches of the
    same shapes.
    """

    def __init__(self, opt: Optimizer | None = None, nccl_id: NcclIdHolder | None = None,
                 local_rank: int | None = None, world_size: int | None = None,
                 buffSize: int = 4194304) -> None:
        self.opt: Optimizer = _usual[-1]() if opt is None else opt
        self.communicator: Communicator = Communicator(local_rank, world_size, nccl_id, buffSize)
        self.world_size: int = self.communicator.world_size
        self.global_rank: int = self.communicator.global_rank
        self.local_rank: int = self.communicator.local_rank
        if self.world_size == 1:
            refuse_launcher()
        self._statistics = BatchStatistics(self.communicator.ranks)
        self._equal: set[str] = set()           # parameters that ranks have compared
        self._residuals: list[Tensor] = []      # of sparse messages: what was not sent
        self._part = 0                          # the next part of a partial update

    def __call__(self, loss: Tensor) -> None:
        self.backward_and_update(loss)

    def __getattr__(self, name: str) -> object:
        if name == "opt":
            raise AttributeError(name)
        return getattr(self.opt, name)

    def share(self, model: Iterable[Tensor] | Tensor) -> None:
        """All ranks get the parameters and states of rank 0: of a model, or Tensors."""
        self.communicator.ranks.share(model)

    @contextlib.contextmanager
    def batch_statistics(self) -> Iterator[None]:
        """Inside, batch norm in training keeps the statistics of its batches; at the end those of
        all ranks are applied, in the order of ranks, so running statistics are the same on all. A
        model's steps do so by themselves if this is its `optimizer`; other loops put forward pass
        and update inside. All ranks must call the same layers."""
        device = self.communicator.ranks.device
        if self.world_size == 1 or device.statistics is self._statistics:
            yield
            return
        before, device.statistics = device.statistics, self._statistics
        try:
            yield
        except BaseException:
            self._statistics.forget()
            raise
        finally:
            device.statistics = before
        self._statistics.apply()

    # -- SINGA's methods on raw tensors --

    def update(self, param: Tensor, grad: Tensor) -> None:
        """Applies the mean of a gradient that all_reduce has summed."""
        if self.world_size > 1:
            mean = capi.weir_affine(grad.data.handle, 1 / self.world_size, 0.0)
            grad = Tensor(data=singa.result(mean, grad.device), requires_grad=False)
        self.opt.apply(param.name, param, grad)

    def all_reduce(self, tensor: CTensor | Tensor) -> None:
        """The tensor becomes the sum over all ranks."""
        self.communicator.synch(_raw(tensor))

    def fused_all_reduce(self, tensors: Sequence[CTensor | Tensor], send: bool = True) -> None:
        """The tensors become their sums, sent as one message; send=False does nothing."""
        self.communicator.fusedSynch([_raw(t) for t in tensors], send)

    def all_reduce_half(self, tensor: CTensor | Tensor) -> None:
        """As all_reduce, sent as float16."""
        self.communicator.synchHalf(_raw(tensor))

    def fused_all_reduce_half(self, tensors: Sequence[CTensor | Tensor], send: bool = True) -> None:
        """As fused_all_reduce, sent as float16."""
        self.communicator.fusedSynchHalf([_raw(t) for t in tensors], send)

    def sparsification(self, tensor: CTensor | Tensor,
                       accumulation: CTensor | Tensor | None = None, spars: float = 0.05,
                       topK: bool = False) -> None:
        """The tensor becomes the sum of what is large on each rank; accumulation keeps the rest."""
        self.fused_sparsification([tensor], accumulation, spars, topK)

    def fused_sparsification(self, tensors: Sequence[CTensor | Tensor],
                             accumulation: CTensor | Tensor | None = None, spars: float = 0.05,
                             topK: bool = False) -> None:
        """The same of several tensors, whose elements accumulation keeps one behind the other."""
        self.communicator.fusedSparsification(
            [_raw(t) for t in tensors], None if accumulation is None else _raw(accumulation),
            spars, topK)

    def wait(self) -> None:
        """Returns at once: what was sent has arrived."""
        self.communicator.wait()

    # -- gradients --

    def _check(self, param: Tensor) -> None:
        """Ranks that begin with other parameters would never meet."""
        ranks = self.communicator.ranks
        if param.device is not ranks.device:
            raise DeviceError(f"DistOpt: parameter '{param.name}' is on {param.device}, the "
                              f"communicator's device is {ranks.device}: set_default_device before "
                              "making DistOpt")
        key = self.opt._key(param.name, param)
        if key in self._equal:
            return
        if not ranks.equal_elements(param):
            raise StateError(f"DistOpt: parameter '{param.name}' differs between ranks: give all "
                             "the same seed, or call share(model)")
        self._equal.add(key)

    def _messages(self, pairs: Iterable[Pair], threshold: int) -> Iterator[list[Pair]]:
        """Pairs of one message each: alone above the threshold in elements, else joined."""
        joined: list[Pair] = []
        count = 0
        for param, grad in pairs:
            self._check(param)
            if grad.size() > threshold:
                yield [(param, grad)]
                continue
            if joined and grad.dtype != joined[0][1].dtype:
                yield joined
                joined, count = [], 0
            joined.append((param, grad))
            count += grad.size()
            if count > threshold:
                yield joined
                joined, count = [], 0
        if joined:
            yield joined

    def _means(self, pairs: Iterable[Pair], threshold: int, total: Sum) -> Iterator[Pair]:
        """Pairs with the means of the gradients over all ranks."""
        for i, message in enumerate(self._messages(pairs, threshold)):
            params = [param for param, _ in message]
            sums = total(i, [grad.data.handle for _, grad in message])
            message.clear()
            for param, handle in zip(params, sums):
                mean = capi.weir_affine(handle, 1 / self.world_size, 0.0)
                yield param, Tensor(data=singa.result(mean, param.device), requires_grad=False,
                                    name=f"{param.name}_g")

    def _within(self, pairs: Iterable[Pair], limit: float) -> Iterator[Pair]:
        """Pairs whose gradients have no element beyond the limit."""
        for param, grad in pairs:
            [handle], _ = capi.clip([param.data.handle], [grad.data.handle], limit, False)
            yield param, Tensor(data=singa.result(handle, param.device), requires_grad=False,
                                name=grad.name)

    def _train(self, loss: Tensor, threshold: int, total: Sum, limit: float | None = None) -> None:
        """limit: of the elements of each rank's gradients; None: they stay."""
        def exchange(pairs: Iterable[Pair]) -> Iterable[Pair]:
            if limit is not None:
                pairs = self._within(pairs, limit)
            return pairs if self.world_size == 1 else self._means(pairs, threshold, total)
        self.opt.exchange = exchange
        try:
            self.opt(loss)
        finally:
            self.opt.exchange = None

    # -- steps --

    def backward_and_update(self, loss: Tensor, threshold: int = THRESHOLD) -> None:
        """Gradients of the loss, their means over all ranks, updates. threshold: in elements;
        smaller gradients are joined up to it and sent as one message. It changes no bit."""
        self._train(loss, threshold, lambda _, grads: self.communicator.sums(grads))

    def backward_and_update_half(self, loss: Tensor, threshold: int = THRESHOLD,
                                 clipping: bool = False, clip_Value: float = 100) -> None:
        """The same, gradients sent as float16, limited to clip_Value first if `clipping`."""
        self._train(loss, threshold, lambda _, grads: self.communicator.sums(grads, half=True),
                    float(clip_Value) if clipping else None)

    def backward_and_partial_update(self, loss: Tensor, threshold: int = THRESHOLD) -> None:
        """Each rank updates by its own gradients; then one part of the parameters, another in each
        step, becomes its mean over all ranks. StateError while a graph records, which would keep to
        one part."""
        if self.world_size > 1 and loss.device.recording:
            raise StateError("DistOpt.backward_and_partial_update takes another part of the "
                             "parameters in each step: train with the graph off")
        pairs: list[Pair] = []

        def passed(given: Iterable[Pair]) -> Iterator[Pair]:
            for param, grad in given:
                self._check_first(param)
                pairs.append((param, param))
                yield param, grad
        self.opt.exchange = passed if self.world_size > 1 else None
        try:
            self.opt(loss)
        finally:
            self.opt.exchange = None
        if pairs:
            self._average(pairs, threshold)

    def _check_first(self, param: Tensor) -> None:
        """Parameters drift apart between their turns: they are compared before the first step."""
        if self._part == 0:
            self._check(param)
        self._equal.add(self.opt._key(param.name, param))

    def _average(self, pairs: Sequence[Pair], threshold: int) -> None:
        messages = list(self._messages(pairs, threshold))
        params = [param for param, _ in messages[self._part % len(messages)]]
        sums = self.communicator.sums([param.data.handle for param in params])
        for param, handle in zip(params, sums):
            param.data.put(capi.weir_affine(handle, 1 / self.world_size, 0.0))
        self._part += 1

    def backward_and_sparse_update(self, loss: Tensor, threshold: int = THRESHOLD,
                                   spars: float = 0.05, topK: bool = False,
                                   corr: bool = True) -> None:
        """Gradients of the loss, of which each rank sends only the large elements: by topK the
        share `spars` of them, else those from `spars` on. corr: what is not sent is added to the
        next step's gradients. With topK, k values and positions are sent; without it zeros are sent
        for the small ones, since a plan has to know sizes."""
        def total(i: int, grads: Sequence[Handle]) -> Sequence[Handle]:
            rest = self._residual(i, loss.device, grads) if corr else None
            return self.communicator.sparse_sums(grads, rest, spars, topK)
        self._train(loss, threshold, total)

    backward_and_spars_update = backward_and_sparse_update

    def _residual(self, i: int, device: core.Device, grads: Sequence[Handle]) -> Tensor:
        """What was not sent of message number i so far."""
        descs = [capi.weir_tensor_desc(grad) for grad in grads]
        shape = (sum(math.prod(shape) for _, shape in descs),)
        if i == len(self._residuals):
            self._residuals.append(zeros_state(shape, device, core.singa_dtype(descs[0][0])))
        rest = self._residuals[i]
        if rest.shape != shape:
            raise StateError(f"DistOpt.backward_and_sparse_update: message {i} has {shape[0]} "
                             f"elements, {rest.shape[0]} in the first step: gradients and "
                             "threshold must stay")
        return rest

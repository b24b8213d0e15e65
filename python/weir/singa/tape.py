"""tape - operators and gradients: a call, the tape behind it, the way back.

An operator of the package (Core) records its call on the core's tape; its backward is the core's
vector-Jacobian product between its inputs and its results. An operator of a script (a direct
subclass of Operator with a forward and a backward of its own) runs as one callback of the core.

An operator holds no elements but those of tensors that store gradients: of its inputs and results
it keeps hollow handles, so a value dies when the script drops it.
"""
from __future__ import annotations

import functools
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias, Union, cast

import numpy as np

from weir import _capi as capi, _swig
from weir import core
from weir.errors import InvalidError
from . import script_operator
from .taping import Taped, is_training, prepare, taping
from weir.typing import Array, Handle, Number, Shape
from .raw.tensor import CTensor, result

if TYPE_CHECKING:
    from .tensor_class import Tensor


# The gradient of a result, as backward is given it: None where none flows.
Gradient: TypeAlias = Union[CTensor, Taped, Number, None]
# What backward gives: the gradient of the one input, or those of all inputs.
Gradients: TypeAlias = Union[CTensor, None, Sequence[CTensor | None]]
# Of an operator's input: its creator, its id, the Tensor if it stores its gradient, does it?
Source: TypeAlias = tuple["Operator", int, Union[Taped, None], bool]


class Operator:
    """What a script derives from: forward(*raw) -> raw or tuple, backward(*raw dy) -> the same.

    Calling the operator with Tensors gives a tuple of Tensors whose creator it is.
    """

    op_count: int = 0

    def __init__(self, name: str | None = None) -> None:
        if name is None:
            kind = type(self)
            name = f"{kind.__name__}#{kind.op_count}"
            kind.op_count += 1
        self.name = name
        self._src: list[Source] | None = []     # None: those of the Call
        self.y_id2idx: dict[int, int] = {}
        self.requires_grad: bool = True
        # Of the last call in training: (device, its inputs, its results), or what has them.
        self._call: tuple[core.Device, list[Handle], list[Handle]] | _swig.Call | None = None
        self.takes_number: bool = False     # backward of a loss gets dy as SINGA's: a number

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        cls.op_count = 0
        if "backward" in vars(cls) and cls._run is Operator._run:
            setattr(cls, "backward", _through_core(cls.backward))

    @property
    def src(self) -> list[Source]:
        """Of each input of the last call in training: creator, id, the Tensor if it stores its
        gradient, whether it does."""
        if self._src is None:
            self._src = _sources(cast("_swig.Call", self._call))
        return self._src

    @src.setter
    def src(self, src: list[Source]) -> None:
        self._src = src

    def __call__(self, *xs: Tensor) -> tuple[Tensor, ...]:
        return self._do_forward(*xs)

    def _do_forward(self, *xs: Tensor) -> tuple[Tensor, ...]:
        for x in xs:
            if not isinstance(x, Taped):
                raise TypeError(f"{self.name}: inputs must be Tensors, not {type(x)}")
        self.src = [(x.creator, id(x), x if x.stores_grad else None, x.stores_grad)
                    for x in xs] if taping() else []
        self.requires_grad = any(x.requires_grad for x in xs)
        results = self._run(xs)
        ys = tuple(xs[0].made(data=y, requires_grad=self.requires_grad, creator=self,
                              name=self.output_name(i)) for i, y in enumerate(results))
        self.y_id2idx = {id(y): i for i, y in enumerate(ys)}
        return ys

    def _run(self, xs: Sequence[Tensor]) -> Sequence[CTensor]:
        """Raw results of a call with these Tensors."""
        taped = taping() and self.requires_grad
        self.takes_number = False
        handles, results = script_operator.run(self, xs, taped)
        self._remember(xs[0].device, handles, results if taped else None)
        return results

    def _remember(self, device: core.Device, handles: Sequence[Handle],
                  results: Sequence[CTensor] | None) -> None:
        """Keeps hollow handles of inputs and results, with which gradients are requested."""
        self._call = None if results is None else (
            device, [capi.weir_hollow(handle) for handle in handles],
            [capi.weir_hollow(y.handle) for y in results])

    def _product(self, dys: Sequence[Gradient]) -> tuple[CTensor | None, ...]:
        """The core's vector-Jacobian product of the last call: a list of handles or None."""
        call = self._call.handles() if isinstance(self._call, _swig.Call) else self._call
        device, inputs, outputs = cast("tuple[core.Device, list[Handle], list[Handle]]", call)
        handles = [None if dy is None else _given(dy, y) for dy, y in zip(dys, outputs)]
        handles += [None] * (len(outputs) - len(handles))
        with device.retaining():
            dxs = capi.vjp(outputs, handles, inputs)
        return tuple(None if dx is None else _gradient(dx, device) for dx in dxs)

    def _do_backward(self, *dys: Gradient) -> tuple[CTensor | None, ...]:
        dxs = self.backward(*dys)
        return tuple(dxs) if isinstance(dxs, (tuple, list)) else (cast("CTensor | None", dxs),)

    if TYPE_CHECKING:       # what a script defines may take any number of arguments
        forward: Callable[..., CTensor | Sequence[CTensor]]
        backward: Callable[..., Gradients]
    else:
        def forward(self, *xs):
            """Raw tensors in, a raw tensor or a tuple of them out."""
            raise NotImplementedError(f"{type(self).__name__} does not define forward")

        def backward(self, *dys):
            """Gradients of the results in, raw tensors or None; those of the inputs out, in their
            order."""
            raise NotImplementedError(f"{type(self).__name__} does not define backward")

    def output_name(self, idx: int) -> str:
        """The name of result number idx."""
        return f"{self.name}:{idx}"

    def grad_name(self, idx: int) -> str:
        """The name of the gradient of result number idx."""
        return f"{self.name}_g"

    def get_params(self) -> list[Tensor]:
        """The parameters that the operator owns: none."""
        return []


Operation = Operator


class Dummy(Operator):
    """The creator of a tensor that no operator made; its attributes are the tensor's. None: of one
    that no longer exists."""

    def __init__(self, tensor: Tensor | None, name: str | None = None) -> None:
        self._tensor = (lambda: None) if tensor is None else weakref.ref(tensor)
        super().__init__(tensor.name if tensor is not None and name is None else name)
        self.requires_grad = False

    def output_name(self, idx: int) -> str:
        return self.name

    def __getattr__(self, attr: str) -> object:
        tensor = self.__dict__["_tensor"]()
        if tensor is None:
            raise AttributeError(f"the tensor of {self.name} no longer exists")
        return getattr(tensor, attr)


def made_at_once(made_by: type[Operator] | tuple[object, ...], y: Tensor) -> Operator:
    """The creator of y, which the operator that made_by says made outside of training: it has no
    gradient and no sources. It is a class of operators, or a tuple of it and its arguments."""
    kind, *args = made_by if isinstance(made_by, tuple) else (made_by,)
    operator = cast("Callable[..., Operator]", kind)(*args)
    operator.requires_grad = y.requires_grad
    operator.y_id2idx = {id(y): 0}
    return operator


def operator_of(call: _swig.Call) -> Operator:
    """The operator of a call that was made without one: the same as long as it lives."""
    made = cast("Operator | None", call.operator and call.operator())
    if made is None:
        kind, *args = call.made_by if isinstance(call.made_by, tuple) else (call.made_by,)
        made = cast("Callable[..., Operator]", kind)(*args)
        made._call, made._src = call, None
        made.y_id2idx = {call.result: 0}
        call.operator = weakref.ref(made)
    return made


def _sources(call: _swig.Call) -> list[Source]:
    """What Operator.src says of a call. A Dummy stands for a Tensor that nothing made."""
    found: list[Source] = []
    for creator, holder, number, stores in call.sources():
        x = cast("Tensor", holder() if isinstance(holder, weakref.ref) else holder)
        if isinstance(creator, _swig.Call):
            creator = operator_of(creator)
        elif creator is None and isinstance(x, Taped) and x._creator is None:
            creator = x.creator
        made_by = Dummy(None) if creator is None else cast(Operator, creator)
        found.append((made_by, number, x if stores else None, stores))
    return found


def _through_core(backward: Callable[..., Gradients]) -> Callable[..., Gradients]:
    """The backward of a script's operator: called by a script it is the core's product of the call,
    which calls it on the scratch device, or records that."""
    @functools.wraps(backward)
    def wrapper(self: Operator, *dys: Gradient) -> Gradients:
        if self._call is None or core.in_operator():
            return backward(self, *dys)
        dxs = self._product(dys)
        return dxs[0] if len(dxs) == 1 else dxs
    return wrapper


def _gradient(handle: Handle, device: core.Device) -> CTensor:
    """The raw tensor of a gradient: often the very elements of another one."""
    return CTensor.over(core.Value.of(handle, device, shared=True))


def _given(dy: Tensor | Gradient, y: Handle) -> Handle:
    """The handle of a gradient of y that a script gives, safe from later changes of dy."""
    dtype, shape = capi.weir_tensor_desc(y)
    if isinstance(dy, (int, float, np.integer, np.floating)):
        return capi.weir_fill(capi.weir_tensor_device(y), (dtype, shape), float(dy))
    value = (dy.data if isinstance(dy, Taped) else cast("CTensor", dy)).value
    handle = value.handle
    if value.owned and not value.device.recording:
        handle = capi.weir_copy(handle)
    else:
        value.share()
    return handle if value.shape == shape else capi.weir_reshape(handle, shape)


class Core(Operator):
    """An operator of the package: forward calls the core, backward is the same for all."""

    single = True       # forward of one input: backward gives one gradient, not a tuple of one

    def _run(self, xs: Sequence[Tensor]) -> Sequence[CTensor]:
        raws = [x.data for x in xs]
        if not (taping() and self.requires_grad):
            return self._results(self.forward(*raws))
        for raw in raws:
            raw.handle              # a view looks at its base outside the tape
        device = raws[0].device()
        capi.weir_no_grad_end(device.handle)
        try:
            seen = set()
            for i, x in enumerate(xs):
                handle = prepare(x)
                if capi.address(handle) in seen:    # the same input twice: each its own gradient
                    handle = capi.weir_reshape(handle, x.shape)
                seen.add(capi.address(handle))
                if handle is not raws[i].value.handle:
                    raws[i] = result(handle, device)
            results = self._results(self.forward(*raws))
        finally:
            capi.weir_no_grad_begin(device.handle)
        self._remember(device, [raw.handle for raw in raws], results)
        return results

    @staticmethod
    def _results(ys: CTensor | Sequence[CTensor]) -> Sequence[CTensor]:
        return (ys,) if isinstance(ys, CTensor) else ys

    def backward(self, *dys: Gradient) -> Gradients:
        """Gradients of the inputs as raw tensors, given those of the results (None: none)."""
        if self._call is None:
            raise RuntimeError(f"{self.name} was not called in training: it has no gradient")
        dxs = self._product(dys)
        return dxs[0] if len(dxs) == 1 and self.single else dxs


class Loss(Core):
    """An operator whose backward may be called without a gradient: 1."""

    def backward(self, *dys: Gradient) -> Gradients:
        return super().backward(*(dys or (1.0,)))


# ---- the way back ----

def infer_dependency(op: Operator) -> tuple[Counter[Operator], Counter[int]]:
    """(Counter operator -> consumers, Counter tensor id -> uses) of what op was made from."""
    consumers, uses = Counter({op: 0}), Counter[int]()
    waiting = deque([op])
    while waiting:
        for source, tensor_id, _, _ in waiting.pop().src:
            if source not in consumers:
                waiting.append(source)
            consumers[source] += 1
            uses[tensor_id] += 1
    return consumers, uses


def stored(op: Operator) -> list[Tensor]:
    """Tensors among the sources of op, near and far, that store a gradient."""
    found: dict[int, Tensor] = {}
    seen, waiting = {op}, deque([op])
    while waiting:
        for source, tensor_id, tensor, stores in waiting.pop().src:
            if stores and tensor is not None:
                found[tensor_id] = cast("Tensor", tensor)
            if source not in seen:
                seen.add(source)
                waiting.append(source)
    return list(found.values())


def no_gradient(y: Tensor) -> InvalidError:
    """The error of a y that no gradient comes from."""
    if not is_training():
        return InvalidError(
            "backward: autograd.training is False, so calls are not remembered for gradients: "
            "before the forward, set weir.autograd.training = True (Model.train() does)")
    return InvalidError(
        f"backward: y {y.name}, of shape {y.shape}, depends on no tensor that stores a gradient "
        "(stores_grad=True; requires_grad=True of weir.randn and the like), or was computed while "
        "autograd.training was False, inside of no_grad or by what gradients do not pass")


def backward(y: Tensor, dy: Tensor | Number | None = None,
             retain_graph: bool = True) -> Iterator[tuple[Tensor, Tensor]]:
    """Yields (tensor, gradient) for every tensor that y depends on and that stores_grad.

    y has one element; dy is its gradient, a number or a Tensor (1 by default). The core computes or
    records all gradients at the first step of the iteration. Outside of training it is an error if
    there is no such tensor; in training there are no pairs then, as in SINGA. (Tensor.backward and
    optimisers want at least one.)

    It may be called again for the same y: what gradients read is kept as long as y and what it was
    made from, with retain_graph=False until their gradients were computed. A graph that is being
    recorded keeps it until its recording ends, so its plan is the same.
    """
    if y.data.Size() != 1:
        raise ValueError(f"backward: y must have one element, its shape is {y.shape}")
    tensors = stored(y.creator)
    if not tensors:
        if not is_training():
            raise no_gradient(y)
        return
    handle = y.data.handle
    seed = None if dy is None else _given(dy, handle)
    y.creator.takes_number = not isinstance(dy, Taped)
    with y.device.retaining(retain_graph):
        grads = capi.gradients(handle, seed, [t.data.handle for t in tensors])
    del handle, seed
    grads.reverse()
    tensors.reverse()
    while tensors:
        tensor, grad = tensors.pop(), grads.pop()
        if grad is not None:
            made = tensor.made(data=_gradient(grad, tensor.device), requires_grad=False,
                               name=f"{tensor.name}_g")
            del grad
            yield tensor, made
            del made


def gradients(y: Tensor, dy: Tensor | Number | None = None,
              retain_graph: bool = True) -> dict[int, Tensor]:
    """{id(tensor): gradient} of backward's pairs."""
    return {id(tensor): grad for tensor, grad in backward(y, dy, retain_graph)}


# ---- helpers that operators of scripts use ----

def axis_helper(y_shape: Shape, x_shape: Shape) -> Shape:
    """The axes of y along which x was repeated to be broadcast to it, as a tuple."""
    new = len(y_shape) - len(x_shape)
    return tuple(i for i, size in enumerate(y_shape) if i < new or x_shape[i - new] != size)


def back_broadcast(y_shape: Shape, x_shape: Shape, x: CTensor) -> CTensor:
    """A raw tensor of y's shape summed to the shape of what was broadcast to y."""
    axes = axis_helper(y_shape, x_shape)
    handle = x.handle
    if axes:
        handle = capi.weir_sum(handle, sum(1 << axis for axis in axes), True)
    return result(capi.weir_reshape(handle, x_shape), x.device())


def ctensor2numpy(x: CTensor) -> Array:
    """A NumPy array of a raw tensor."""
    return x.to_numpy()


def make_slice(arr: Array, axis: int, i: int) -> tuple[slice | int, ...]:
    """What indexes an array at i of one axis, all of the others."""
    index: list[slice | int] = [slice(None)] * arr.ndim
    index[axis] = i
    return tuple(index)

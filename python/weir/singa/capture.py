"""capture - recorded graphs of a method: one for each signature of its arguments.

The first call with a signature (shapes and types of Tensors, values of all else) records the
function and plans it, once; every call runs the plan.

Inputs. The graph reads the memory of the Tensors that it was recorded with: a script that writes
new data into the same Tensors pays for no copy. Other Tensors of the signature are copied into that
memory at each call. If the first ones are still alive by then, they move to memory of their own
beforehand, so no Tensor of a script ever changes its elements.

Results. Each call returns new Tensors. They lie in memory that the graph writes until it runs
again; those that are still alive by then are copied out before. So what a call returned keeps its
elements, and what was dropped costs nothing.
"""
from __future__ import annotations

import functools
import inspect
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np

from weir import _capi as capi
from weir import core
from weir import errors
from weir import graph_file
from weir.graph import Graph
from weir.options import PlanOptions
from weir.typing import Budget, Handle, Path, Shape
from . import singa_wrap as singa
from .asserted import InvalidError
from .layers.base import first_tensor
from .python_state import PythonState
from .raw.view import View
from .tensor import Tensor

if TYPE_CHECKING:
    from .model import Model

How: TypeAlias = tuple[bool, Budget | None, tuple[tuple[str, object], ...]]     # as _plan takes it
Key: TypeAlias = tuple[How, Hashable, tuple[int, ...]]

MAX_GRAPHS = 16         # of one method, unless compile() says otherwise


def _flatten(arg: object, tensors: list[Tensor], kept: list[object]) -> Hashable:
    """The signature of an argument; its Tensors are appended to the list. kept gets objects that
    are known by their identity, which holds as long as they live."""
    if isinstance(arg, Tensor):
        if arg.stores_grad:                 # a parameter: the graph is about this very one
            kept.append(arg.data.value)
            return Tensor, id(arg.data.value)
        tensors.append(arg)
        return Tensor, arg.shape, arg.dtype, arg.device.id()
    if isinstance(arg, (list, tuple)):
        return type(arg), tuple(_flatten(a, tensors, kept) for a in arg)
    if isinstance(arg, dict):
        return dict, tuple((key, _flatten(arg[key], tensors, kept))
                           for key in sorted(arg, key=str))
    if isinstance(arg, np.ndarray):
        return np.ndarray, arg.shape, arg.dtype.str, arg.tobytes()
    try:
        hash(arg)
    except TypeError:
        kept.append(arg)
        return object, id(arg)
    return type(arg), arg


def _sharing(tensors: list[Tensor]) -> tuple[int, ...]:
    """For each Tensor the first in the list that has its memory: a graph of f(x, x) is none of
    f(x, y)."""
    memory = [id(v.base if isinstance(v, View) else v) for v in (t.data.value for t in tensors)]
    return tuple(memory.index(m) for m in memory)


def _sequence_like(like: Sequence[object], items: list[object]) -> object:
    """A list, a tuple or a named tuple of these items."""
    kind = cast("Callable[..., object]", type(like))
    return kind(*items) if hasattr(like, "_fields") else kind(items)


def _replaced(arg: object, tensors: Iterator[Tensor]) -> object:
    """The argument with its Tensors, in the order of _flatten, taken from an iterator."""
    if isinstance(arg, Tensor):
        return arg if arg.stores_grad else next(tensors)
    if isinstance(arg, (list, tuple)):
        new = [_replaced(a, tensors) for a in arg]
        return _sequence_like(arg, new)
    if isinstance(arg, dict):
        by_key = {key: _replaced(arg[key], tensors) for key in sorted(arg, key=str)}
        return {key: by_key[key] for key in arg}
    return arg


def _mapped(results: object, change: Callable[[Tensor], Tensor]) -> object:
    """The results, in the same lists and dicts, with change called on each Tensor."""
    if isinstance(results, Tensor):
        return change(results)
    if isinstance(results, (list, tuple)):
        new = [_mapped(r, change) for r in results]
        return _sequence_like(results, new)
    if isinstance(results, dict):
        return {key: _mapped(value, change) for key, value in results.items()}
    return results


def output_names(results: object) -> list[tuple[str, Tensor]]:
    """(name, Tensor) of what a call returned: keys of dicts, joined by dots, and numbers of other
    places; "out0", "out1", ... at the top."""
    if isinstance(results, Tensor):
        return [("out0", results)]
    inner = results if isinstance(results, dict) else \
        {f"out{i}": r for i, r in enumerate(results)} if isinstance(results, (list, tuple)) else {}
    return [(f"{key}{name}", t) for key, value in inner.items() for name, t in _names_below(value)]


def _names_below(value: object) -> list[tuple[str, Tensor]]:
    if isinstance(value, Tensor):
        return [("", value)]
    inner = value.items() if isinstance(value, dict) else \
        enumerate(value) if isinstance(value, (list, tuple)) else ()
    return [(f".{key}{name}", t) for key, below in inner for name, t in _names_below(below)]


def input_names(method: Callable[..., object], args: Sequence[object]) -> list[str]:
    """A name for each Tensor of the arguments, in the order of _flatten: the parameter's, and a
    number if the argument is a list with more than one."""
    names: list[str] = []
    for name, value in inspect.signature(method).bind(*args).arguments.items():
        tensors: list[Tensor] = []
        _flatten(value, tensors, [])
        names += [name] if len(tensors) == 1 else [f"{name}{i}" for i in range(len(tensors))]
    return names


def _plan(sequential: bool, budget: Budget | None,
          plan: tuple[tuple[str, object], ...]) -> capi.weir_plan_options:
    """How to plan: budget, which all graphs share, and (name, value) of the other options of
    core.plan_options."""
    options = cast("PlanOptions", {"shared_budget": True, **dict(plan), "budget": budget})
    if sequential:
        others = core.pass_names(options.get("disable"))
        options["disable"] = ",".join(filter(None, ("order", others)))
    return core.plan_options(**options)


class Input:
    """Memory that a graph reads: at first that of a Tensor of the call that was recorded."""

    def __init__(self, t: Tensor) -> None:
        value = t.data.value
        if not self._may_share(value):
            value = _twin(value)
        self.handle: Handle = value.handle
        value.lend(self)
        self.shape: tuple[int, ...] = value.shape
        self.dtype: int = value.dtype
        self.lender: weakref.ref[core.Value] = weakref.ref(value)    # whose memory it was
        self._version = value.version
        self.value: core.Value | None = value   # until the recording is over
        self.changes: bool = False          # does the step change it?

    @staticmethod
    def _may_share(value: core.Value) -> bool:
        """True if value is all of its memory and the address is known to nobody else; it becomes a
        state of the device, so that the graph sees what is written."""
        if isinstance(value, View) or value.shown or value.lent:
            return False
        try:
            value.state()
        except errors.StateError:
            return False
        return True

    def recorded(self) -> None:
        """The recording is over: sees whether the step changes the elements."""
        self.changes = cast("core.Value", self.value).version != self._version
        self.value = None

    def fill(self, value: core.Value) -> None:
        """Takes over the elements of value unless they are there already."""
        if value._handle is self.handle:
            return
        lender = self.lender()
        if lender is not None:
            lender.move_out()
        capi.weir_assign(self.handle, value.handle)

    @property
    def bytes(self) -> int:
        """Bytes of the elements."""
        return _bytes(self.shape, self.dtype)


def _bytes(shape: Sequence[int], dtype: int) -> int:
    return int(np.prod(shape, dtype=np.int64)) * singa.SizeOf(dtype)


def _twin(value: core.Value) -> core.Value:
    """A Value like this one, with the same elements, in new memory."""
    twin = core.Value(value.device, value.dtype, value.shape)
    twin.writable()
    twin.put(value.handle)
    return twin


def _like(t: Tensor, value: core.Value) -> Tensor:
    """A Tensor with the attributes of t and these elements."""
    new = t.__class__.__new__(t.__class__)
    new.__dict__.update(t.__dict__)
    new.data = singa.CTensor.over(value)
    new.shape, new.device, new.dtype = t.shape, t.device, t.dtype
    new.requires_grad, new._stores_grad, new._name = t.requires_grad, t._stores_grad, t.name
    return new


class Result:
    """A Tensor that the recorded call returned: memory that each run of the graph writes."""

    def __init__(self, t: Tensor) -> None:
        self.tensor = t
        self.handle: Handle = t.data.value.handle
        self.last: Callable[[], core.Value | None] = lambda: None   # what the last call returned

    def before_run(self) -> None:
        """What an earlier call returned gets memory of its own if it is still referenced."""
        value = self.last()
        if value is not None:
            value.move_out()

    def new(self) -> Tensor:
        """The Tensor for the call at hand."""
        value = core.Value.of(self.handle, self.tensor.device)
        value.lend(self)
        self.last = weakref.ref(value)
        return _like(self.tensor, value)

    @property
    def bytes(self) -> int:
        """Bytes of the elements."""
        return _bytes(self.tensor.shape, self.tensor.dtype)


class Recording:
    """One planned graph: what it reads, what it returns."""

    graph: capi.weir_graph
    held: list[object]

    def __init__(self, device: core.Device, function: Callable[..., object], args: Sequence[object],
                 kwargs: Mapping[str, object], tensors: list[Tensor], kept: list[object],
                 plan: capi.weir_plan_options) -> None:
        self.how: How | None = None
        self.device = device
        self.kept = kept
        self.shapes: list[Shape] = [t.shape for t in tensors]
        self.runs: int = 0
        self.inputs: list[Input] = [Input(t) for t in tensors]
        own = iter([t if t.data.value is i.value else _like(t, cast("core.Value", i.value))
                    for t, i in zip(tensors, self.inputs)])
        args = tuple(_replaced(a, own) for a in args)
        kwargs = cast("dict[str, object]", _replaced(kwargs, own))
        self._plain = not kwargs and all(isinstance(a, Tensor) for a in args)
        self.graph, self.held = self._record(function, args, kwargs, plan)
        for i in self.inputs:
            i.recorded()
        self._plain = self._plain and len(args) == len(self.inputs)

    def _record(self, function: Callable[..., object], args: Sequence[object],
                kwargs: Mapping[str, object],
                plan: capi.weir_plan_options) -> tuple[capi.weir_graph, list[object]]:
        by_value = {id(i.value): n for n, i in enumerate(self.inputs)}
        self.device.begin_graph()
        try:
            results = function(*args, **kwargs)
            self.results: dict[int, Result] = {}    # by the id of the Tensor in self.template
            self.passed: dict[int, int] = {}        # the same: which input is a result
            self.template: object = _mapped(results, lambda t: self._note(t, by_value))
            del results
        except BaseException:
            self.device.drop_graph()
            raise
        return self._end(plan)

    def _end(self, plan: capi.weir_plan_options) -> tuple[capi.weir_graph, list[object]]:
        return self.device.end_graph(plan)

    def _note(self, t: Tensor, by_value: Mapping[int, int]) -> Tensor:
        """Sorts a Tensor that the function returns. It keeps no operators alive: what only those
        name may die before the plan is made."""
        t.creator = None
        value = t.data.value
        if id(value) in by_value:
            self.passed[id(t)] = by_value[id(value)]
        elif (value.base if isinstance(value, View) else value).recorded:
            if id(t) not in self.results:
                self.results[id(t)] = Result(t)
                capi.weir_keep(self.results[id(t)].handle)      # an output in a file, too
        return t

    def fits(self, args: Sequence[object]) -> bool:
        """True if these are Tensors whose memory it reads; False if only a closer look can tell."""
        if not self._plain or len(args) != len(self.inputs):
            return False
        for arg, i in zip(args, self.inputs):
            if not isinstance(arg, Tensor) or arg.data.value._handle is not i.handle:
                return False
        return True

    def fill(self, tensors: list[Tensor]) -> None:
        """Copies what these Tensors hold, in the order of the arguments, to where it is read."""
        for t, i in zip(tensors, self.inputs):
            i.fill(t.data.value)

    def run(self, tensors: Sequence[Tensor]) -> object:
        """Runs the graph once, on inputs that were filled from these Tensors. Returns what the
        recorded call returned, as new Tensors."""
        for result in self.results.values():
            result.before_run()
        self._run()
        self.runs += 1
        for t, i in zip(tensors, self.inputs):
            if i.changes and t.data.value._handle is not i.handle:
                t.data.value.put(i.handle)
        made: dict[int, Tensor] = {}
        return _mapped(self.template, lambda t: self._renewed(t, tensors, made))

    def _run(self) -> None:
        """Ctrl-C waits until the step is done, except in an operator of a script."""
        try:
            capi.weir_graph_run(self.graph)
        except KeyboardInterrupt as error:
            if self.held:
                error.add_note("If an operator of the script was at work, the step ended there: "
                               "updates that were done before stay done, the others are missing.")
            raise

    def _renewed(self, t: Tensor, tensors: Sequence[Tensor], made: dict[int, Tensor]) -> Tensor:
        number = id(t)
        if number in self.passed:
            return tensors[self.passed[number]]
        if number not in self.results:
            return t
        if number not in made:
            made[number] = self.results[number].new()
        return made[number]

    def export(self, path: Path, names: Sequence[str], model: Model,
               keep_previous: bool = False) -> None:
        """Writes the graph to a file: inputs get these names, outputs those of output_names,
        parameters and states the model's."""
        graph_file.export(self.graph, path, self._input_names(names), self._outputs(),
                          _states(model.get_states(), model.get_params()), keep_previous)

    def to_onnx(self, path: Path, names: Sequence[str], outputs: Sequence[str],
                states: Mapping[str, Tensor], params: Mapping[str, Tensor], opset: int,
                external: bool) -> None:
        """The same as an ONNX file. outputs: their names in place of those of output_names."""
        results = self._outputs()
        if outputs:
            results = dict(zip(outputs, results.values()))
        graph_file.export_onnx(self.graph, path, self._input_names(names), results,
                               _states(states, params), opset, external)

    def _input_names(self, names: Sequence[str]) -> dict[str, Handle]:
        return dict(zip(names, (i.handle for i in self.inputs)))

    def _outputs(self) -> dict[str, Handle]:
        named: dict[str, Handle] = {}
        for name, t in output_names(self.template):
            if id(t) in self.passed:
                raise InvalidError(f"export: the output {name!r} is an input of the step, which "
                                   "has no result for it")
            if id(t) in self.results:
                named[name] = self.results[id(t)].handle
        return named

    @property
    def stats(self) -> dict[str, object]:
        """Numbers of this graph, for Model.graph_stats."""
        planned = Graph.planned(self.device, self.graph, self.held).stats
        return {"shapes": self.shapes, "runs": self.runs,
                "input_bytes": sum(i.bytes for i in self.inputs),
                "result_bytes": sum(r.bytes for r in self.results.values()),
                "arena_bytes": planned["arena_bytes"], "plan_ms": planned["plan_ms"]}


class Capture:
    """The recordings of one function of an object, by signature; the least recently used one is
    freed when there are more than `most`."""

    def __init__(self, most: int = MAX_GRAPHS) -> None:
        self._by_signature: OrderedDict[Hashable, Recording] = OrderedDict()
        self._last: Recording | None = None
        self.most: int = most
        self.planned: int = 0
        self.evicted: int = 0
        self._known: set[int] = set()       # hashes of the signatures that were planned
        self._warned = False

    def __call__(self, function: Callable[..., object], args: Sequence[object],
                 kwargs: Mapping[str, object], state: PythonState, how: How) -> object:
        """how: sequential, budget, plan as _plan takes them."""
        last = self._last
        if (last is not None and not kwargs and last.how == how and last.fits(args)
                and not last.device.recording):
            return last.run(cast("Sequence[Tensor]", args))
        found, tensors = self.found(function, args, kwargs, state, how)
        if found is None:
            return function(*args, **kwargs)
        found.fill(tensors)
        return found.run(tensors)

    def found(self, function: Callable[..., object], args: Sequence[object],
              kwargs: Mapping[str, object], state: PythonState,
              how: How) -> tuple[Recording | None, list[Tensor]]:
        """The recording of this signature, made now if it is new, and the Tensors that it
        reads; None in the place of a recording if one is at hand, of which the call is a part."""
        tensors: list[Tensor] = []
        kept: list[object] = []
        signature = _flatten(args, tensors, kept), _flatten(kwargs, tensors, kept)
        first = first_tensor([*args, *kwargs.values()])
        if first is None:
            raise InvalidError("a graph needs a Tensor, or a list of them, among its arguments")
        if first.device.recording:         # a part of the graph at hand
            return None, tensors
        key = how, signature, _sharing(tensors)
        found = self._by_signature.get(key)
        if found is None:
            found = self._record(key, function, args, kwargs, tensors, kept, state)
        self._by_signature.move_to_end(key)
        self._last = found
        return found, tensors

    def _record(self, key: Key, function: Callable[..., object], args: Sequence[object],
                kwargs: Mapping[str, object], tensors: list[Tensor], kept: list[object],
                state: PythonState) -> Recording:
        most, self._last = self.most, None
        self.limit(most - 1)            # before the new one is planned
        self.most = most
        self._note_again(hash(key), tensors, state)
        with state.watched():
            device = cast("Tensor", first_tensor([*args, *kwargs.values()])).device
            found = Recording(device, function, args, kwargs, tensors, kept,
                              _plan(*key[0]))
        found.how = key[0]
        self._by_signature[key] = found
        self.planned += 1
        return found

    def limit(self, most: int) -> None:
        """Keeps at most `most` graphs, from now on."""
        self.most = most
        while len(self._by_signature) > most:
            gone = self._by_signature.popitem(last=False)[1]
            self.evicted += 1
            if gone is self._last:
                self._last = None

    def _note_again(self, number: int, tensors: list[Tensor], state: PythonState) -> None:
        """Warns, once, if a signature is planned again because its graph was freed."""
        if number in self._known and self.evicted and not self._warned:
            self._warned = True
            shapes = ", ".join(str(t.shape) for t in tensors)
            state.warn(f"{state.name}: the graph for {shapes} was freed and is planned again: more "
                       f"than max_graphs={self.most} signatures take turns. Give compile a larger "
                       "max_graphs, or pad batches to fewer shapes")
        self._known.add(number)

    @property
    def graphs(self) -> list[Graph]:
        """The planned graphs as weir.Graph objects, that which ran last at the end."""
        return [Graph.planned(recording.device, recording.graph, recording.held)
                for recording in self._by_signature.values()]

    @property
    def recordings(self) -> list[Recording]:
        """The recordings, that which ran last at the end."""
        return list(self._by_signature.values())


def capture_of(model: Model, name: str) -> Capture:
    """The captured graphs of a method of the model."""
    if name not in model._captures:
        model._captures[name] = Capture(model._max_graphs)
    return model._captures[name]


def _states(states: Mapping[str, Tensor],
            params: Mapping[str, Tensor]) -> list[tuple[str, int, Handle]]:
    """(name, role, tensor) of each."""
    return [(name, capi.WEIR_ROLE_PARAM if name in params else capi.WEIR_ROLE_STATE,
             t.data.value.handle) for name, t in states.items()]


def exported(model: Model, path: Path, method: Callable[..., object], args: Sequence[object],
             train: bool, keep_previous: bool) -> None:
    """Writes the graph of a call of the method to a file. In training that is the one which the
    model runs, recorded now if it is new; else one that is made for this and freed."""
    if train:
        tensors, _ = _given(args)
        function = functools.partial(model._recorded, getattr(method, "__wrapped__"))
        found, tensors = capture_of(model, method.__name__).found(
            function, args, {}, PythonState(model, method),
            (model.sequential, model.budget, model._plan))
        if found is None:
            raise errors.StateError("export: a graph is being recorded; call it between two steps")
    else:
        found = recorded_once(functools.partial(model._evaluated, method), args,
                              model.sequential)
    found.export(path, input_names(functools.partial(method, model), args), model,
                 keep_previous)


def _given(args: Sequence[object]) -> tuple[list[Tensor], list[object]]:
    """The Tensors among the arguments, which have one at least, and the others."""
    tensors: list[Tensor] = []
    kept: list[object] = []
    _flatten(args, tensors, kept)
    if not tensors:
        raise InvalidError("export: inputs has no Tensor")
    return tensors, kept


def recorded_once(function: Callable[..., object], args: Sequence[object],
                  sequential: bool = False) -> Recording:
    """A recording of function(*args) that nothing runs, without a budget."""
    tensors, kept = _given(args)
    return Recording(tensors[0].device, function, args, {}, tensors, kept,
                     _plan(sequential, None, ()))


def captured(method: Callable[..., object]) -> Callable[..., object]:
    """A method of a model that is recorded where the model says so (its _records)."""
    name = method.__name__

    @functools.wraps(method)
    def call(self: Model, *args: object, **kwargs: object) -> object:
        if not self._records:
            with self._step(args, kwargs):
                return method(self, *args, **kwargs)
        return capture_of(self, name)(functools.partial(self._recorded, method), args, kwargs,
                       PythonState(self, method), (self.sequential, self.budget, self._plan))
    return call

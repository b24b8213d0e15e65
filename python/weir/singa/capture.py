"""capture - recorded graphs of a method: one for each signature of its arguments.

The first call with a signature (shapes and types of Tensors, values of all else) records the
function and plans it; each call runs it and returns the objects the recorded call returned, with
new contents. Inputs are read where they lie: a script writes new data into the same Tensors. When
other Tensors of the same signature come, the function is recorded once more on Tensors of its own,
into which they are copied at every call from then on. (SINGA would run on the old ones.)
"""
import functools

import numpy as np

from weir import _capi as capi
from weir import core
from weir import errors
from weir.graph import Graph
from .asserted import InvalidError
from .tensor import Tensor


def _flatten(arg, tensors, kept):
    """The signature of an argument; its Tensors are appended to the list. kept gets objects that
    are known by their identity, which holds as long as they live."""
    if isinstance(arg, Tensor):
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


def _replaced(arg, tensors):
    """The argument with its Tensors, in the order of _flatten, taken from an iterator."""
    if isinstance(arg, Tensor):
        return next(tensors)
    if isinstance(arg, (list, tuple)):
        return type(arg)([_replaced(a, tensors) for a in arg])
    if isinstance(arg, dict):
        new = {key: _replaced(arg[key], tensors) for key in sorted(arg, key=str)}
        return {key: new[key] for key in arg}
    return arg


def _forget_creators(results):
    """Results keep no operators alive: what only those name may die before the plan is made."""
    if isinstance(results, Tensor):
        results.creator = None
    elif isinstance(results, dict):
        _forget_creators(list(results.values()))
    elif isinstance(results, (list, tuple)):
        for result in results:
            _forget_creators(result)


def _plan(sequential, budget, plan):
    """How to plan: budget, and (name, value) of the other core.plan_options."""
    plan = dict(plan, budget=budget)
    if sequential:
        plan["disable"] = ",".join(filter(None, ("order", plan.get("disable"))))
    return core.plan_options(**plan)


class Recording:
    """One planned graph: what it reads, what it returns."""

    def __init__(self, device, function, args, kwargs, tensors, private, plan):
        self.private = private
        if private:
            tensors = [_twin(t) for t in tensors]
            own = iter(tensors)
            args = tuple(_replaced(a, own) for a in args)
            kwargs = _replaced(kwargs, own)
        self.values = [t.data.value for t in tensors]
        self.args = args if all(isinstance(a, Tensor) for a in args) and not kwargs else None
        self.device = device
        for value in self.values:
            _ready_to_change(value)
        self.graph, self.held = self._record(device, function, args, kwargs, plan)

    def _record(self, device, function, args, kwargs, plan):
        device.begin_graph()
        try:
            self.results = function(*args, **kwargs)
            _forget_creators(self.results)
        except BaseException:
            device.drop_graph()
            raise
        return device.end_graph(plan)

    def fits(self, args):
        """True if it reads these very Tensors; False if only a closer look can tell."""
        if self.private or self.args is None or len(args) != len(self.args):
            return False
        for i, arg in enumerate(args):
            if arg is not self.args[i] or arg.data.value is not self.values[i]:
                return False
        return True

    def reads(self, tensors):
        """True if these Tensors, in the order of the arguments, are the ones that the graph reads.
        """
        return all(t.data.value is value for t, value in zip(tensors, self.values))

    def run(self):
        """Runs the graph once and returns the objects that the recorded call returned."""
        capi.weir_graph_run(self.graph)
        return self.results


def _ready_to_change(value):
    """An input becomes a state of the device, if it may, so that the graph sees new contents."""
    try:
        value.state()
    except errors.StateError:
        pass


def _twin(t):
    """A Tensor like t in new memory."""
    twin = Tensor(t.shape, t.device, t.dtype, requires_grad=t.requires_grad)
    twin.data.value.writable()
    return twin


class Capture:
    """The recordings of one function of an object, by signature."""

    def __init__(self):
        self._by_signature = {}
        self._last = None

    def __call__(self, function, args, kwargs, *how):
        """how: sequential, budget, plan as _plan takes them."""
        last = self._last
        if (last is not None and not kwargs and last.how == how and last.fits(args)
                and not last.device.recording):
            return last.run()
        tensors, kept = [], []
        key = how, _flatten(args, tensors, kept), _flatten(kwargs, tensors, kept)
        if not tensors:
            raise InvalidError("a graph needs a Tensor, or a list of them, among its arguments")
        if tensors[0].device.recording:         # a part of the graph at hand
            return function(*args, **kwargs)
        found = self._by_signature.get(key)
        if found is None or not found.private and not found.reads(tensors):
            found = self._record(key, function, args, kwargs, tensors, found is not None)
            found.kept = kept
        if found.private:
            for t, value in zip(tensors, found.values):
                value.put(t.data.handle)
        self._last = found
        return found.run()

    def _record(self, key, function, args, kwargs, tensors, private):
        self._by_signature.pop(key, None)       # frees its memory before the new one is planned
        self._last = None
        found = Recording(tensors[0].device, function, args, kwargs, tensors, private,
                          _plan(*key[0]))
        found.how = key[0]
        self._by_signature[key] = found
        return found

    @property
    def graphs(self):
        """The planned graphs as weir.Graph objects, in the order in which they were recorded."""
        return [Graph.planned(recording.device, recording.graph, recording.held)
                for recording in self._by_signature.values()]


def captured(method):
    """A method of a model that is recorded where the model says so (its _records)."""
    name = method.__name__

    @functools.wraps(method)
    def call(self, *args, **kwargs):
        if not self._records:
            with self._products(args, kwargs):
                return method(self, *args, **kwargs)
        captures = self._captures
        capture = captures.get(name)
        if capture is None:
            capture = captures[name] = Capture()
        return capture(functools.partial(self._recorded, method), args, kwargs,
                       self.sequential, self.budget, self._plan)
    return call

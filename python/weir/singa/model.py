"""model - Model: a layer that trains, eagerly or as a planned graph; saved states.

With graph mode on each model has graphs of its own, one for each signature of train_one_batch's
arguments (weir.capture), so several models share a device; in SINGA the last one recorded replaces
all others.
"""
from __future__ import annotations

import contextlib
import functools
import inspect
import io
import json
import os
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import (TYPE_CHECKING, ParamSpec, Protocol, Self, TypedDict, TypeVar, Unpack, cast,
                    overload)

import numpy as np

from weir import archive
from weir import core
from weir import errors
from weir import runs
from weir.graph import Graph, check_plan
from weir.options import PlanOptions
from weir.replace import replaced
from weir.settings import autocast
from weir.typing import Array, Budget, DTypeLike, Path, Shape, Stateful
from .asserted import ArgumentError, ExistsError
from . import autograd
from .capture import MAX_GRAPHS, Capture, captured, exported, input_names, recorded_once
from .layers.base import Computes, Layer, LayerMeta, first_tensor
from .layers.summary import Summary, summary_of
from .tensor import Tensor
from .updates.distributed import DistOpt
from .updates.ema import EMA

if TYPE_CHECKING:
    from .comm import Communicator
    from .opt import Optimizer


class PlanArguments(TypedDict, total=False):
    """Options of a plan beside the budget: see weir.options.plan_options."""

    level: int
    disable: str | Iterable[str] | None
    policy: str | None
    placement: str | None
    measure: bool
    cache: Path | None
    guided: int
    shared_budget: bool


class Attribute(TypedDict):
    """What a file of save_states says of a tensor."""

    state_type: int
    shape: list[int]
    dtype: int


P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Trains(Protocol[P, R_co]):
    """A model by its train_one_batch: a call of the model in training takes and gives the same."""

    def train_one_batch(self, *xs: P.args, **kwargs: P.kwargs) -> R_co:
        """A step of training."""
        ...


@contextlib.contextmanager
def training_is(on: bool) -> Iterator[None]:
    """autograd.training for a while."""
    before, autograd.training = autograd.training, on
    try:
        yield
    finally:
        autograd.training = before


class ModelMeta(LayerMeta):
    """The class of model classes: train_one_batch is captured as a graph where graphs are on."""

    _captured_names: tuple[str, ...]

    def __init__(cls, name: str, bases: tuple[type[object], ...], body: dict[str, object]) -> None:
        super().__init__(name, bases, body)
        for method in cls._captured_names:
            if method in body and any(isinstance(base, ModelMeta) for base in bases):
                setattr(cls, method, captured(cast("Callable[..., object]", body[method])))


class Model(Layer, metaclass=ModelMeta):
    """What a script derives from: forward(*x), train_one_batch(*args).

    compile() makes parameters and says how to run; model(...) is train_one_batch in training and
    forward in evaluation.
    """

    MODEL_STATE_TYPE = 0
    AUX_STATE_TYPE = 1
    _captured_names: tuple[str, ...] = ("train_one_batch",)
    optimizer: Optimizer
    training: bool
    graph_mode: bool
    sequential: bool
    budget: Budget | None
    precision: str | None
    _plan: tuple[tuple[str, object], ...]
    _captures: dict[str, Capture]
    _inside: bool
    _max_graphs: int

    def __new__(cls, *args: object, **kwargs: object) -> Self:
        self = super().__new__(cls)
        vars(self).update(training=True, graph_mode=False, sequential=False, budget=None,
                             _plan=(), precision=None, _captures={}, _inside=False,
                             _max_graphs=MAX_GRAPHS)
        return self

    @property
    def _records(self) -> bool:
        """True if the next call runs as a graph: not inside one that is being recorded."""
        return self.graph_mode and self.training and not self._inside

    def _recorded(self, method: Callable[..., object], *args: object, **kwargs: object) -> object:
        """A call of the method as capture records it."""
        vars(self)["_inside"] = True
        try:
            with training_is(True), self._step(args, kwargs):
                return method(self, *args, **kwargs)
        except errors.StateError as error:
            if "recorded" in str(error):
                error.add_note("The step is being recorded (use_graph=True): return the tensor "
                               "from train_one_batch and read it after the call.")
            raise
        finally:
            vars(self)["_inside"] = False

    def _evaluated(self, method: Callable[..., object], *args: object) -> object:
        """A call of the method in evaluation, whatever the model is in."""
        before = self.training
        vars(self).update(training=False, _inside=True)
        try:
            with training_is(False), self._products(args, {}):
                return method(self, *args)
        finally:
            vars(self).update(training=before, _inside=False)

    @contextlib.contextmanager
    def _step(self, args: Sequence[object], kwargs: Mapping[str, object]) -> Iterator[None]:
        """The scope of a step: of mixed precision, and of batch statistics of several ranks."""
        optimizer = vars(self).get("optimizer")
        statistics = (optimizer.batch_statistics() if isinstance(optimizer, DistOpt)
                      else contextlib.nullcontext())
        with statistics, self._products(args, kwargs):
            yield

    def _products(self, args: Sequence[object],
                  kwargs: Mapping[str, object]) -> AbstractContextManager[None]:
        """The scope of mixed precision, if there is one."""
        if self.precision is None:
            return contextlib.nullcontext()
        first = first_tensor([*args, *kwargs.values()])
        return autocast(self.precision, None if first is None else first.device)

    def _forget_graphs(self) -> None:
        vars(self)["_captures"] = {}

    def __getstate__(self) -> dict[str, object]:
        """For copies: graphs are this model's own."""
        return super().__getstate__() | {"_captures": {}}

    def __setattr__(self, name: str, value: object) -> None:
        if name in ("optimizer", "precision") and vars(self).get(name) is not value:
            self._forget_graphs()       # they are made with the old one
        super().__setattr__(name, value)

    # -- how it runs --

    def compile(self, inputs: Sequence[Tensor], is_train: bool = True, use_graph: bool = False,
                sequential: bool = False, budget: Budget | None = None,
                precision: DTypeLike | None = None, max_graphs: int = MAX_GRAPHS,
                **plan: Unpack[PlanArguments]) -> None:
        """Runs forward(*inputs) once, recorded and forgotten, which makes all parameters.

        budget: the most that training steps may take when they are graphs, bytes as a number or a
        text ("512MB", "75%" of what they take without), of all signatures together and with other
        graphs that share a budget (weir.Graph(..., shared_budget=True), for validation); the bits
        stay the same. BudgetError, at the first step, names the smallest that works. precision:
        "bfloat16" or "float16" for mixed precision, as weir.autocast has it, in training and
        evaluation. max_graphs: the most graphs that are kept, one for each signature of
        train_one_batch's arguments: for one more the least recently used is freed. plan: policy,
        placement, measure, cache, guided, level, disable, as weir.core.plan_options explains them.
        """
        if not isinstance(inputs, (list, tuple)):
            raise ArgumentError(f"compile: inputs is a {type(inputs).__name__}, must be a list of "
                                "Tensors")
        if first_tensor(inputs) is None:
            kinds = ", ".join(type(x).__name__ for x in inputs)
            raise ArgumentError(f"compile: inputs is a list of {kinds or 'nothing'}, must be a "
                                "list of Tensors")
        device = cast("Tensor", first_tensor(inputs)).device
        self._forget_graphs()
        self.precision = (core.dtype_name(core.dtype_number(precision)) if precision else None)
        device.begin_graph()
        try:
            with training_is(False), self._products(inputs, {}):
                self.forward(*inputs)
        finally:
            device.drop_graph()
        self._warn_of_hidden_layers()
        self.train(is_train)
        self.graph(use_graph, sequential, budget, max_graphs=max_graphs, **plan)

    def train(self, mode: bool = True) -> None:
        """Training, or evaluation: of this model, and of operators called from now on."""
        self.training = bool(mode)
        autograd.training = bool(mode)

    def eval(self) -> None:
        """train(False): dropout off, batch norm by its running statistics, model(x) is forward(x).
        """
        self.train(False)

    def graph(self, mode: bool = True, sequential: bool = False, budget: Budget | None = None, *,
              max_graphs: int | None = None, **plan: Unpack[PlanArguments]) -> None:
        """Training steps as graphs; sequential keeps the recorded order of operations; budget and
        plan: what a whole step may take, and how, as in weir.Graph. max_graphs: as in compile;
        None: as before."""
        if max_graphs is not None:
            self._limit_graphs(max_graphs)
        self._check_plan(budget=budget, **plan)
        if "disable" in plan:
            plan["disable"] = core.pass_names(plan["disable"])
        vars(self)["_plan"] = tuple(sorted(plan.items()))
        self.graph_mode = bool(mode)
        self.sequential = bool(sequential)
        self.budget = budget

    def _limit_graphs(self, most: int) -> None:
        if not isinstance(most, int) or isinstance(most, bool) or most < 1:
            raise errors.InvalidError(f"max_graphs is {most!r}, must be a number of graphs, 1 or "
                                      "more")
        vars(self)["_max_graphs"] = most
        for capture in self._captures.values():
            capture.limit(most)

    def _check_plan(self, **plan: Unpack[PlanOptions]) -> None:
        """Refuses a budget, policy or other option that no step can have, before any is planned."""
        device = next((t.device for t in self.get_states().values()), None) or core.default_device()
        if device.recording:
            core.plan_options(**plan)
        else:
            check_plan(device, **plan)

    @overload
    def __call__(self: Computes[P, R], *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def __call__(self: Trains[P, R], *args: P.args, **kwargs: P.kwargs) -> R: ...
    def __call__(self, *args: object, **kwargs: object) -> object:
        try:
            if self.training:
                return self.train_one_batch(*args, **kwargs)
            with training_is(False), self._products(args, kwargs):
                return self.forward(*args, **kwargs)
        except TypeError as error:
            self._explain(error, args, kwargs)
            raise

    def _explain(self, error: TypeError, args: Sequence[object],
                 kwargs: Mapping[str, object]) -> None:
        """Says in a note to the error which method a call is, if its arguments fit the other."""
        try:
            inspect.signature(self.train_one_batch if self.training else self.forward).bind(
                *args, **kwargs)
        except TypeError:
            error.add_note(f"{type(self).__name__} is in " + (
                "training, where a call is train_one_batch; eval() makes it forward."
                if self.training else
                "evaluation, where a call is forward; train() makes it train_one_batch."))

    if TYPE_CHECKING:       # what a script defines may take any number of arguments
        train_one_batch: Callable[..., object]
    else:
        def train_one_batch(self, *args, **kwargs):
            """A training step, which a script defines: forward, loss, self.optimizer(loss). With
            graphs it is recorded at the first call of each signature of its arguments. What it
            returns, the call returns."""
            raise NotImplementedError(f"{type(self).__name__} does not define train_one_batch")

    @property
    def graphs(self) -> list[Graph]:
        """The graphs recorded so far, one for each signature of train_one_batch's arguments, as
        weir.Graph objects: stats, texts and pictures of each. [] before the first step and with
        use_graph=False; that which ran last is at the end."""
        return [graph for capture in self._captures.values() for graph in capture.graphs]

    def graph_stats(self) -> dict[str, object]:
        """What graphs of this model there are and what they hold, in bytes: "planned" (recordings
        so far), "evicted" (of them freed to stay within "max_graphs"), "input_bytes" and
        "result_bytes" (tensors that graphs read and write, of all together), "arena_bytes" (the
        largest: all graphs of a device share one arena), and "graphs", a dict for each: "shapes"
        of the tensors it is for, "runs", its own bytes and "plan_ms"."""
        captures = self._captures.values()
        graphs = [recording.stats for c in captures for recording in c.recordings]
        return {"max_graphs": self._max_graphs,
                "planned": sum(c.planned for c in captures),
                "evicted": sum(c.evicted for c in captures),
                "input_bytes": sum(cast("int", g["input_bytes"]) for g in graphs),
                "result_bytes": sum(cast("int", g["result_bytes"]) for g in graphs),
                "arena_bytes": max((cast("int", g["arena_bytes"]) for g in graphs), default=0),
                "graphs": graphs}

    # -- files --

    def save(self, path: Path, keep_previous: bool = False,
             names: Mapping[str, str] | None = None) -> None:
        """Writes the parameters and states to a safetensors file that weir_model_load reads in C.

        Names and layouts are PyTorch's, as C has them: "fc1.weight" is (out, in). names: {path of a
        layer here: its path in the file}, where they differ. An old file is replaced, at no moment
        is there half of one; keep_previous: it stays as PATH.bak. See save_run for training.
        """
        runs.save_model(self, path, keep_previous, names)

    def load(self, path: Path, strict: bool = True,
             names: Mapping[str, str] | None = None) -> runs.Misfit:
        """Reads parameters and states from a file of save, of save_run (of which it takes the model
        alone), of weir_model_save in C, or of another program.

        All must fit: missing, unexpected and different tensors are one FileError, and nothing has
        changed. With strict=False takes what fits and returns what does not. The model was called
        or compiled before, which makes its parameters.
        """
        return runs.load_model(self, path, strict, names)

    def save_run(self, path: Path, step: int | None = None,
                 tensors: Mapping[str, Tensor] | None = None, keep_previous: bool = False,
                 names: Mapping[str, str] | None = None,
                 stateful: Mapping[str, Stateful] | None = None,
                 comm: Communicator | None = None) -> None:
        """Writes all that the training needs to go on with equal bits: the model, the states of
        self.optimizer, its rates, step counter and loss scaler, the means of an opt.EMA that is an
        attribute, the position of the device's random stream, and by name the script's own
        `tensors` and the states of its own objects, such as {"train": DataLoader, "stop":
        EarlyStop}.

        step: the number that load_run returns; default: the optimiser's steps so far. Call it
        between two steps. weir_run_load reads the file in C. comm: all its ranks save together, a
        part each; path is then the manifest of the parts, which is replaced when all are written.
        """
        runs.save_run(self, path, getattr(self, "optimizer", None), step,
                      {**self._means(), **(tensors or {})}, keep_previous, names, stateful, comm)

    def load_run(self, path: Path, tensors: Mapping[str, Tensor] | None = None,
                 names: Mapping[str, str] | None = None,
                 stateful: Mapping[str, Stateful] | None = None,
                 comm: Communicator | None = None) -> int:
        """Reads what save_run, or weir_run_save in C, wrote; returns the number of the step. comm:
        its ranks load together, or none of them; as many as saved, or others.

        The model has the same layers and the same kind of optimiser, tensors and stateful have the
        same names; all must fit, or nothing changes. Graphs that were recorded before go on with
        what was read. Steps that follow have the bits of a run that was never interrupted.
        """
        return runs.load_run(self, path, getattr(self, "optimizer", None),
                             {**self._means(), **(tensors or {})}, names, stateful, comm)

    def _means(self) -> dict[str, Tensor]:
        """The tensors of opt.EMA objects that are attributes: {"ema.fc1.W": Tensor}."""
        return {f"{name}.{path}": t for name, value in vars(self).items()
                if isinstance(value, EMA) for path, t in value.state_dict().items()}

    def summary(self, inputs: Sequence[object], levels: int = 0) -> Summary:
        """What each layer of forward(*inputs) gives, holds and costs in evaluation: result,
        parameters, bytes, flops and multiply-adds. print shows a table; `rows` and `total` have the
        numbers. levels: of layers that the table shows, 0 for all; deeper ones count for the layer
        that they are in. Nothing is computed, but parameters are made, as compile does."""
        def forward(*xs: object) -> object:
            return self._evaluated(lambda net, *xs: net.forward(*xs), *xs)
        return summary_of(self, inputs, forward, levels)

    def export(self, path: Path, inputs: Sequence[object], train: bool = False,
               keep_previous: bool = False) -> None:
        """Writes forward(*inputs) as a graph, with the parameters and states, to a file that
        weir.load_graph, weir_graph_load in C and `weir run-graph` run without the model's code.

        train=True: train_one_batch(*inputs) instead, the whole step with its updates, as the model
        runs it after compile(use_graph=True); it goes on where this model stands, random position
        included. Inputs get the names of the method's parameters ("x", or "x0", "x1" of a list),
        outputs "out0", "out1", ..., or their keys if it returns a dict. Shapes are those of inputs,
        whose elements do not matter. keep_previous: a file that is replaced stays as PATH.bak.
        """
        if not isinstance(inputs, (list, tuple)):
            raise ArgumentError(f"export: inputs is a {type(inputs).__name__}, must be a list of "
                                "Tensors")
        if train and not self.graph_mode:
            raise errors.StateError("export(train=True) writes the graph of a training step, and "
                                    "this model has none: compile(use_graph=True) first")
        method = type(self).train_one_batch if train else type(self).forward
        exported(self, path, method, tuple(inputs), train, keep_previous)

    def to_onnx(self, path: Path, inputs: Sequence[object], opset: int = 18,
                external: bool = False) -> None:
        """Writes forward(*inputs), in evaluation, with the parameters and states to an ONNX file.

        Names and shapes are those of export(); opset: 9 to 28; external: weights of a kilobyte and
        more go to a file beside, PATH.data. The package onnx is not needed. InvalidError if ONNX
        lacks an operation: the sentence names all. weir.onnx.as_bytes gives the file's bytes.
        """
        if not isinstance(inputs, (list, tuple)):
            raise ArgumentError(f"to_onnx: inputs is a {type(inputs).__name__}, must be a list of "
                                "Tensors")
        method = type(self).forward
        found = recorded_once(functools.partial(self._evaluated, method), tuple(inputs),
                              self.sequential)
        names, outputs = self._port_names(tuple(inputs))
        found.to_onnx(path, names, outputs, self.get_states(), self.get_params(), opset, external)

    def _port_names(self, inputs: Sequence[object]) -> tuple[Sequence[str], Sequence[str]]:
        """Names of forward's inputs, and of its outputs, none: "out0" and so on."""
        return input_names(functools.partial(type(self).forward, self), inputs), ()

    def save_states(self, fpath: Path,
                    aux_states: Mapping[str, Tensor | Array] | None = None) -> None:
        """States, and Tensors or arrays by name beside them, in a zip file: tensor_dict.npz and
        states_attr.json. It appears whole or not at all.

        aux_states may have tables of tensors, as opt.get_states() gives them: "moments" of them
        becomes "moments/fc1.W", which opt.set_states takes back. save_run does both in one call.
        """
        if os.path.exists(fpath):
            raise ExistsError(f"save_states: {fpath} exists already")
        states = self.get_states()
        beside = flat_states(aux_states or {})
        both = sorted(set(states) & set(beside))
        if both:
            raise ValueError(f"save_states: {both[0]!r} names a state of the model too")
        arrays: dict[str, Array] = {}
        attributes: dict[str, Attribute] = {}
        groups: tuple[tuple[int, Mapping[str, object]], ...] = (
            (self.MODEL_STATE_TYPE, states), (self.AUX_STATE_TYPE, beside))
        for kind, group in groups:
            for name, t in group.items():
                arrays[name] = t.data.to_numpy() if isinstance(t, Tensor) else np.asarray(t)
                attributes[name] = {"state_type": kind, "shape": list(arrays[name].shape),
                                    "dtype": core.dtype_number(arrays[name].dtype)}
        write_zip(fpath, arrays, attributes)

    def load_states(self, fpath: Path) -> dict[str, Tensor]:
        """Loads a model's states from a file of save_states. Returns the other tensors in it, as
        {name: Tensor}."""
        mine = self.get_states()

        def check(name: str, shape: Shape, kind: int) -> None:
            if kind != self.MODEL_STATE_TYPE:
                return
            if name not in mine:
                raise errors.InvalidError(f"load_states: the model has no state {name!r}; is it "
                                          "compiled?")
            if tuple(mine[name].shape) != shape:
                raise errors.InvalidError(f"load_states: {name} has shape {mine[name].shape}, in "
                                          f"the file {shape}")

        arrays, attributes = read_zip(fpath, check)
        states = {name: array for name, array in arrays.items()
                  if attributes[name]["state_type"] == self.MODEL_STATE_TYPE}
        self.set_states(states)
        device = next((t.device for t in mine.values()), None)
        return {name: Tensor(data=array, device=device, dtype=core.dtype_number(array.dtype),
                             requires_grad=False)
                for name, array in arrays.items() if name not in states}


def flat_states(states: Mapping[str, object]) -> dict[str, object]:
    """{name: value} of states some of which are tables of more: {table/name: value}."""
    flat: dict[str, object] = {}
    for name, value in states.items():
        if isinstance(value, Mapping):
            flat.update((f"{name}/{key}", inner) for key, inner in value.items())
        else:
            flat[name] = value
    return flat


def write_zip(path: Path, arrays: Mapping[str, Array], attributes: Mapping[str, Attribute]) -> None:
    """The zip file of save_states, which replaces the path when it is whole."""
    with replaced(path) as file, zipfile.ZipFile(file, "w") as whole:
        with whole.open("tensor_dict.npz", "w", force_zip64=True) as inner:
            with zipfile.ZipFile(inner, "w") as members:
                for name, array in arrays.items():
                    archive.add_array(members, name, array)
        whole.writestr("states_attr.json", json.dumps(attributes))


def read_zip(path: Path, check: Callable[[str, Shape, int], None]
             ) -> tuple[dict[str, Array], dict[str, Attribute]]:
    """(arrays, attributes) of a file of save_states; errors.FileError for any other file. check as
    of archive.read_npz, with the attributes in place of the type."""
    with open(path, "rb") as file, archive.refusing(f"{path} is not a file of saved states"):
        size = os.fstat(file.fileno()).st_size
        with zipfile.ZipFile(file) as whole:
            members = archive.members_of(whole, size)
            attributes = json.loads(whole.read(members["states_attr.json"]))
            inner = io.BytesIO(whole.read(members["tensor_dict.npz"]))

        def agrees(name: str, shape: Shape, dtype: DTypeLike) -> None:
            said = attributes[name]
            if (tuple(said["shape"]) != shape or said["state_type"] not in (0, 1)
                    or core.dtype_number(dtype) != said["dtype"]):
                raise errors.FileError(f"{name} does not have the shape and type of its attributes")
            check(name, shape, said["state_type"])

        return archive.read_npz(inner, agrees, archive.EXPANSION * size), attributes

"""base - what all layers share: names, sublayers, parameters made at the first call.

A layer's initialize runs once, with the arguments of its first forward and computed at once, even
in the middle of a recording. The name of a layer is its path of attributes below the outermost one,
which has none: "block.conv1"; its parameters are "block.conv1.W". Every Tensor attribute that
stores gradients is a parameter; state_names lists attributes that are states beside them.
"""
from __future__ import annotations

import functools
import math
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple, ParamSpec, Protocol, Self, TypeVar, cast

import numpy as np

from weir import _capi as capi
from weir import core
from weir import names
from weir.typing import Array, ArrayLike, ShapeLike
from ..asserted import ArgumentError
from ..tensor import Tensor
from . import show

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., object])
R_co = TypeVar("R_co", covariant=True)


class Keys(NamedTuple):
    """What load_state_dict did not find, and what it did not use."""

    missing_keys: list[str]
    unexpected_keys: list[str]


class Computes(Protocol[P, R_co]):
    """A layer by its forward: a call of the layer takes and gives the same."""

    def forward(self, *xs: P.args, **kwargs: P.kwargs) -> R_co:
        """What the layer computes."""
        ...


def first_tensor(xs: Iterable[object]) -> Tensor | None:
    """The first Tensor among arguments and lists of them, or None."""
    for x in xs:
        if isinstance(x, Tensor):
            return x
        if isinstance(x, (list, tuple)):
            found = first_tensor(x)
            if found is not None:
                return found
    return None


def _initialized(initialize: F) -> F:
    """An initialize that computes at once and is remembered."""
    @functools.wraps(initialize)
    def call(self: Layer, *xs: object, **kwargs: object) -> None:
        first = first_tensor(xs)
        with (core.cpu() if first is None else first.device).at_once():
            initialize(self, *xs, **kwargs)
        vars(self)["_initialized"] = True
        if not self._trains:
            self._set_trains(False)
    return cast("F", call)


def _initializing(forward: F) -> F:
    """A forward that initializes its layer first."""
    @functools.wraps(forward)
    def call(self: Layer, *xs: object, **kwargs: object) -> object:
        if not self._initialized:
            self.initialize(*xs, **kwargs)
        return forward(self, *xs, **kwargs)
    return cast("F", call)


def _path(parent: str | None, attribute: str) -> str:
    return f"{parent}{Layer.sep}{attribute}" if parent else attribute


def _scope(layer: object, xs: Iterable[object]) -> names.layer_scope | None:
    """The name scope of a call of the layer; None if it has no name or no Tensor to compute with.
    """
    name: str | None = vars(layer)["_name"]
    first = first_tensor(xs) if name else None
    return None if first is None or name is None else names.layer_scope(first.device, name)


class LayerMeta(type):
    """The class of layer classes: initialize runs once, at once, before the first forward."""

    def __init__(cls, name: str, bases: tuple[type[object], ...], body: dict[str, object]) -> None:
        super().__init__(name, bases, body)
        for method, wrap in (("initialize", _initialized), ("forward", _initializing)):
            if method in body:
                setattr(cls, method, wrap(cast("Callable[..., object]", body[method])))


class Layer(metaclass=LayerMeta):
    """What a script derives from: initialize(*inputs) makes parameters, forward(*inputs) computes.
    """

    sep = "."
    state_names: tuple[str, ...] = ()
    _name: str | None
    _above: weakref.ref[Layer] | None
    _layers: dict[str, Layer]
    _initialized: bool
    _trains: bool       # False: parameters are frozen, those that initialize will make, too

    def __new__(cls, *args: object, **kwargs: object) -> Self:
        self = super().__new__(cls)
        vars(self).update(_name=None, _above=None, _layers={}, _initialized=False,
                             _trains=True)
        return self

    def __init__(self) -> None:
        pass

    def __call__(self: Computes[P, R], *xs: P.args, **kwargs: P.kwargs) -> R:
        scope = _scope(self, xs)
        if scope is None:
            return self.forward(*xs, **kwargs)
        with scope:
            return self.forward(*xs, **kwargs)

    if TYPE_CHECKING:       # what a script defines may take any number of arguments
        initialize: Callable[..., None]
        forward: Callable[..., object]
    else:
        def initialize(self, *xs, **kwargs):
            """Makes parameters for inputs like these; the base has none."""

        def forward(self, *xs, **kwargs):
            """What the layer computes: Tensors in, a Tensor or several out. A layer of a script
            defines it; its first call runs initialize with the same arguments."""
            raise NotImplementedError(f"{type(self).__name__} does not define forward")

    # -- names and sublayers --

    @property
    def _parent(self) -> Layer | None:
        """The layer it is a part of: known weakly, so that layers die when a script drops them."""
        return None if self._above is None else self._above()

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "_above": None}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        for layer in self._layers.values():
            vars(layer)["_above"] = weakref.ref(self)

    @property
    def name(self) -> str | None:
        """The path from the model, parted by dots ("block.conv1"); None at the top."""
        return self._name

    @name.setter
    def name(self, name: str | None) -> None:
        old = self._name
        vars(self)["_name"] = name
        for attribute, value in vars(self).items():
            if isinstance(value, Tensor) and value.name == _path(old, attribute):
                value.name = _path(name, attribute)
        for attribute, layer in self._layers.items():
            layer.name = _path(name, attribute)

    def _register(self, attribute: str, layer: Layer) -> None:
        self._layers[attribute] = layer
        vars(layer)["_above"] = weakref.ref(self)
        layer.name = _path(self._name, attribute)

    def __setattr__(self, attribute: str, value: object) -> None:
        if isinstance(value, Layer):
            self._register(attribute, value)
        else:
            self._layers.pop(attribute, None)
            if isinstance(value, Tensor) and value.name.startswith("Dummy#"):
                value.name = _path(self._name, attribute)
        super().__setattr__(attribute, value)

    def __delattr__(self, attribute: str) -> None:
        self._layers.pop(attribute, None)
        super().__delattr__(attribute)

    def register_layers(self, *layers: Layer | OrderedDict[str, Layer]) -> None:
        """Sublayers that are no attributes: of an OrderedDict by its keys, else by class and
        number. Numbers in use are skipped; SINGA does not check."""
        if len(layers) == 1 and isinstance(layers[0], OrderedDict):
            for name, layer in layers[0].items():
                self._register(name, layer)
            return
        n = 0
        for layer in cast("tuple[Layer, ...]", layers):
            kind = type(layer).__name__
            while self._layers.get(f"{kind}_{n}", layer) is not layer:
                n += 1
            self._register(f"{kind}_{n}", layer)
            n += 1

    def _warn_of_hidden_layers(self) -> None:
        """Warns of layers in lists and dicts, which no name leads to: save_states would leave their
        parameters out without a word."""
        known = {id(layer) for layer in self._layers.values()}
        for attribute, value in vars(self).items():
            held = value.values() if isinstance(value, dict) else value
            if attribute == "_layers" or not isinstance(value, (list, tuple, dict)):
                continue
            if any(isinstance(v, Layer) and id(v) not in known for v in held):
                warnings.warn(
                    f"{type(self).__name__}.{attribute} holds layers that have no name, so "
                    "get_params and save_states leave them out: make it a layer.LayerList, call "
                    "self.register_layers with them, or make each an attribute", stacklevel=3)
        for layer in self._layers.values():
            layer._warn_of_hidden_layers()

    # -- parameters and states --

    def _own(self, wanted: Callable[[str, Tensor], bool]) -> dict[str, Tensor]:
        return {_path(self._name, attribute): value for attribute, value in vars(self).items()
                if isinstance(value, Tensor) and wanted(attribute, value)}

    def _ready_layers(self) -> list[Layer]:
        return [layer for layer in self._layers.values() if layer._initialized]

    def get_params(self) -> dict[str, Tensor]:
        """{name: Tensor} of the parameters of the layer and of its sublayers in use."""
        params = self._own(lambda _, t: t.stores_grad)
        for layer in self._ready_layers():
            params.update(layer.get_params())
        return params

    def get_states(self) -> dict[str, Tensor]:
        """{name: Tensor} of the parameters and of all other states that a saved model needs."""
        states = self._own(lambda _, t: t.stores_grad)
        states.update(self._own(lambda attribute, _: attribute in self.state_names))
        for layer in self._ready_layers():
            states.update(layer.get_states())
        states.update(self.get_params())
        return states

    def set_params(self, parameters: Mapping[str, Tensor | Array], strict: bool = True) -> None:
        """Copies Tensors or arrays into the parameters of these names, all or some; those of states
        are left out. Unexpected names (but with strict=False) and wrong shapes are one ValueError,
        and nothing is copied."""
        self._set(parameters, "set_params", strict, False)

    def set_states(self, states: Mapping[str, Tensor | Array], strict: bool = True) -> None:
        """Copies Tensors or arrays into the parameters and states of these names. Missing and
        unexpected names (but with strict=False) and wrong shapes are one ValueError, and nothing is
        copied; see weir.load_torch_state_dict for states of PyTorch."""
        self._set(states, "set_states", strict, strict)

    def _set(self, given: Mapping[str, Tensor | Array], how: str, strict: bool,
             whole: bool) -> None:
        mine = self.get_states()
        mistakes = [f"{name} has shape {mine[name].shape}, not {tuple(given[name].shape)}"
                    for name in given if name in mine
                    and tuple(mine[name].shape) != tuple(given[name].shape)]
        missing = [name for name in mine if name not in given]
        unexpected = [name for name in given if name not in mine]
        if whole and missing:
            mistakes.append("missing: " + ", ".join(missing))
        if strict and unexpected:
            mistakes.append("unexpected: " + ", ".join(unexpected))
        if mistakes:
            hint = "" if mine else "; there are no parameters yet, call or compile() first"
            raise ValueError(f"{how}: " + "; ".join(mistakes) + hint)
        self._take(given, how)

    def _take(self, given: Mapping[str, Tensor | Array], how: str) -> None:
        """Copies what is the layer's, and lets its sublayers: those of scripts by their own way."""
        own = self._own(lambda attribute, t: t.stores_grad
                        or how == "set_states" and attribute in self.state_names)
        for name, t in own.items():
            if name in given:
                copy_into(t, given[name])
        for layer in self._ready_layers():
            if any(key.startswith(layer.name or "") for key in given):
                if getattr(type(layer), how) is getattr(Layer, how):
                    layer._take(given, how)
                else:
                    getattr(layer, how)(given)

    # -- the same by paths from this layer, as PyTorch has them --

    def named_layers(self) -> Iterator[tuple[str, Layer]]:
        """(path, layer) of this layer, whose path is "", and of all below it, each once."""
        return self._walk("", set())

    named_modules = named_layers        # PyTorch's name

    def _walk(self, path: str, seen: set[int]) -> Iterator[tuple[str, Layer]]:
        if id(self) in seen:
            return
        seen.add(id(self))
        yield path, self
        for attribute, layer in self._layers.items():
            yield from layer._walk(_path(path, attribute), seen)

    def _named_tensors(self, states: bool) -> Iterator[tuple[str, Tensor]]:
        """(path, Tensor) of parameters, and of other states if asked for, each once."""
        seen: set[int] = set()
        for path, layer in self.named_layers():
            for attribute, t in vars(layer).items():
                if (isinstance(t, Tensor) and id(t) not in seen
                        and (t.stores_grad or states and attribute in layer.state_names)):
                    seen.add(id(t))
                    yield _path(path, attribute), t

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """(path, Tensor) of the parameters of this layer and of those below it, frozen ones too.
        There are none before the first call or compile(), which makes them."""
        return self._named_tensors(False)

    def parameters(self) -> Iterator[Tensor]:
        """The Tensors of named_parameters."""
        return (t for _, t in self.named_parameters())

    def num_parameters(self, trainable: bool = False) -> int:
        """How many numbers the parameters have together; trainable: those that are not frozen."""
        return sum(math.prod(t.shape) for t in self.parameters()
                   if t.requires_grad or not trainable)

    def state_dict(self) -> dict[str, Tensor]:
        """{path: Tensor} of parameters and other states: the layer's own Tensors, which go on
        changing. Paths are attributes ("block.conv1.W") and layouts Weir's; see
        weir.to_torch_state_dict for PyTorch's."""
        return dict(self._named_tensors(True))

    def load_state_dict(self, state: Mapping[str, Tensor | Array], strict: bool = True) -> Keys:
        """Copies Tensors or arrays into parameters and states, by the paths of state_dict.

        Missing and unexpected paths are one ValueError, but with strict=False, and so are wrong
        shapes; then nothing is copied. Returns the missing and the unexpected paths.
        """
        mine = self.state_dict()
        mistakes = [f"{name} has shape {tuple(state[name].shape)}, must have {tuple(t.shape)}"
                    for name, t in mine.items()
                    if name in state and tuple(state[name].shape) != tuple(t.shape)]
        keys = Keys([name for name in mine if name not in state],
                    [name for name in state if name not in mine])
        if strict and keys.missing_keys:
            mistakes.append("missing: " + ", ".join(keys.missing_keys))
        if strict and keys.unexpected_keys:
            mistakes.append("unexpected: " + ", ".join(keys.unexpected_keys))
        if not mine and state:
            mistakes.append(f"{type(self).__name__} has no parameters yet, call it or compile() it "
                            "first")
        elif mistakes and any(name.endswith(".weight") for name in keys.unexpected_keys):
            mistakes.append("weir.load_torch_state_dict takes PyTorch's names and layouts")
        if mistakes:
            raise ValueError("load_state_dict: " + "; ".join(mistakes))
        for name, t in mine.items():
            if name in state:
                copy_into(t, state[name])
        return keys

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Freezes (False) or trains the parameters of this layer and of those below it, also those
        that are made later. Frozen ones get no gradient and no update; graphs are recorded again.
        Returns the layer."""
        for _, layer in self.named_layers():
            layer._set_trains(bool(requires_grad))
        above: Layer | None = self
        while above is not None:
            above._forget_graphs()
            above = above._parent
        return self

    def freeze(self) -> Self:
        """requires_grad_(False)."""
        return self.requires_grad_(False)

    def _set_trains(self, on: bool) -> None:
        vars(self)["_trains"] = on
        for t in vars(self).values():
            if isinstance(t, Tensor) and t.stores_grad:
                t.requires_grad = on

    def _forget_graphs(self) -> None:
        """Graphs of a model that were recorded with other parameters."""

    # -- texts --

    def extra_repr(self) -> str:
        """What repr shows in the layer's own line: the arguments that it was made with."""
        return show.arguments(self)

    def __repr__(self) -> str:
        return show.text(self)

    def _repr_html_(self) -> str:
        return show.html(self)

    # -- helpers of forward --

    def device_check(self, *tensors: Tensor) -> None:
        """Moves tensors to the device of the first, at once."""
        must_be_tensor(tensors[0])
        device = tensors[0].device
        for t in tensors:
            if t.device is not device:
                with device.at_once():
                    t.to_device(device)

    def dtype_check(self, *tensors: Tensor) -> None:
        """Converts tensors to the element type of the first, at once."""
        dtype = tensors[0].dtype
        for t in tensors:
            if t.dtype != dtype:
                with t.device.at_once():
                    t.to_type(dtype)


def must_be_tensor(x: object) -> None:
    """Refuses an array as a layer's input."""
    if isinstance(x, np.ndarray):
        raise ArgumentError("a layer's input is a NumPy array, must be a Tensor: weir.array(x) "
                            "makes one, t.copy_from_numpy(x) writes into one")


def copy_into(t: Tensor, source: Tensor | ArrayLike) -> None:
    """The elements of a Tensor or array of the same shape, in place and at once."""
    array = source.data.to_numpy() if isinstance(source, Tensor) else np.asarray(source)
    if tuple(array.shape) != tuple(t.shape):
        raise ValueError(f"{t.name} has shape {t.shape}, not {tuple(array.shape)}")
    t.data.from_numpy(array)


def _stored_type(like: Tensor) -> int:
    """The element type of what a layer keeps: that of its input, but float32 for the halves of
    mixed precision."""
    half = like.dtype in (core.kFloat16, core.kBFloat16)
    mixed = capi.weir_autocast_type(like.device.handle) != capi.WEIR_F32
    return core.kFloat32 if half and mixed else like.dtype


def param(shape: ShapeLike, like: Tensor, std: float | None = None) -> Tensor:
    """A parameter on the device of a Tensor, of its element type: normal around 0, or 0."""
    must_be_tensor(like)
    dtype = _stored_type(like)
    t = Tensor(shape, like.device, dtype if core.is_float(dtype) else core.kFloat32,
               requires_grad=True, stores_grad=True)
    return t.set_value(0.0) if std is None else t.gaussian(0.0, std)


def state(shape: ShapeLike, like: Tensor, value: float) -> Tensor:
    """A Tensor of one value that is no parameter."""
    t = Tensor(shape, like.device, _stored_type(like), requires_grad=False, stores_grad=False)
    return t.set_value(value)

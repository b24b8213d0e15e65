"""containers - layers that hold layers: Sequential calls them in a row, LayerList is a list."""
from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Self, cast, overload

from ..tensor import Tensor
from .base import Layer


class _Numbered(Layer):
    """Layers in an order, with the names 0, 1, ... or names of their own."""

    def _add(self, name: str, layer: Layer) -> None:
        if not isinstance(layer, Layer):
            raise TypeError(f"{type(self).__name__}: item {name} is a {type(layer).__name__}, must "
                            "be a Layer")
        self._register(name, layer)

    def __len__(self) -> int:
        return len(self._layers)

    def __iter__(self) -> Iterator[Layer]:
        return iter(list(self._layers.values()))

    def __bool__(self) -> bool:
        return True

    def _names(self) -> list[str]:
        return list(self._layers)

    def _name_at(self, index: int) -> str:
        names = self._names()
        if not -len(names) <= index < len(names):
            raise IndexError(f"{type(self).__name__}: index {index} is out of range for "
                             f"{len(names)} layers")
        return names[index]

    @overload
    def __getitem__(self, index: int) -> Layer: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> Layer | Self:
        if isinstance(index, slice):
            return self._of(list(self._layers.values())[index])
        return self._layers[self._name_at(index)]

    def _of(self, layers: list[Layer]) -> Self:
        """A container of the same kind of these layers, which keep the names they have here."""
        new = type(self).__new__(type(self))
        vars(new).update({name: value for name, value in vars(self).items()
                             if name not in vars(new)}, _initialized=self._initialized)
        new._layers.update((str(i), layer) for i, layer in enumerate(layers))
        return new

    def __setitem__(self, index: int, layer: Layer) -> None:
        self._add(self._name_at(index), layer)

    def append(self, layer: Layer) -> Self:
        """Adds a layer at the end, named by its number; returns the container."""
        self._add(str(len(self)), layer)
        return self

    def extend(self, layers: Iterable[Layer]) -> Self:
        """Adds layers at the end; returns the container."""
        for layer in layers:
            self.append(layer)
        return self


class LayerList(_Numbered):
    """A list of layers that a model knows, with the names 0, 1, ...: PyTorch's ModuleList.

    self.blocks = LayerList([Linear(8), Linear(8)]) names parameters "blocks.0.W", "blocks.1.W". The
    model's forward calls the layers.
    """

    def __init__(self, layers: Iterable[Layer] = ()) -> None:
        super().__init__()
        vars(self)["_initialized"] = True        # it has no parameters of its own
        self.extend(layers)

    def insert(self, index: int, layer: Layer) -> None:
        """Puts a layer before number `index`, as a list does; those behind get new names."""
        layers = list(self)
        layers.insert(index, layer)
        self._layers.clear()
        self.extend(layers)

    def forward(self, *xs: Tensor) -> Tensor:
        raise NotImplementedError("LayerList: a list of layers computes nothing; call the layers "
                                  "in it, or make it a Sequential")


class Sequential(_Numbered):
    """Calls its layers in a row: Sequential(Linear(64), ReLU(), Linear(10)) names parameters "0.W",
    "2.W"; Sequential(OrderedDict(hidden=Linear(64))) takes names.

    The first layer may take several arguments; a layer that returns several results passes the
    first on only if it is made to: between layers there is one value.
    """

    def __init__(self, *layers: Layer | OrderedDict[str, Layer]) -> None:
        super().__init__()
        if len(layers) == 1 and isinstance(layers[0], dict):
            for name, layer in layers[0].items():
                self._add(name, layer)
        else:
            self.extend(cast("tuple[Layer, ...]", layers))

    def forward(self, *xs: Tensor) -> Tensor:
        values: tuple[object, ...] = xs
        for layer in self:
            values = (layer(*values),)
        if len(values) != 1:
            raise TypeError(f"Sequential: {len(values)} inputs are given and there is no layer")
        return cast("Tensor", values[0])

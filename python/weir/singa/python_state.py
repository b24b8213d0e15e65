"""python_state - finds what the Python code of a recorded step changed and no replay repeats.

A step that is recorded runs its Python once. Watched while it does: attributes of a script's own
models, layers and optimisers, and the globals and enclosing variables that train_one_batch and
forward name. Numbers, texts, None, lists, dicts, sets and arrays are compared; a Tensor that is
assigned to an attribute is fine: each run writes its elements.
"""
import contextlib
import inspect
import warnings
from collections.abc import Callable, Iterator

import numpy as np

from weir.errors import GraphWarning
from .layers.base import Layer

LARGEST = 1 << 20       # bytes of an array that is compared

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_State = dict[tuple[str, str], object]      # (owner, name) -> what is compared


class PythonState:
    """What the Python code of a model's step may change. Cheap to make; looks when it is watched.
    """

    def __init__(self, model: Layer, method: Callable[..., object]) -> None:
        self._model = model
        self._method = method

    @property
    def name(self) -> str:
        """The method's name: "Net.train_one_batch"."""
        return f"{type(self._model).__name__}.{self._method.__name__}"

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """The step is recorded inside; warns, once a name, of what it changed."""
        before = self._look()
        yield
        after = self._look()
        told = vars(self._model).setdefault("_told", set())
        for key, old in before.items():
            new = after.get(key, old)
            if old != new and key not in told:
                told.add(key)
                self.warn(self._sentence(key, old, new))

    def warn(self, sentence: str) -> None:
        """A GraphWarning at the line of the script that called the model."""
        here = __file__.rpartition("/")[0]
        level, frame = 1, inspect.currentframe()
        while frame is not None and (frame.f_code.co_filename.startswith(here)
                                     or frame.f_code.co_filename.endswith("contextlib.py")):
            level, frame = level + 1, frame.f_back
        warnings.warn(sentence, GraphWarning, stacklevel=level)

    def _sentence(self, key: tuple[str, str], old: object, new: object) -> str:
        owner, name = key
        what = f"{owner}.{name}" if owner else name
        change = ""
        if isinstance(old, tuple) and isinstance(new, tuple) and old[0] is new[0] is _plain:
            change = f" ({old[1]!r} -> {new[1]!r})"
        return (f"{self.name} changed {what}{change} while it was recorded. A recorded step runs "
                "its Python once, so later calls do not change it: change it where the model is "
                "called, return what is counted, or keep it in a tensor that the step updates")

    def _look(self) -> _State:
        seen: _State = {}
        for owner, layer in self._layers():
            for name, value in vars(layer).items():
                if not _of_package(layer, name):
                    _note(seen, owner, name, value)
        optimizer = vars(self._model).get("optimizer")
        for name, value in getattr(optimizer, "__dict__", {}).items():
            if isinstance(value, _PLAIN) and not name.startswith("_"):  # states are made in lists
                _note(seen, f"{type(self._model).__name__}.optimizer", name, value)
        for function in (type(self._model).forward, self._method):
            self._look_outside(seen, inspect.unwrap(function))
        return seen

    def _layers(self) -> Iterator[tuple[str, Layer]]:
        """(name, layer) of the model and its layers that a script defines. One that makes its
        parameters in this step is left out."""
        def below(layer: Layer) -> Iterator[Layer]:
            yield layer
            for part in layer._layers.values():
                yield from below(part)

        root = type(self._model).__name__
        for layer in below(self._model):
            if layer is self._model or layer._initialized:
                yield (f"{root}.{layer.name}" if layer.name else root), layer

    @staticmethod
    def _look_outside(seen: _State, function: Callable[..., object]) -> None:
        code = getattr(function, "__code__", None)
        if code is None:
            return
        for name in code.co_names:
            if name in function.__globals__:
                _note(seen, "", name, function.__globals__[name])
        for name, cell in zip(code.co_freevars, function.__closure__ or ()):
            with contextlib.suppress(ValueError):       # an empty cell
                _note(seen, "", name, cell.cell_contents)


def _of_package(layer: Layer, name: str) -> bool:
    """True for attributes that the package's own classes change."""
    package = [c for c in type(layer).__mro__ if c.__module__.partition(".")[0] == "weir"]
    if type(layer) in package:
        return True
    bases = any(c.__name__ not in ("Layer", "Model") for c in package)
    return name.startswith("_") and (bases or name in ("_name", "_above", "_layers", "_told",
                                                       "_initialized", "_inside", "_captures"))


def _plain(value: object) -> object:
    return value


def _note(seen: _State, owner: str, name: str, value: object) -> None:
    """Adds (how it is compared, what is compared) for kinds of values that are compared."""
    if isinstance(value, _PLAIN):
        seen[owner, name] = _plain, value
    elif isinstance(value, (list, set, dict, tuple)):
        items = value.items() if isinstance(value, dict) else value
        seen[owner, name] = type(value), len(value), tuple(
            tuple(map(id, i)) if isinstance(value, dict) else id(i) for i in items)
    elif isinstance(value, np.ndarray) and value.nbytes <= LARGEST:
        seen[owner, name] = np.ndarray, value.shape, value.tobytes()

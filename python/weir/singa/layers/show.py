"""show - layers as texts: nested, as PyTorch prints modules, and as a table for notebooks."""
from __future__ import annotations

import html as escaping
import inspect
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .. import singa_wrap as singa
from ..tensor import Tensor

if TYPE_CHECKING:
    from .base import Layer

SIMPLE = (int, float, str, tuple, type(None))       # kinds of arguments that a line shows


def _values(layer: Layer) -> Iterator[tuple[str, object]]:
    """(name, value) of the arguments of the layer's constructor that it keeps under their names."""
    for name in ("in_features", "in_channels"):     # Linear and Conv2d take them by position
        if vars(layer).get(name) is not None:
            yield name, vars(layer)[name]
    for name, parameter in inspect.signature(type(layer).__init__).parameters.items():
        value = vars(layer).get(name, parameter)
        if (isinstance(value, SIMPLE) and value != parameter.default
                and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)):
            yield name, value


def arguments(layer: Layer) -> str:
    """The arguments that a layer was made with, but those that have their defaults."""
    if not type(layer).__module__.startswith("weir."):
        return ""
    return ", ".join(f"{name}={value!r}" for name, value in _values(layer))


def text(layer: Layer) -> str:
    """Net(\\n  (fc1): Linear(out_features=8)\\n  ...\\n)."""
    lines = [line for line in (layer.extra_repr(),) if line]
    for name, below in layer._layers.items():
        lines.append(f"({name}): " + repr(below).replace("\n", "\n  "))
    kind = type(layer).__name__
    if not layer._layers:
        return f"{kind}({', '.join(lines)})"
    return f"{kind}(" + "".join("\n  " + line for line in lines) + "\n)"


def bytes_of(tensors: list[Tensor]) -> int:
    """Bytes of the elements."""
    return sum(math.prod(t.shape) * singa.SizeOf(t.dtype) for t in tensors)


def html(layer: Layer) -> str:
    """A table: a row for each layer with its own parameters and states, and their bytes."""
    states = layer.state_dict()
    rows = []
    for path, below in layer.named_layers():
        own = [t for name, t in states.items() if name.rpartition(".")[0] == path]
        count = sum(math.prod(t.shape) for t in own if t.stores_grad)
        frozen = any(t.stores_grad and not t.requires_grad for t in own)
        indent = 1.2 * (path.count(".") + 1 if path else 0)
        kind = escaping.escape(f"{type(below).__name__}({below.extra_repr()})")
        rows.append(f'<tr><td style="text-align:left;padding-left:{indent + 0.5:.1f}em">'
                    f'{escaping.escape(path)}</td><td style="text-align:left">{kind}</td>'
                    f'<td>{count:,}{" (frozen)" if frozen else ""}</td>'
                    f'<td>{bytes_of(own):,}</td></tr>')
    total = sum(math.prod(t.shape) for t in states.values() if t.stores_grad)
    note = "" if states else " Parameters are made by the first call or compile()."
    return (f"<table><caption>{escaping.escape(type(layer).__name__)}: {total:,} parameters, "
            f"{bytes_of(list(states.values())):,} bytes with states.{note}</caption><thead><tr>"
            "<th>layer</th><th>kind</th><th>parameters</th><th>bytes</th></tr></thead><tbody>"
            + "".join(rows) + "</tbody></table>")

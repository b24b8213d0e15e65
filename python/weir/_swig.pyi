"""What the extension module has beside the functions of weir._capi: python/glue_operators.h."""
import weakref
from collections.abc import Callable, Sequence
from typing import TypeVar

from weir._capi import weir_tensor

_F = TypeVar("_F", bound=Callable[..., object])
_T = TypeVar("_T", bound="TensorBase")

# The attributes whose types are classes of the package are those of Value, CTensor and Taped, which
# derive from these.
class ValueBase:
    dtype: int
    shape: tuple[int, ...]
    _handle: weir_tensor | None
    _written: bool
    _state: bool
    _graph: int
    _version: int
    _shared: bool
    _lent: weakref.ref[object] | None
    _shown: bool

class RawBase: ...
class TensorBase: ...

def set_classes(tensor: type[TensorBase], raw: type[RawBase], value: type[ValueBase],
                dtypes: Sequence[int], /) -> None: ...
def set_taping(on: bool, /) -> None: ...
def quick_function(core: str, name: str, text: str, function: _F, kind: type, module: str, /
                   ) -> _F: ...
def quick_method(core: str, name: str, text: str, method: _F, /) -> _F: ...
def quick_reshape(kind: type, x: _T, shape: int | Sequence[int], /) -> _T: ...
def quick_transpose(kind: type, x: _T, order: Sequence[int] | None, /) -> _T: ...
def quick_softmax(kind: type, x: _T, axis: int, /) -> _T: ...
def quick_sum(kind: type, x: _T, axes: int | Sequence[int] | None, keepdims: int, /) -> _T: ...
def quick_mean(kind: type, x: _T, axes: int | Sequence[int] | None, keepdims: int, /) -> _T: ...

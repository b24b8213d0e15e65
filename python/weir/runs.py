"""runs - models and whole training runs in safetensors files, those of weir_model_save in C.

Names, shapes and the text of __metadata__ are those of include/weir/file.h: C and Python read each
other's files. A tensor that C and PyTorch have in another layout is turned on its way.
"""
from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import NamedTuple, cast

import numpy as np

from . import _capi as capi
from . import core
from . import opt as optimisers
from .comm import rank_files
from .errors import FileError, InvalidError, StateError
from .files import Archive, Entry, dtype_of_kind, kind_of, tensor_bytes, write_safetensors
from .layers.base import Layer, copy_into
from .tensor import Tensor
from .torch_names import Part, torch_parts
from .typing import Array, Path, Shape, Stateful

FORMAT = "1"
SHOWN = 3                       # names that a sentence lists
RUN_PREFIXES = ("optim.", "scaler.", "program.")
# The C library's names of optimisers' states, by the names of their tables here.
STATE_NAMES = {"moments": "momentum", "running_average": "square", "history": "square"}
COUNTING = ("adam", "adamw")    # methods whose updates depend on the number of the step


class Misfit(NamedTuple):
    """Names of tensors that a file and a model do not share."""

    missing: list[str]          # in the model, not in the file
    unexpected: list[str]       # in the file, not in the model
    different: list[str]        # in both, with different shapes or element types

    def __bool__(self) -> bool:
        return bool(self.missing or self.unexpected or self.different)


class Item(NamedTuple):
    """A tensor as a file has it: made of shares of Tensors, or of one Tensor as it is."""

    name: str
    kind: str                                       # safetensors' name of the element type
    shape: Shape
    shares: list[tuple[Part | None, int, Tensor]]   # (layout, number of the array in it, elements)

    def array(self) -> Array:
        """The elements, gathered."""
        out = np.empty(self.shape, core.numpy_dtype(dtype_of_kind(self.kind)))
        for part, i, t in self.shares:
            if part is None:
                out[...] = t.numpy().reshape(self.shape)
            elif part.summed and t is not part.tensor:      # a state of a sum is that of each term
                out[...] = t.numpy()
            else:
                part.give(t.numpy(), i, out)
        return out

    def make(self) -> bytes | bytearray:
        """The bytes of the elements."""
        part, _, t = self.shares[0]
        return tensor_bytes(t) if part is None else packed(self.array(), self.kind)


def packed(array: Array, kind: str) -> bytes:
    """The bytes of an array as a file has them; float32 that came from bfloat16 goes back."""
    if kind == "BF16":
        return (array.view(np.uint32) >> 16).astype(np.uint16).tobytes()
    return array.tobytes()


def _of_parts(parts: Iterable[Part], name_of: Callable[[str], str],
              tensor_of: Callable[[Part], Tensor | None]) -> dict[str, Item]:
    """Items of a Tensor for each part, under the name that the part's arrays have."""
    items: dict[str, Item] = {}
    for part in parts:
        t = tensor_of(part)
        if t is None:
            continue
        for i, (need, shape) in enumerate(part.needs):
            name, kind = name_of(need), kind_of(t)
            item = items.setdefault(name, Item(name, kind, shape, []))
            if item.kind != kind:
                raise InvalidError(f"save: '{name}' is made of {item.kind} and {kind}, which must "
                                   "be one element type")
            item.shares.append((part, i, t))
    return items


def _plain(name: str, t: Tensor, shape: Shape | None = None) -> Item:
    return Item(name, kind_of(t), tuple(t.shape) if shape is None else shape, [(None, 0, t)])


def _model_items(parts: Iterable[Part]) -> dict[str, Item]:
    return _of_parts(parts, lambda name: name, lambda part: part.tensor)


def _ready_parts(model: Layer, what: str, names: Mapping[str, str] | None) -> list[Part]:
    parts = torch_parts(model, names)
    if not parts:
        raise StateError(f"{what}: the model has no parameters yet, compile() it first")
    return parts


def _entries(items: Iterable[Item]) -> list[Entry]:
    return [Entry(item.name, item.kind, item.shape, item.make) for item in items]


# ---- what fits ----

def _listed(kind: str, names: list[str]) -> str:
    more = ", ..." if len(names) > SHOWN else ""
    return f"; {kind}: {', '.join(names[:SHOWN])}{more}" if names else ""


def _compared(archive: Archive, items: Mapping[str, Item], optional: Iterable[str] = (),
              ignored: tuple[str, ...] = ()) -> Misfit:
    """How the file differs from the items; optional may be missing, ignored prefixes left over."""
    may_miss = set(optional)
    different = [name for name, item in items.items() if name in archive
                 and (archive.kind(name), archive.shape(name)) != (item.kind, item.shape)]
    return Misfit([name for name in items if name not in archive and name not in may_miss],
                  [name for name in archive if name not in items and not name.startswith(ignored)],
                  different)


def _refused(what: str, archive: Archive, items: Mapping[str, Item], misfit: Misfit) -> FileError:
    shapes = [f"{name} ({items[name].kind} {items[name].shape} here, {archive.kind(name)} "
              f"{archive.shape(name)} in the file)" for name in misfit.different]
    return FileError(
        f"{what}: {archive.path}: {len(misfit.missing)} missing, {len(misfit.unexpected)} "
        f"unexpected and {len(misfit.different)} different tensors"
        + _listed("missing in the file", misfit.missing)
        + _listed("not expected", misfit.unexpected) + _listed("different", shapes))


def _check_format(what: str, archive: Archive) -> None:
    found = archive.metadata.get("weir_format", FORMAT)
    if found != FORMAT:
        raise FileError(f"{what}: {archive.path}: has the format {found[:20]!r}; this version "
                        f"reads format {FORMAT}")


def _take_parts(archive: Archive, parts: Iterable[Part], bad: set[str],
                name_of: Callable[[str], str], tensor_of: Callable[[Part], Tensor | None]) -> None:
    """Copies the arrays of each part that the file has whole."""
    for part in parts:
        names = [name_of(need) for need, _ in part.needs]
        t = tensor_of(part)
        if t is None or any(name not in archive or name in bad for name in names):
            continue
        arrays = [archive[name] for name in names]
        state_of_sum = part.summed and t is not part.tensor
        copy_into(t, arrays[0] if state_of_sum else part.take(*arrays))


# ---- models ----

def save_model(model: Layer, path: Path, keep_previous: bool = False,
               names: Mapping[str, str] | None = None) -> None:
    """Writes the model's parameters and states to a safetensors file: see Model.save."""
    parts = _ready_parts(model, "save", names)
    write_safetensors(path, _entries(_model_items(parts).values()), {"weir_format": FORMAT},
                      keep_previous)


def load_model(model: Layer, path: Path, strict: bool = True,
               names: Mapping[str, str] | None = None) -> Misfit:
    """Reads the model's parameters and states from a safetensors file: see Model.load."""
    parts = _ready_parts(model, "load", names)
    items = _model_items(parts)
    with rank_files.opened_run(path) as archive:
        _check_format("load", archive)
        run = RUN_PREFIXES if "weir_step" in archive.metadata else ()
        misfit = _compared(archive, items, ignored=run)
        if strict and misfit:
            raise _refused("load", archive, items, misfit)
        _take_parts(archive, parts, set(misfit.different), lambda name: name,
                    lambda part: part.tensor)
    return misfit


# ---- an optimiser's part of a run ----

class _OptimiserFile:
    """The states of an optimiser under the names of a file, for the parameters of a model."""

    def __init__(self, optimiser: optimisers.Optimizer, parts: list[Part]) -> None:
        self.optimiser = optimiser
        self.parts = [part for part in parts
                      if part.tensor.stores_grad and part.tensor.dtype == optimiser.dtype]
        self.name = type(optimiser).__name__.lower()
        self.tables = {STATE_NAMES.get(table, table): table for table in optimiser.tables
                       if table != "moments" or getattr(optimiser, "_buffered", True)}
        self.method = " ".join([self.name, *self.tables])
        self.counts = self.name in COUNTING
        kind = "f64" if optimiser.dtype == core.kDouble else "f32"
        self.rate = f"optim.lr.{kind}"
        self.rates = {f"optim.groups.{i}.lr": group for i, group in enumerate(optimiser.groups)
                      if not isinstance(group.lr, optimisers.Share)}

    @staticmethod
    def name_of(state: str) -> Callable[[str], str]:
        """The name in a file of a parameter's state."""
        return lambda need: f"optim.{need}.{state}"

    def state(self, table: str, part: Part, make: bool = False) -> Tensor | None:
        """The state of a part's Tensor in a table, None if no update has made it."""
        return self.optimiser.state_of(table, part.tensor, make)

    def items(self, archive: Archive | None = None) -> dict[str, Item]:
        """All that is saved; for loading those states, too, that the file has and no update has
        made yet."""
        items: dict[str, Item] = {}
        for name, table in self.tables.items():
            name_of = self.name_of(name)

            def tensor_of(part: Part, table: str = table,
                          name_of: Callable[[str], str] = name_of) -> Tensor | None:
                there = archive is not None and any(name_of(need) in archive
                                                    for need, _ in part.needs)
                # Of a state that is not made yet only shape and type are compared: the parameter's.
                state = self.state(table, part)
                return part.tensor if state is None and there else state

            items.update(_of_parts(self.parts, name_of, tensor_of))
        items[self.rate] = _plain(self.rate, self.optimiser.lr_value, ())
        if self.counts:
            items["optim.step"] = _plain("optim.step", self.optimiser.step_counter, ())
        return items

    def entries(self) -> list[Entry]:
        """The same for writing, with the rate that was set."""
        rates = {"optim.lr": self.optimiser.lr.init_value,
                 **{name: group.lr.init_value for name, group in self.rates.items()}}
        return [*_entries(self.items().values()),
                *(Entry(name, "F64", (), partial(packed, np.array(rate, np.float64), "F64"))
                  for name, rate in rates.items())]

    def absent(self, archive: Archive, items: Mapping[str, Item]) -> list[str]:
        """Names that may be missing: all states of a parameter, if no update had made one."""
        names = [self.rate]
        for part in self.parts:
            mine = [self.name_of(name)(need) for name in self.tables for need, _ in part.needs]
            if not any(name in archive for name in mine):
                names += [name for name in mine if name in items]
        return names

    def take(self, archive: Archive, step: int) -> None:
        """Copies the file's states, those of no update as zeros; the rate follows."""
        for name, table in self.tables.items():
            name_of = self.name_of(name)
            for part in self.parts:
                there = name_of(part.needs[0][0]) in archive
                t = self.state(table, part, make=there)
                if t is not None and not there:
                    t.data.SetFloatValue(0.0)
            _take_parts(archive, self.parts, set(), name_of, partial(self.state, table))
        for name, group in self.rates.items():
            if isinstance(group.lr, optimisers.Constant):
                group.lr = _only(archive[name])
        counter = (_only(archive["optim.step"]) if self.counts else
                   float(archive.metadata.get("weir_counter", step)))
        self.optimiser.resume(counter, self._rate_in(archive))

    def _rate_in(self, archive: Archive) -> float:
        """The rate that was set, or the other one that a C program's schedule wrote."""
        rate = _only(archive["optim.lr"])
        if self.rate in archive:
            now = archive[self.rate]
            return rate if now.dtype.type(rate) == now else _only(now)
        return rate


def _only(array: Array) -> float:
    """An array's only element."""
    return float(array.item())


def _scaler_items(scaler: optimisers.LossScaler | None) -> dict[str, Item]:
    if scaler is None:
        return {}
    return {name: _plain(name, t, ()) for name, t in (("scaler.scale", scaler.scale_value),
                                                       ("scaler.good", scaler.good_steps),
                                                       ("scaler.skipped", scaler.skipped_steps))}


def _program_items(tensors: Mapping[str, Tensor] | None) -> dict[str, Item]:
    return {f"program.{name}": _plain(f"program.{name}", t)
            for name, t in (tensors or {}).items()}


def _optimiser_file(optimiser: object, parts: list[Part], what: str) -> _OptimiserFile | None:
    if isinstance(optimiser, optimisers.DistOpt):
        optimiser = optimiser.opt
    if optimiser is None:
        return None
    if not isinstance(optimiser, optimisers.Optimizer):
        raise TypeError(f"{what}: the optimiser is a {type(optimiser).__name__}, must be one of "
                        "weir.opt or None")
    return _OptimiserFile(optimiser, parts)


# ---- objects of the program ----

STATE = "weir_state."           # before the name of an object, in __metadata__


def _state_texts(stateful: Mapping[str, Stateful] | None) -> dict[str, str]:
    texts: dict[str, str] = {}
    for name, part in (stateful or {}).items():
        try:
            texts[STATE + name] = json.dumps(dict(part.state_dict()))
        except (TypeError, ValueError) as e:
            raise InvalidError(f"save_run: the state of {name!r} must be a dictionary of texts and "
                               f"numbers: {e}") from e
    return texts


def _take_states(archive: Archive, stateful: Mapping[str, Stateful] | None) -> None:
    """Restores all objects, or none."""
    mine = stateful or {}
    there = {key[len(STATE):] for key in archive.metadata if key.startswith(STATE)}
    if there != set(mine):
        raise FileError(f"load_run: {archive.path}: has states of {sorted(there)}, the run has "
                        f"{sorted(mine)}")
    states: dict[str, Mapping[str, object]] = {}
    for name in mine:
        try:
            state: object = json.loads(archive.metadata[STATE + name])
        except (ValueError, RecursionError) as e:
            raise FileError(f"load_run: {archive.path}: the state of {name!r} is no JSON: "
                            f"{e}") from e
        if not isinstance(state, dict):
            raise FileError(f"load_run: {archive.path}: the state of {name!r} is no dictionary")
        states[name] = cast("dict[str, object]", state)
    before = {name: part.state_dict() for name, part in mine.items()}
    done: list[str] = []
    try:
        for name, part in mine.items():
            done.append(name)
            part.load_state_dict(states[name])
    except BaseException:
        for name in done:
            mine[name].load_state_dict(before[name])
        raise


# ---- runs ----

def save_run(model: Layer, path: Path, optimiser: object = None, step: int | None = None,
             tensors: Mapping[str, Tensor] | None = None, keep_previous: bool = False,
             names: Mapping[str, str] | None = None,
             stateful: Mapping[str, Stateful] | None = None,
             ranks: rank_files.Ranks | None = None) -> None:
    """Writes all that a training needs to go on with equal bits: see Model.save_run."""
    parts = _ready_parts(model, "save_run", names)
    states = _optimiser_file(optimiser, parts, "save_run")
    items = {**_model_items(parts), **_program_items(tensors)}
    metadata = {"weir_format": FORMAT, "weir_optim": "", **_state_texts(stateful)}
    entries: list[Entry] = []
    counter = step
    if states is not None:
        entries = states.entries()
        items.update(_scaler_items(states.optimiser.scaler))
        counter = int(states.optimiser.step_counter.numpy()[0])
        step = counter if step is None else step
        metadata["weir_optim"] = states.method
    if step is None or isinstance(step, bool) or not isinstance(step, int) or step < 0:
        raise InvalidError(f"save_run: the step is {step!r}, must be a whole number, 0 or more")
    if states is not None and not states.counts and counter != step:
        metadata["weir_counter"] = str(counter)
    random = capi.weir_device_random(parts[0].tensor.device.handle)
    metadata.update(weir_position=str(random.position), weir_seed=str(random.seed),
                    weir_step=str(step))
    both = [*_entries(items.values()), *entries]
    metadata = dict(sorted(metadata.items()))
    if ranks is None or ranks.world == 1:
        write_safetensors(path, both, metadata, keep_previous)
        return
    own = {key: text for key, text in metadata.items()
           if key in ("weir_seed", "weir_position") or key.startswith(STATE)}
    rank_files.save(ranks, path, lambda: both, metadata, own, keep_previous)


def _number(archive: Archive, key: str) -> int:
    text = archive.metadata.get(key)
    if text is None:
        raise FileError(f"load_run: {archive.path}: is no file of save_run: it lacks {key}")
    if not (text.isascii() and text.isdigit() and int(text[:20]) < 2**64 and len(text) <= 20):
        raise FileError(f"load_run: {archive.path}: {key} is {text[:30]!r}, no whole number of 64 "
                        "bits")
    return int(text)


def _check_numbers(archive: Archive, states: _OptimiserFile | None) -> int:
    """The step; refuses numbers that no run has, before anything changes."""
    step = _number(archive, "weir_step")
    if step >= 2**63:
        raise FileError(f"load_run: {archive.path}: the step {step} is above 2^63 - 1")
    if "weir_counter" in archive.metadata:
        _number(archive, "weir_counter")
    here = "" if states is None else states.method
    there = archive.metadata.get("weir_optim", "")
    if here != there:
        raise FileError(f"load_run: {archive.path}: has the states of the optimiser '{there[:80]}',"
                        f" the run's is '{here}'")
    return step


def load_run(model: Layer, path: Path, optimiser: object = None,
             tensors: Mapping[str, Tensor] | None = None,
             names: Mapping[str, str] | None = None,
             stateful: Mapping[str, Stateful] | None = None,
             ranks: rank_files.Ranks | None = None) -> int:
    """Reads what save_run or weir_run_save wrote; returns the step: see Model.load_run."""
    parts = _ready_parts(model, "load_run", names)
    states = _optimiser_file(optimiser, parts, "load_run")
    plain = {**_program_items(tensors)}
    if states is not None:
        plain.update(_scaler_items(states.optimiser.scaler))
    with contextlib.ExitStack() as stack:
        with rank_files.together(ranks, "load_run"):
            rank = 0 if ranks is None else ranks.rank
            archive = stack.enter_context(rank_files.opened_run(path, rank))
            _check_format("load_run", archive)
            step = _check_numbers(archive, states)
            seed, position = _number(archive, "weir_seed"), _number(archive, "weir_position")
            items, optional = {**_model_items(parts), **plain}, []
            rates: list[str] = []
            if states is not None:
                items.update(states.items(archive))
                rates = ["optim.lr", *states.rates]
                items.update((name, Item(name, "F64", (), [])) for name in rates)
                optional = states.absent(archive, items)
            misfit = _compared(archive, items, optional)
            if misfit:
                raise _refused("load_run", archive, items, misfit)
            for name in rates:
                if not np.isfinite(archive[name]):
                    raise FileError(f"load_run: {archive.path}: the learning rate is "
                                    f"{archive[name]}, must be finite ({name})")
        _take_states(archive, stateful)
        _take_parts(archive, parts, set(), lambda name: name, lambda part: part.tensor)
        for name, item in plain.items():
            t = item.shares[0][2]
            copy_into(t, archive[name].reshape(t.shape))
        if states is not None:
            states.take(archive, step)
    random = capi.weir_random()
    random.seed, random.position = seed, position
    capi.weir_device_set_random(parts[0].tensor.device.handle, random)
    return step

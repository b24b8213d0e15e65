"""core - devices, element types and values, on which every module of the package builds.

A Device wraps one of the core. Its tape is off except inside Device.taped(): raw functions
(weir.singa_wrap) compute, operators (weir.autograd) compute and remember.

A Value is the memory behind a raw tensor: shallow copies share it, so an in-place change of one is
seen by all. It holds a handle of the core. What is concrete (computed or written, not recorded in
the graph at hand) changes in its memory, so graphs that read it see the change; a recorded result
is replaced by the newer one.
"""
from __future__ import annotations

import atexit
import contextlib
import math
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Self, TypedDict, Unpack

import numpy as np

from . import _capi as capi, _swig
from . import errors, planning_progress
from .dtypes import (  # noqa: F401
    core_dtype as core_dtype, dtype_name as dtype_name, dtype_number as dtype_number,
    is_float as is_float, kBFloat16 as kBFloat16, kBool as kBool, kChar as kChar,
    kDouble as kDouble, kFloat16 as kFloat16, kFloat32 as kFloat32, kInt as kInt, kInt64 as kInt64,
    kUChar as kUChar, numpy_dtype as numpy_dtype, singa_dtype as singa_dtype)
from .graph import Graph
from .options import (PlanOptions, budget_text, options as options,  # noqa: F401
                      pass_names as pass_names, plan_options as plan_options)
from .typing import Array, Budget, Desc, DeviceHandle, Handle, Path, Shape


class DeviceOptions(TypedDict, total=False):
    """How a device is opened: see weir.device.open_cpu."""

    threads: int
    seed: int
    spill_dir: Path | None
    guard: bool | None


class Device:
    """A device of the core under SINGA's names (both ages); see weir.device for how to get one."""

    lazy_alloc: bool = True

    def __init__(self, name: str = "cpu", number: int = -1, threads: int = 0, seed: int = 0,
                 spill_dir: Path | None = None, guard: bool | None = None) -> None:
        how = options(capi.weir_device_options, threads=threads, seed=seed,
                      guard=0 if guard is None else 1 if guard else -1)
        if spill_dir is not None:
            how.spill_dir = os.fspath(spill_dir)
        self.handle: DeviceHandle = capi.weir_device_open(name, how)
        self.name: str = name
        self.inside: str = ""       # inside: full name of the layer being called
        self._id = number
        self._recordings = 0        # so far
        self._graph = 0             # the number of the one at hand
        self._at_once = 0           # open blocks of at_once in the recording at hand
        # The recordings around the one at hand, which pause: _model_graph, _graph, _held, _at_once.
        self._outer: list[tuple[capi.weir_graph | None, int, list[object], int]] = []
        self._model_graph: capi.weir_graph | None = None    # by a model; see begin_graph
        self._held: list[object] = []           # what callbacks of the graph at hand need
        self._exec_held: list[object] = []      # the same for the device's own graph
        self._ran = False           # has the device's own graph run?
        self.statistics: object | None = None   # operators.image.Keeper, in a step of ranks
        capi.weir_no_grad_begin(self.handle)
        capi.watch_planning(self.handle)

    def __repr__(self) -> str:
        return f"<weir.Device {self.name} {self._id}>"

    # -- what it is --

    def id(self) -> int:
        """Returns the number of the card, or -1 for the CPU and simulated machines."""
        return self._id

    get_id = id

    def host(self) -> Device:
        """Where to_host moves tensors of this device: a card's is the CPU."""
        return self if self._id < 0 else cpu()

    get_host = host

    def lang(self) -> str:
        """"cpp" for a device with id -1, "cuda" for a card."""
        return "cpp" if self._id < 0 else "cuda"

    @property
    def is_host(self) -> bool:
        """True if its memory is host memory, which NumPy and others can read."""
        return self.name == "cpu"

    @property
    def threads(self) -> int:
        """The number of worker threads, the calling thread included."""
        return capi.weir_device_threads(self.handle)

    def memory(self) -> capi.weir_memory:
        """A capi.weir_memory: bytes that live on the device, peaks, arena."""
        counts = capi.weir_memory()
        capi.weir_device_memory(self.handle, counts)
        return counts

    def info(self) -> str:
        """Version, instruction sets, libraries chosen: several lines of text."""
        return capi.weir_info_text(self.handle)

    def Sync(self) -> None:
        """Waits until all submitted work is done."""
        capi.weir_device_sync(self.handle)

    sync = Sync

    def SetRandSeed(self, seed: int) -> None:
        """Starts the device's random stream (initialisers, dropout, draws) at a seed, an integer.
        """
        capi.weir_device_seed(self.handle, int(seed))

    set_rand_seed = SetRandSeed

    @classmethod
    def EnableLazyAlloc(cls, enable: bool) -> None:
        """Stores the switch, which has no effect: blocks are allocated at their first use."""
        cls.lazy_alloc = bool(enable)

    # -- the device's own graph: SINGA's switch --

    def EnableGraph(self, on: bool) -> None:
        """Record what follows (True) or compute it at once (False).

        In a step that a model or weir.Graph records False pauses that recording and True resumes
        it: SINGA's optimisers make their state in such a pause.
        """
        on = bool(on)
        if self._model_graph is not None:
            if on and self._at_once:
                raise errors.StateError(
                    "EnableGraph(True): what runs here is computed at once (a layer's initialize, "
                    "a block of at_once); the recording goes on behind it by itself")
            capi.weir_device_set_buffering(self.handle, on)
            return
        if on and not self.recording:
            self._recordings += 1
            self._graph = self._recordings
            if self._ran:           # the core begins a new graph and forgets the one that ran
                self._ran = False
                self._exec_held = []
        capi.weir_device_set_buffering(self.handle, on)
        if not on:
            self._exec_held += self._held
            self._held = []

    SetBufferFlag = EnableGraph
    set_buffer_flag = EnableGraph

    def graph_enabled(self) -> bool:
        """True while calls are recorded instead of computed."""
        return self.recording

    GetBufferFlag = graph_enabled
    get_buffer_flag = graph_enabled

    @property
    def recording(self) -> bool:
        """True while calls are recorded, by the device's switch or by a graph."""
        return capi.weir_device_buffering(self.handle)

    def RunGraph(self, serial: bool = False) -> None:
        """Runs the recorded graph once; plans it at the first time. serial is SINGA's order flag:
        the planner's order gives the same bits, so it changes nothing here."""
        del serial
        on = self.recording
        if on and self._model_graph is None:
            capi.weir_device_set_buffering(self.handle, False)
        self._ran = True
        with planning_progress.shown():
            capi.weir_device_exec(self.handle)

    def ExecBuffOps(self) -> None:
        """RunGraph under its name of early 2020."""
        self.RunGraph(False)

    def SetBudget(self, budget: Budget | None) -> None:
        """The most that a whole step may take, of graphs planned from now on: bytes as a number or
        a text ("512MB", "0.5GiB", "75%" of what the step takes without); None: any. With the graph
        off bytes (not a share) hold from now on: results are dropped and recomputed on demand."""
        capi.weir_device_set_budget(self.handle, budget_text(budget))

    set_budget = SetBudget

    def SetPolicy(self, policy: str | None) -> None:
        """Which result the budget drops first with the graph off: "dtr", "dtr:eq", "dtr:local",
        "dtr:lru", "dtr:size", "dtr:msps"; None: "dtr"."""
        capi.weir_device_set_policy(self.handle, policy)

    set_policy = SetPolicy

    def ResetGraph(self) -> None:
        """Frees the device's own graph, recorded or run."""
        capi.weir_device_reset_graph(self.handle)
        self._exec_held = []

    def Reset(self) -> None:
        """Forgets the graph, stops recording, restores profiling's defaults."""
        self.EnableGraph(False)
        self.ResetGraph()
        self.SetVerbosity(0)
        self.SetSkipIteration(5)

    # -- profiling --

    def SetVerbosity(self, level: int) -> None:
        """0: nothing; 1: forward, backward and update time; 2 and more: every operation."""
        capi.weir_device_set_verbosity(self.handle, int(level))

    def SetSkipIteration(self, runs: int = 5) -> None:
        """The first runs of a graph are not counted."""
        capi.weir_device_set_skip(self.handle, int(runs))

    def profile_text(self) -> str:
        """The table of the graph that ran last."""
        return capi.weir_device_profile_text(self.handle)

    def PrintTimeProfiling(self) -> None:
        """Prints profile_text to stdout."""
        print(self.profile_text(), flush=True)

    # -- graphs of models --

    def begin_graph(self) -> capi.weir_graph:
        """Begins a graph that is not the device's; end_graph plans it and returns it."""
        graph = capi.weir_graph_begin(self.handle)
        self._outer.append((self._model_graph, self._graph, self._held, self._at_once))
        self._model_graph, self._held, self._at_once = graph, [], 0
        self._graph = self._recordings = self._recordings + 1
        return graph

    def end_graph(self, plan: capi.weir_plan_options | None = None,
                  end: Callable[..., None] = capi.weir_graph_end
                  ) -> tuple[capi.weir_graph, list[object]]:
        """(graph, what must be held as long as it) after end(graph, plan), which ends it."""
        if self._model_graph is None:
            raise errors.StateError("end_graph: no graph is being recorded")
        if not self.recording:
            self.drop_graph()
            raise errors.StateError(
                "the recorded step ended in a pause: EnableGraph(False) was not followed by "
                "EnableGraph(True), so what came after it is not part of the step")
        graph, held = self._model_graph, self._held
        self._leave()
        with planning_progress.shown():
            end(graph, plan)
        return graph, held

    def _leave(self) -> None:
        """The recording at hand is the one around this one, or none."""
        self._model_graph, self._graph, self._held, self._at_once = self._outer.pop()

    def drop_graph(self) -> None:
        """Ends a recording and forgets it."""
        if self._outer:
            self._leave()

    def graph(self, **options: Unpack[PlanOptions]) -> Graph:
        """`with dev.graph() as step:` records and plans a step; see weir.graph."""
        return Graph(self, **options)

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        """Computes at once what is done inside, in the middle of a recording."""
        if not self.recording:
            yield
        elif self._model_graph is not None:
            capi.weir_graph_pause(self._model_graph)
            self._at_once += 1
            try:
                yield
            finally:
                self._at_once -= 1
                capi.weir_graph_resume(self._model_graph)
        else:
            capi.weir_device_set_buffering(self.handle, False)
            try:
                yield
            finally:
                capi.weir_device_set_buffering(self.handle, True)

    @property
    def graph_number(self) -> int:
        """Returns the number of the current recording; 0 when computing at once."""
        return self._graph if self.recording else 0

    def hold(self, owner: object) -> None:
        """Keeps a callback's owner alive as long as the graph being recorded."""
        if self.recording:
            self._held.append(owner)

    # -- the tape --

    @contextlib.contextmanager
    def retaining(self, on: bool = True) -> Iterator[None]:
        """Gradients taken inside keep what they read, so that they can be taken again (on=False:
        no difference)."""
        if on:
            capi.weir_retain_begin(self.handle)
        try:
            yield
        finally:
            if on:
                capi.weir_retain_end(self.handle)

    @contextlib.contextmanager
    def taped(self) -> Iterator[None]:
        """Calls made inside are remembered for gradients."""
        capi.weir_no_grad_end(self.handle)
        try:
            yield
        finally:
            capi.weir_no_grad_begin(self.handle)


_open_devices: weakref.WeakSet[Device] = weakref.WeakSet()


@atexit.register
def _close_devices() -> None:
    for device in list(_open_devices):
        capi.weir_device_close(device.handle)


def open_device(name: str, number: int, **kwargs: Unpack[DeviceOptions]) -> Device:
    """A new Device by the core's name ("cpu", "cuda:1", "sim:v100") and SINGA's number; kwargs are
    Device's. It is closed when Python exits. DeviceError if no device has that name."""
    device = Device(name, number, **kwargs)
    _open_devices.add(device)
    return device


_cpu: Device | None = None


def cpu() -> Device:
    """The CPU device, opened at the first call."""
    global _cpu
    if _cpu is None:
        _cpu = open_device("cpu", -1)
    return _cpu


_default: Device | None = None


def default_device() -> Device:
    """The device of what is made without one: the CPU unless it was set; in an operator of a script
    the scratch device."""
    if in_operator():
        return scratch()
    return cpu() if _default is None else _default


def set_default_device(device: Device | None) -> None:
    """None: the CPU."""
    global _default
    if device is not None and not isinstance(device, Device):
        raise TypeError(f"{device!r} is not a device")
    _default = device


_scratch: Device | None = None
_inside = threading.local()


def in_operator() -> bool:
    """True while an operator of a script runs on this thread."""
    return bool(getattr(_inside, "operator", False))


@contextlib.contextmanager
def on_scratch() -> Iterator[None]:
    """An operator of a script runs inside: what it makes is on the scratch device."""
    before = in_operator()
    _inside.operator = True
    try:
        yield
    finally:
        _inside.operator = before


def scratch() -> Device:
    """A CPU device for the operators of scripts, which run in the middle of another's graph."""
    global _scratch
    if _scratch is None:
        _scratch = open_device("cpu", -1, threads=1)
    return _scratch


class Value(_swig.ValueBase):
    """Elements of one type and shape on a device; memory is allocated at the first use."""

    __slots__ = ()
    device: Device

    def __init__(self, device: Device, dtype: int, shape: Shape) -> None:
        self._lent: weakref.ref[object] | None = None       # see lend
        self._shown = False         # do others know the address of its elements?
        self._shared = False        # others may share the elements: copied before a change
        self._version = 0           # increases when elements change: views are derived again
        self.device = device
        self.dtype = dtype
        self.shape = shape
        self._handle: Handle | None = None
        self._written = False
        self._state = True
        self._graph = 0

    @classmethod
    def of(cls, handle: Handle, device: Device, shared: bool = False) -> Self:
        """The value of a result of the core; shared: its elements may be those of others too."""
        dtype, shape = capi.weir_tensor_desc(handle)
        value = cls(device, singa_dtype(dtype), shape)
        value._handle = handle
        value._written = True
        value._state = False
        value._graph = device.graph_number
        value._shared = shared
        return value

    @property
    def desc(self) -> Desc:
        """(the core's number of the element type, shape), as functions of weir._capi take it."""
        return core_dtype(self.dtype), self.shape

    @property
    def written(self) -> bool:
        """True once elements were written or computed; before that they read as 0."""
        return self._written

    @property
    def version(self) -> int:
        """Returns a version number that grows with each change of the elements."""
        return self._version

    @property
    def recorded(self) -> bool:
        """True if it is a result of the current recording."""
        return self._graph != 0 and self._graph == self.device.graph_number

    def share(self) -> None:
        """Marks the elements as shared with others that must not see changes: the next change
        copies them first."""
        self._shared = not self._state

    # -- memory shared with the graph of a model, which writes it at the next run --

    def lend(self, owner: object) -> None:
        """The elements lie in owner.handle, memory of a model's graph, while the owner lives."""
        self._lent = weakref.ref(owner)

    @property
    def lent(self) -> bool:
        """True while its elements lie in memory that a model's graph writes."""
        owner = self._lent and self._lent()
        return owner is not None and self._handle is getattr(owner, "handle")

    @property
    def shown(self) -> bool:
        """True if NumPy or another library may know where its elements lie."""
        return self._shown

    def show(self) -> None:
        """The address of the elements becomes known outside: what is lent moves out."""
        self._shown = True
        self.move_out()

    def move_out(self) -> None:
        """Copies what is lent, now, to memory of its own. Views derive their handles again."""
        if self.lent:
            with self.device.at_once():
                if self._state:
                    own = capi.weir_state(self.device.handle, self.desc, None)
                    capi.weir_assign(own, self._handle)
                else:
                    own = capi.weir_copy(self._handle)
            self._handle = own
            self._version += 1
        self._lent = None

    @property
    def owned(self) -> bool:
        """True if its memory belongs to it alone and may be written, or is not allocated yet."""
        return self._state

    def state(self) -> Handle:
        """The handle, for updates in place by the core. Memory that a graph or a gradient owns is
        copied first, recorded or at once."""
        if not self._can_change():
            own = capi.weir_state(self.device.handle, self.desc, None)
            capi.weir_assign(own, self._handle)
            self._handle, self._state, self._graph = own, True, 0
        handle = self.handle
        self._version += 1
        return handle

    @property
    def count(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def writable(self) -> Handle:
        """The handle, for writing: memory is made at the first call and not filled."""
        if self._handle is None:
            self._handle = capi.weir_state(self.device.handle, self.desc, None)
        self._written = True
        self._version += 1
        return self._handle

    @property
    def handle(self) -> Handle:
        """The handle, for reading; elements that were never written are 0."""
        if not self._written:
            capi.weir_write_fill(self.writable(), 0.0)
        if self._shared and self.device.recording and not self.recorded:
            self._can_change()      # in this memory, so that graphs see later changes
        return self._handle         # type: ignore[return-value]     # written, so it has one

    def put(self, handle: Handle) -> None:
        """Takes over the elements of a result of this shape and type: see the module's head."""
        self._version += 1
        if self._handle is None and not self.device.recording:
            self._handle, self._written, self._state, self._graph = handle, True, False, 0
            return
        now = self.device.graph_number
        if self._graph and self._graph == now or not self._can_change():
            self._handle, self._written, self._state, self._graph = handle, True, False, now
            return
        capi.weir_assign(self.handle, handle)

    def fill(self, x: int | float) -> None:
        """One value everywhere. A value that was never written has it at once; while recording it
        is set again at each run, so what the graph changes afterwards starts from it."""
        whole = isinstance(x, int) and not is_float(self.dtype)
        if not self._written or not self.device.recording and self._state:
            if whole:
                with self.device.at_once():
                    capi.weir_assign(self.writable(), self._filled(x))
            else:
                capi.weir_write_fill(self.writable(), float(x))
            if not self.device.recording:
                return
        self.put(self._filled(x))

    def _filled(self, x: int | float) -> Handle:
        """A result of the core with x everywhere."""
        if isinstance(x, int) and not is_float(self.dtype):
            return capi.weir_fill_int(self.device.handle, self.desc, x)
        return capi.weir_fill(self.device.handle, self.desc, float(x))

    def _can_change(self) -> bool:
        """True if the memory may be written in place; a result becomes a device state first."""
        if not self._state:
            try:
                if self._shared and not self.recorded:
                    with self.device.at_once():
                        self._handle = capi.weir_copy(self._handle)
                    self._shared = False
                capi.weir_tensor_make_state(self._handle)
            except errors.Error:
                return False
            self._state = True
        return True

    def write(self, array: Array) -> None:
        """Copies a NumPy array of the right type and size, at once."""
        if not self._state and (self._graph and self._graph == self.device.graph_number
                                or not self._can_change()):
            raise errors.StateError("a recorded result cannot be written")
        array = np.ascontiguousarray(array)
        if self.dtype == kBFloat16:             # NumPy has none: by way of float32
            wide = capi.weir_input(self.device.handle, (capi.WEIR_F32, self.shape))
            capi.write(wide, array)
            with self.device.at_once():
                capi.weir_assign(self.writable(), wide)
        else:
            capi.write(self.writable(), array)

    def read(self) -> Array:
        """A new NumPy array. While the value is only recorded: StateError."""
        if self.dtype == kBFloat16:
            wide = capi.weir_cast(self.handle, capi.WEIR_F32)
            return Value.of(wide, self.device).read()
        out = np.empty(self.shape, numpy_dtype(self.dtype))
        capi.read(self.handle, out)
        return out

"""graph - a recorded and planned step: run it, read its statistics, show its plan.

    with dev.graph() as step:
        loss = ...
    step.run()

Tensors that are alive at the end of the block are kept: each run writes them again.
"""
from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, NotRequired, Self, TypeAlias, TypedDict, Unpack, cast

from . import _capi as capi
from . import graph_file
from .errors import BudgetError
from .options import PlanOptions, plan_options
from .typing import Path

if TYPE_CHECKING:
    from .core import Device
    from .tensor import Tensor
    from ._capi import _weir_graph_stats       # a TypedDict
    Stats: TypeAlias = _weir_graph_stats
else:
    Stats = dict

KINDS = {"graph": capi.WEIR_TEXT_GRAPH, "plan": capi.WEIR_TEXT_PLAN, "cost": capi.WEIR_TEXT_COST,
         "dot": capi.WEIR_TEXT_DOT, "timeline": capi.WEIR_TEXT_TIMELINE_SVG,
         "addresses": capi.WEIR_TEXT_ADDRESSES_SVG, "json": capi.WEIR_TEXT_JSON,
         "outline": capi.WEIR_TEXT_STEPFILE, "explain": capi.WEIR_TEXT_EXPLAIN,
         "html": capi.WEIR_TEXT_HTML}


class PlanItem(TypedDict):
    """A range of the arena: what lies there, of what kind, from instruction `first` to `last`."""

    kind: str
    first: int
    last: int
    offset: int
    bytes: int


class Instruction(TypedDict):
    """An instruction, the call `ops[op]`. Begins are milliseconds after the start of the step, as
    estimated and as profiled; None: not known. There are more keys: operands, kernel, flops."""

    op: int
    begin_ms: NotRequired[float | None]
    measured_begin_ms: NotRequired[float | None]


class Collective(TypedDict):
    """A collective, which instruction `start` begins and `wait` awaits. As predicted it takes
    wire_ms from begin_ms on, and computing waits for exposed_ms until it is done, those ahead of it
    on the wire included; as profiled computing waited for measured_exposed_ms. Milliseconds; None:
    not known."""

    start: int
    wait: int
    bytes: int
    begin_ms: float | None
    wire_ms: float | None
    exposed_ms: float | None
    measured_exposed_ms: float | None


class Plan(TypedDict):
    """What Graph.json says of the plan; the pictures of weir.plot are drawn from it. wire_ms and
    exposed_ms are the sums over the collectives. Documents of before these were written lack
    collectives and times. There are more keys."""

    instructions: list[Instruction]
    items: list[PlanItem]
    arena_bytes: int
    step_ms: NotRequired[float | None]
    measured_step_ms: NotRequired[float | None]
    collectives: NotRequired[list[Collective]]
    wire_ms: NotRequired[float | None]
    exposed_ms: NotRequired[float | None]


class Op(TypedDict):
    """An operation of the step; phase: "fwd", "bwd" or "opt". There are more keys."""

    phase: str


class Document(TypedDict):
    """What Graph.json gives."""

    ops: list[Op]
    plan: Plan


STATS = tuple(name for name, kind in vars(capi.weir_graph_stats).items()
              if isinstance(kind, property) and name != "thisown")


@dataclass(frozen=True)
class NonFinite:
    """The first result of a run that is not finite: what Graph.find_nonfinite gives."""

    name: str           # of the call: "block/conv1/conv2d:grad"
    op: str             # the operation that ran: "conv2d_grad_w"
    instruction: int    # its number in Graph.text("plan")
    updates: bool       # the values are those of an input that it updates
    result: int         # number of the result, or of that input
    index: int          # of the first such element, row-major
    value: float        # nan, inf or -inf
    bad_input: int      # first input that was not finite before the run; -1: all were finite
    input: str          # the name of that input

    def __str__(self) -> str:
        what = "input" if self.updates else "result"
        why = "its inputs are finite" if self.bad_input < 0 else \
            f"its input {self.bad_input} {self.input!r} was not finite before the run"
        return (f"{self.name} ({self.op}): element {self.index} of {what} {self.result} is "
                f"{self.value}; {why}")


class Graph:
    """A step of a device. Inside its block calls are written down; afterwards it runs.

    plan: budget, shared_budget, policy, placement, measure, cache, guided, level, disable; see
    weir.options.plan_options.
    """

    def __init__(self, device: Device, **plan: Unpack[PlanOptions]) -> None:
        self.device = device
        self._plan = plan_options(**plan)
        self._handle: capi.weir_graph | None = None
        self._recorded: capi.weir_graph | None = None       # while its block is entered
        self._held: Sequence[object] = []       # what callbacks of the graph need

    @classmethod
    def planned(cls, device: Device, handle: capi.weir_graph, held: Sequence[object] = ()) -> Self:
        """The Graph of a graph of the core that is recorded and planned already."""
        graph = cls(device)
        graph._handle, graph._held = handle, held
        return graph

    def __repr__(self) -> str:
        return f"<weir.Graph of {self.device!r}, {'planned' if self._handle else 'not planned'}>"

    def __enter__(self) -> Self:
        if self._handle is not None:
            raise RuntimeError("a graph is recorded once; make another")
        self._recorded = self.device.begin_graph()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self._recorded = None
        if kind is not None:
            self.device.drop_graph()
            return
        self._handle, self._held = self.device.end_graph(self._plan)

    def stop(self) -> None:
        """Marks the stop, inside the block: what follows belongs to the second half."""
        if self._recorded is None:
            raise RuntimeError("a graph has its stop inside its block")
        capi.weir_graph_stop(self._recorded)

    @property
    def handle(self) -> capi.weir_graph:
        """The core's graph."""
        if self._handle is None:
            raise RuntimeError("the graph is not planned before the end of its block")
        return self._handle

    @property
    def this(self) -> object:
        """What SWIG reads: functions of weir._capi take a Graph for a graph of the core."""
        return self.handle.this

    def run(self, times: int = 1) -> None:
        """Runs the step; other Python threads go on meanwhile."""
        handle = self.handle
        for _ in range(times):
            capi.weir_graph_run(handle)

    def run_to_stop(self) -> None:
        """Runs what was recorded before the call of stop() in the block; run_rest() must follow, or
        drop_rest(). Until then another graph of the device runs only if the budgets of both leave
        it an arena of its own."""
        capi.weir_graph_run_to_stop(self.handle)

    def run_rest(self) -> None:
        """Runs what was recorded after the stop. What both halves read must not have changed."""
        capi.weir_graph_run_rest(self.handle)

    def drop_rest(self) -> None:
        """Gives the second half up, if it is still to run."""
        capi.weir_graph_drop_rest(self.handle)

    def find_nonfinite(self, nan_only: bool = False) -> NonFinite | None:
        """Runs the step once and returns the first operation whose result holds a NaN or, unless
        nan_only, an infinity; None if there is no such value. Parameters, states and the random
        stream are as before; kept results have the values of this run."""
        found = capi.weir_nonfinite()
        capi.weir_graph_find_nonfinite(self.handle, nan_only, found)
        if not found.found:
            return None
        return NonFinite(found.name, found.op, found.instruction, found.updates, found.result,
                         found.index, found.value, found.bad_input, found.input)

    def measure(self) -> int:
        """Runs the step once more, updates included, over marked memory and returns the highest
        byte of the arena that it touched, in bytes: stats' arena_bytes."""
        return capi.weir_graph_measure(self.handle)

    @property
    def stats(self) -> Stats:
        """A dict: nodes, instructions, planned bytes, times, runs; see weir_graph_stats."""
        numbers = capi.weir_graph_stats()
        capi.weir_graph_stats_of(self.handle, numbers)
        return cast("Stats", {name: getattr(numbers, name) for name in STATS})

    def text(self, kind: str = "plan") -> str:
        """A view of the step as text: "graph" (operations after the passes), "plan" (what runs,
        with addresses), "explain" (what the budget did with each tensor), "cost", "dot", "json",
        "outline" (a step file), "timeline" or "addresses" (pictures, SVG), "html" (a page)."""
        if kind not in KINDS:
            raise ValueError(f"unknown kind {kind!r} (expected {', '.join(KINDS)})")
        return capi.weir_graph_text(self.handle, KINDS[kind])

    def json(self) -> Document:
        """Graph and plan as a dict."""
        return cast("Document", json.loads(self.text("json")))

    def save(self, path: Path, kind: str) -> None:
        """Writes text(kind) into a file."""
        text = self.text(kind)
        with open(os.fspath(path), "w", encoding="utf-8") as f:
            f.write(text)

    def save_svg(self, path: Path, kind: str = "timeline") -> None:
        """Writes a picture: 'timeline' (live bytes) or 'addresses' (lifetime x offset)."""
        if kind not in ("timeline", "addresses"):
            raise ValueError(f"unknown kind {kind!r} (expected timeline or addresses)")
        self.save(path, kind)

    def save_html(self, path: Path) -> None:
        """Writes the plan as one web page: memory over the step with zoom, search by layer, the
        decision for each tensor and its reason, and a comparison with another such page."""
        self.save(path, "html")

    def export(self, path: Path, inputs: Mapping[str, Tensor], outputs: Mapping[str, Tensor],
               states: Mapping[str, Tensor] | None = None, keep_previous: bool = False) -> None:
        """Writes the graph with the values of all else that it reads to a file, which
        weir.load_graph, weir_graph_load in C and `weir run-graph` run without this program.

        inputs: the Tensors that are written before each run, by the names that they get in the
        file; outputs: results that are alive. states: names for parameters and other Tensors that
        the step reads or updates, which else are numbered ("param0"); those that it does not use
        are left out, so get_states() of a model fits. keep_previous: a file that is replaced stays
        as PATH.bak. InvalidError for an input that the step does not read, for an output that is
        no result of it, and for a name given twice.
        """
        graph_file.export(
            self.handle, path, {name: t.data.value.handle for name, t in inputs.items()},
            {name: t.data.value.handle for name, t in outputs.items()},
            [(name, capi.WEIR_ROLE_PARAM if t.stores_grad else capi.WEIR_ROLE_STATE,
              t.data.value.handle) for name, t in (states or {}).items()], keep_previous)

    def to_onnx(self, path: Path, inputs: Mapping[str, Tensor], outputs: Mapping[str, Tensor],
                states: Mapping[str, Tensor] | None = None, opset: int = 18,
                external: bool = False) -> None:
        """Writes what these outputs need of the graph to an ONNX file, with the values of all else
        that it reads. inputs, outputs, states: as for export; opset: 9 to 28; external: weights go
        to a file beside, PATH.data. InvalidError if ONNX lacks an operation: the sentence names
        all."""
        graph_file.export_onnx(
            self.handle, path, {name: t.data.value.handle for name, t in inputs.items()},
            {name: t.data.value.handle for name, t in outputs.items()},
            [(name, capi.WEIR_ROLE_PARAM if t.stores_grad else capi.WEIR_ROLE_STATE,
              t.data.value.handle) for name, t in (states or {}).items()], opset, external)

    @property
    def remark(self) -> str:
        """What is probably wrong with a graph for inference: a sentence if it draws dropout or uses
        the statistics of the batch but computes no gradients, for it was recorded in training
        mode; "" otherwise."""
        return capi.weir_graph_remark(self.handle)

    def _repr_svg_(self) -> str | None:
        """What a notebook shows: the timeline of a planned graph."""
        return None if self._handle is None else self.text("timeline")


def check_plan(device: Device, **plan: Unpack[PlanOptions]) -> None:
    """Plans a step of three operations with these options of plan_options, of which nothing is
    kept. InvalidError if no step could have them: an unknown policy, variant of a policy, placement
    or pass, or a budget that is no size. Whether a budget suffices only the step itself tells."""
    plan["cache"] = ""
    least: PlanOptions = {"budget": 1, "policy": plan.get("policy"), "cache": ""}
    for tried in (plan, least):
        try:
            with Graph(device, **tried):
                x = capi.weir_fill(device.handle, (capi.WEIR_F32, (64,)), 1.0)
                for _ in range(3):
                    x = capi.weir_exp(x)
        except BudgetError:
            pass        # of 1 byte always: by then the policy was found and its variant read

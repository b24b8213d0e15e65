# test_plot.py - the rows of collectives below the timeline of weir.plot.
"""The bars of computing and the wire lie where the JSON of a plan says: on a simulated rank of
many, in a model's step, and with measured times beside."""
import copy
import io
import json
import os
import re
import subprocess
import xml.etree.ElementTree

import numpy as np
import pytest

import weir
from weir import device, plot

matplotlib = pytest.importorskip("matplotlib")
WORLD = "p100,world=64,node=4,wire=3.1e9,alpha=20e-6"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(autouse=True)
def figures():
    matplotlib.use("agg")
    from matplotlib import pyplot
    yield
    pyplot.close("all")


def rank():
    """A sum that three products hide in part, and one that is awaited at once."""
    dev = device.create_sim(WORLD)
    comm = weir.comm.Communicator(device=dev)
    x = weir.ones((512, 512), device=dev)
    with dev.graph() as step:
        total = comm.all_reduce(x.exp())
        product = x
        for _ in range(3):
            product = product @ x
        kept = comm.all_reduce(total * product)
    assert kept is not None
    return step


def resnet50():
    """The JSON of the command's step of ResNet-50 on one of 64 ranks."""
    tool = os.path.join(os.path.dirname(weir.__file__), "..", "..", "weir")     # build/weir
    if not os.access(tool, os.X_OK):
        pytest.skip("the command weir is not beside the package")
    return json.loads(subprocess.run(
        [tool, "dump", "--what", "json", "--device", f"sim:{WORLD}", "--model", "resnet50",
         "--batch", "32"], capture_output=True, text=True, timeout=300, check=True).stdout)


def bars(figure, name):
    """(begin, duration) in ms of the bars of this name in the figure's SVG, by their pixels."""
    file = io.BytesIO()
    figure.savefig(file, format="svg")
    rows = figure.axes[-1]
    box, point = rows.get_window_extent(), 72 / figure.dpi
    group, = (g for g in xml.etree.ElementTree.fromstring(file.getvalue()).iter(f"{SVG}g")
              if g.get("id") == name)
    found = []
    for path in group.iter(f"{SVG}path"):
        across = [(float(x) / point - box.x0) / box.width * rows.get_xlim()[1]
                  for x in re.findall(r"[ML] (\S+) ", path.get("d"))]
        found.append((min(across), max(across) - min(across)))
    return found


def check(document):
    """Draws the JSON and compares the bars with its numbers. Returns the axes of the rows."""
    figure, plan = plot.timeline(document).figure, document["plan"]
    wire = plan["collectives"]
    exposed = [c for c in wire if c["exposed_ms"] > 0]
    near = plan["step_ms"] * 1e-6
    assert sum(c["wire_ms"] for c in wire) == pytest.approx(plan["wire_ms"])
    assert sum(c["exposed_ms"] for c in wire) == pytest.approx(plan["exposed_ms"])
    assert np.allclose(bars(figure, "weir-wire"),
                       [(c["begin_ms"], c["wire_ms"]) for c in wire], rtol=0, atol=near)
    waits = [(c["begin_ms"] + c["wire_ms"] - c["exposed_ms"], c["exposed_ms"]) for c in exposed]
    assert np.allclose(bars(figure, "weir-compute-waits"), waits, rtol=0, atol=near)
    red = bars(figure, "weir-exposed")
    assert sum(duration for _, duration in red) == pytest.approx(plan["exposed_ms"], abs=near)
    for begin, duration in red:             # a part of one collective, and of one wait
        for whole in ([(c["begin_ms"], c["wire_ms"]) for c in wire], waits):
            assert sum(a - near <= begin and begin + duration <= a + d + near
                       for a, d in whole) == 1
    for c in exposed:                       # computing goes on behind the wait
        begin = [*(i["begin_ms"] for i in plan["instructions"]), plan["step_ms"]]
        assert begin[c["wait"] + 1] == pytest.approx(c["begin_ms"] + c["wire_ms"])
    rows = figure.axes[-1]
    assert [t.get_text() for t in rows.get_yticklabels()][:2] == ["compute", "wire"]
    assert rows.get_xlim() == (0, pytest.approx(plan["step_ms"]))
    words = [t.get_text() for t in rows.get_legend().texts]
    assert f"wire {plan['wire_ms']:.4f} ms" in words
    assert words[-1].startswith(f"computing waits: {plan['exposed_ms']:.4f} ms predicted")
    return rows


def test_rows_of_a_rank():
    step = rank()
    document = step.json()
    wire = document["plan"]["collectives"]
    assert len(wire) == step.stats["collectives"] == 2
    assert document["plan"]["wire_ms"] == pytest.approx(step.stats["wire_predicted_ms"])
    assert document["plan"]["exposed_ms"] == pytest.approx(step.stats["exposed_predicted_ms"])
    assert 0 < wire[0]["exposed_ms"] < wire[0]["wire_ms"] and wire[0]["bytes"] == 4 * 512 * 512
    assert wire[1]["exposed_ms"] == pytest.approx(wire[1]["wire_ms"])
    check(document)
    assert len(plot.timeline(step).figure.axes) == 2    # a graph, or its JSON


def test_rows_of_a_model():
    document = resnet50()
    rows = check(document)
    assert len(document["plan"]["collectives"]) > 1
    assert len(rows.get_legend().texts) == 5            # three phases, the wire, waits


def test_measured_rows():
    """The JSON of real ranks after timed runs, made of a simulated one's."""
    document = rank().json()
    plan = document["plan"]
    for instruction in plan["instructions"]:
        instruction["measured_begin_ms"] = 2 * instruction["begin_ms"]
    plan["measured_step_ms"] = 2 * plan["step_ms"]
    for c in plan["collectives"]:
        c["measured_exposed_ms"] = c["exposed_ms"] / 2
    figure = plot.timeline(document).figure
    rows = figure.axes[-1]
    ends = [*(i["measured_begin_ms"] for i in plan["instructions"]), plan["measured_step_ms"]]
    waits = [(ends[c["wait"] + 1] - c["exposed_ms"] / 2, c["exposed_ms"] / 2)
             for c in plan["collectives"]]
    assert np.allclose(bars(figure, "weir-measured-waits"), waits, rtol=0,
                       atol=plan["step_ms"] * 1e-6)
    assert [t.get_text() for t in rows.get_yticklabels()] == ["compute", "wire", "measured"]
    assert rows.get_xlim() == (0, pytest.approx(plan["measured_step_ms"]))
    assert rows.get_legend().texts[-1].get_text().endswith(
        f", {plan['exposed_ms'] / 2:.4f} ms measured")


def test_what_has_no_rows():
    x = weir.ones((4, 4))
    with weir.cpu().graph() as alone:
        kept = x.exp()
    assert kept is not None
    document = alone.json()
    assert document["plan"]["collectives"] == [] and document["plan"]["wire_ms"] == 0
    assert len(plot.timeline(document).figure.axes) == 1
    older = copy.deepcopy(rank().json())
    for key in ("collectives", "step_ms", "measured_step_ms", "wire_ms", "exposed_ms"):
        del older["plan"][key]
    for instruction in older["plan"]["instructions"]:
        del instruction["begin_ms"], instruction["measured_begin_ms"]
    assert len(plot.timeline(older).figure.axes) == 1
    unknown = rank().json()
    unknown["plan"]["step_ms"] = None
    axes = plot.timeline(unknown)
    assert len(axes.figure.axes) == 1 and "2 collectives of unknown time" in axes.get_title()

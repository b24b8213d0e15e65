# test_inspect.py - names in texts and errors, the search for a NaN, the page of a plan.
"""Names of layers and tensors in the texts of a graph and in errors, the search for NaN, and what
the page of a plan draws, finds, selects and compares in a browser."""
import html
import json
import math
import pathlib
import re
import shutil
import subprocess

import numpy as np
import pytest

import weir
from weir import _capi as capi, autograd, layer, model, opt, tensor


class Block(layer.Layer):
    def __init__(self):
        super().__init__()
        self.conv1 = layer.Conv2d(4, 3, padding=1)
        self.relu = layer.ReLU()

    def forward(self, x):
        return autograd.add(self.relu(self.conv1(x)), x)


class Net(model.Model):
    def __init__(self):
        super().__init__()
        self.block = Block()
        self.fc = layer.Linear(3)
        self.loss = layer.SoftMaxCrossEntropy()

    def forward(self, x):
        return self.fc(autograd.flatten(self.block(x)))

    def train_one_batch(self, x, y):
        out = self.forward(x)
        loss = self.loss(out, y)
        self.optimizer(loss)
        return out, loss


def test_dumps_of_a_model_name_attributes():
    net = Net()
    net.optimizer = opt.SGD(lr=0.1)
    x = tensor.Tensor((2, 4, 4, 4), name="pixels")
    x.gaussian(0, 1)
    y = tensor.from_numpy(np.array([1, 2], dtype=np.int32))
    net.compile([x], is_train=True, use_graph=True)
    net(x, y)
    text = net.graphs[0].text("graph")
    for wanted in (":pixels", ":block.conv1.W", "  block/conv1/conv2d\n", "block/conv1/conv2d:grad",
                   "sgd_update(fc.W)", "block/relu/relu"):
        assert wanted in text


def test_a_scope_stands_in_errors_and_ends_with_its_block():
    with pytest.raises(weir.errors.ShapeError, match="^decoder/matmul: "):
        with weir.name_scope("decoder"):
            weir.ones((2, 3)) @ weir.ones((4, 5))
    with pytest.raises(weir.errors.ShapeError, match="^matmul: "):
        weir.ones((2, 3)) @ weir.ones((4, 5))
    with pytest.raises(ValueError, match="name is empty"):
        with weir.name_scope(""):
            pass


def test_a_tensor_can_be_renamed():
    x = weir.ones((3,))
    x.name = "mean"
    with weir.cpu().graph() as step:
        y = x * 2
        y.name = "twice"
    assert ":mean" in step.text("plan") and ":twice" in step.text("plan")
    x.name = "odd\nname"
    assert x.name == "odd\nname" and ":odd?name" in step.text("plan")


def test_find_nonfinite():
    x = weir.ones((2, 3))
    with weir.cpu().graph() as step:
        with weir.name_scope("bad"):
            y = autograd.log(x - 2.0)
        z = y * 2
    found = step.find_nonfinite()
    assert "bad/log" in found.name and math.isnan(found.value) and found.bad_input == -1
    assert "is nan; its inputs are finite" in str(found)
    x.copy_from_numpy(np.full((2, 3), 3, np.float32))
    assert step.find_nonfinite() is None
    assert z.shape == (2, 3)


# ---- the trace ----

def traced(budget: str | None) -> tuple[dict[str, object], weir.graph.Graph]:
    dev = weir.cpu()
    w = weir.ones((32, 32))
    with dev.graph(budget=budget, policy="auto:swap" if budget else None) as step:
        kept = [weir.ones((256, 32)) @ w]
        for _ in range(6):
            kept.append((kept[-1] @ w).exp())
        back = kept[-1]
        for k in reversed(kept):    # the last one first, so all are kept until then
            back = (back @ w) * k
        del kept, k
    capi.weir_device_trace_start(dev.handle)
    step.run(2)
    return json.loads(capi.weir_device_trace_stop(dev.handle)), step


@pytest.mark.parametrize("budget", [None, "70%"])
def test_a_trace_has_the_events_of_the_format(budget: str | None) -> None:
    document, step = traced(budget)
    stats, events = step.stats, document["traceEvents"]
    open_spans: dict[tuple[str, int], float] = {}
    counters: dict[str, list[int]] = {}
    for e in events:
        assert e["ph"] in "XCMbe" and isinstance(e["name"], str) and e["pid"] == 1
        assert isinstance(e["tid"], int) and isinstance(e["args"], dict)
        if e["ph"] == "M":
            assert e["name"] in ("process_name", "thread_name") and e["args"]["name"]
            continue
        assert e["ts"] >= 0
        if e["ph"] == "X":
            assert e["dur"] >= 0 and e["cat"] in ("forward", "backward", "update")
        elif e["ph"] == "C":
            counters.setdefault(e["name"], []).append(e["args"]["value"])
        elif e["ph"] == "b":
            assert e["cat"] in ("copy out", "copy in")
            open_spans[e["cat"], e["id"]] = e["ts"]
        else:
            assert open_spans.pop((e["cat"], e["id"])) <= e["ts"]
    assert not open_spans
    assert sum(e["ph"] == "X" for e in events) == 2 * stats["instructions"]
    most = max(counters["device memory, bytes"])
    assert most == stats["persistent_bytes"] + stats["lower_bound_bytes"]
    assert max(counters["arena, bytes"]) == stats["lower_bound_bytes"]
    assert ("budget, bytes" in counters) == (budget is not None)
    if budget:
        assert set(counters["budget, bytes"]) == {stats["budget_bytes"]}
        assert most <= stats["budget_bytes"]
        assert max(counters["spill file, bytes"]) > 0 and counters["spill file, bytes"][-1] == 0


# ---- the page of a plan ----

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))),
               None)

# Runs after the page's own script: acts as a user does and writes down what is then shown.
PROBE = """<script>
const key = k => views[0].canvas.dispatchEvent(new KeyboardEvent("keydown", {key: k}));
const out = {};
out.peak = views.map(v => v.peak);
out.stated = views.map(v => v.p.planned_peak_bytes);
out.live = views.map(v => v.liveMost + v.p.persistent_bytes);
draw(views[0]);
{   // the highest coloured pixel of the address map, in bytes
    const v = views[0], g = place(v), scale = window.devicePixelRatio || 1;
    const c = v.canvas.getContext("2d");
    const high = v.items.find(it => it.offset + it.size === v.end);
    const x = g.x((high.first + high.last + 1) / 2);
    drawMap(v, c, g);       // once more, over the lines of the budget and the peak
    let y = TOP + GAP;
    for (; y < TOP + GAP + MAP; y += 1 / scale)
        if (c.getImageData(x * scale, y * scale, 1, 1).data[3] > 200)
            break;
    out.drawn = g.byte(y);
    out.pixel = (state.high - state.low) * most() / MAP;
}
el("search").value = "second";
el("search").dispatchEvent(new Event("input"));
out.found = el("note").textContent;
key(".");
out.selected = el("note").textContent;
key("+");
out.zoomed = [state.from, state.to];
key("0");
out.whole = [state.from, state.to];
views[0].canvas.dispatchEvent(new WheelEvent("wheel", {deltaY: -200, clientX: 200, clientY: 300,
                                                       cancelable: true}));
out.wheel = state.to - state.from;
views[0].table.open = true;
fillTable(views[0]);
out.rows = views[0].table.querySelectorAll("tbody tr").length;
load("{}", "nothing");
out.refused = el("note").textContent;
load(document.querySelector("script.plan").textContent, "again");
out.plans = views.length;
out.difference = el("difference").textContent;
out.scripts = document.querySelectorAll("script").length;
document.body.textContent = "PROBE" + JSON.stringify(out) + "END";
</script>"""


def page() -> tuple[str, weir.graph.Graph]:
    first = layer.Linear(32)
    x = weir.ones((16, 32))
    with weir.cpu().graph() as step:
        with weir.name_scope("</script><script>alert(1)</script>"):
            h = first(x).exp()
            for _ in range(8):
                h = first(h).exp()
        with weir.name_scope("second"):
            kept = (h * 2).exp().sum()
    assert kept is not None
    return step.text("html"), step


@pytest.mark.skipif(BROWSER is None, reason="no Chromium was found")
def test_page_in_a_browser(tmp_path: pathlib.Path) -> None:
    text, step = page()
    (tmp_path / "page.html").write_text(text.replace("</html>", PROBE + "</html>"))
    shown = subprocess.run(
        [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
         f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1000,900",
         (tmp_path / "page.html").as_uri()],
        capture_output=True, text=True, timeout=120, check=True).stdout
    found = re.search("PROBE({.*})END", shown)
    assert found, shown[-2000:]
    out = json.loads(html.unescape(found[1]))
    peak = step.stats["planned_peak_bytes"]
    assert out["peak"] == out["stated"] == [peak]
    assert out["live"] == [step.stats["persistent_bytes"] + step.stats["lower_bound_bytes"]]
    assert abs(out["drawn"] - peak) <= 2 * out["pixel"]
    assert re.fullmatch(r"[1-9]\d* allocations match", out["found"])
    assert "second" in out["selected"] and "bytes" in out["selected"]
    assert out["zoomed"][1] - out["zoomed"][0] < 1 and out["whole"] == [0, 1]
    assert out["wheel"] < 1 and out["rows"] > 0
    assert out["refused"].startswith("nothing cannot be shown")
    assert out["plans"] == 2 and "0 tensors have another decision" in out["difference"]
    assert out["scripts"] == 3      # the plan, the program, the probe: none from a name

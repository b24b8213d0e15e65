# test_package.py - the package as a whole: names, constructors, graphs, settings, pictures, types.
import glob
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tomllib
import xml.etree.ElementTree

import numpy as np
import pytest

import weir
from weir import _capi as capi, autograd, core, device, settings, tensor


def python(code, **options):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120,
                          **options)


# ---- names ----

def test_names():
    assert weir.__version__ == capi.WEIR_VERSION_STRING == capi.weir_version()
    for name in weir.__all__:
        if name not in weir.MODULES or importlib.util.find_spec(f"weir.{name}"):
            assert getattr(weir, name) is not None, name
    assert weir.tensor is tensor and weir.device is device
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        weir.nonsense
    assert "randn" in dir(weir) and "layer" in dir(weir)
    assert {name for name in dir(weir) if not name.startswith("__")} == set(weir.__all__)
    assert not hasattr(weir, "capi")
    assert {name for name in vars(weir.errors) if name.endswith("Error")} <= set(weir.__all__)


def test_optional_parts_are_imported_when_used():
    done = python("import sys, weir\n"
                  "print([m for m in ('matplotlib', 'tqdm', 'PIL', 'scipy') if m in sys.modules])")
    assert done.stdout == "[]\n", done.stderr


def test_show_config():
    done = python("import weir; weir.show_config()")
    assert done.returncode == 0, done.stderr
    for word in (f"weir {weir.__version__}", "threads", "instruction set", "CUDA", "NumPy"):
        assert word in done.stdout
    assert settings.config().startswith("weir ")


# ---- constructors ----

@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", np.uint8, "bool",
                                   np.int8, "int16", "uint16", "uint32", "uint64"])
def test_filled(dtype):
    for t, value in ((weir.zeros((2, 3), dtype), 0), (weir.ones((2, 3), dtype), 1),
                     (weir.full((2, 3), 1, dtype), 1), (weir.empty((2, 3), dtype), 0)):
        a = t.data.to_numpy()
        assert a.dtype == np.dtype(dtype) and a.shape == (2, 3) and (a == value).all()
    like = weir.ones_like(weir.zeros((4,), dtype))
    assert like.data.to_numpy().dtype == np.dtype(dtype) and like.shape == (4,)
    assert (weir.zeros_like(like).data.to_numpy() == 0).all()
    assert (weir.full_like(like, 1).data.to_numpy() == 1).all()


@pytest.mark.parametrize("arguments", [(5,), (0,), (2, 7), (7, 2), (7, 2, -2), (0, 1, 0.25),
                                       (1, 8, 3), (0.5, 3)])
def test_arange(arguments):
    expected = np.arange(*arguments)
    a = weir.arange(*arguments).data.to_numpy()
    assert a.shape == expected.shape and np.allclose(a, expected)
    assert a.dtype == (np.int64 if expected.dtype == np.int64 else np.float32)
    with pytest.raises(ValueError):
        weir.arange(0, 3, 0)


@pytest.mark.parametrize("sizes", [(3, None), (2, 5), (5, 2), (1, 1)])
def test_eye(sizes):
    assert np.array_equal(weir.eye(*sizes).data.to_numpy(), np.eye(*sizes, dtype=np.float32))


def test_random():
    weir.set_seed(3)
    a, b = weir.randn(1000).data.to_numpy(), weir.rand(10, 100, lo=-1, hi=3).data.to_numpy()
    weir.set_seed(3)
    assert np.array_equal(weir.randn((1000,)).data.to_numpy(), a)
    assert abs(a.mean()) < 0.2 and abs(a.std() - 1) < 0.2
    assert b.shape == (10, 100) and -1 <= b.min() < 0 and 2 < b.max() < 3
    c = weir.randn(1000, mean=5, std=0.1, dtype="float64").data.to_numpy()
    assert c.dtype == np.float64 and abs(c.mean() - 5) < 0.05


def test_constructors_work_at_once_while_recording():
    with weir.cpu().graph() as step:
        made = [weir.ones((3,)), weir.arange(3, dtype="float32"), weir.eye(3), weir.array([1.0]),
                weir.from_dlpack(np.ones(3, np.float32))]
        values = [t.data.to_numpy().sum() for t in made]
        y = autograd.relu(made[1])
    step.run()
    assert values == [3, 3, 3, 1, 3] and y.data.to_numpy().tolist() == [0, 1, 2]


# ---- gradients on and off ----

def test_no_grad():
    autograd.training = True
    try:
        x = weir.array([1.0, -1.0], requires_grad=True)
        with weir.no_grad(), weir.no_grad():
            y = autograd.relu(x)
        with pytest.raises(RuntimeError, match="not called in training"):
            y.creator.backward(y.data)
        assert not capi.weir_tensor_needs_grad(y.data.handle)
        z = autograd.relu(x)
        assert z.creator.backward(weir.ones((2,)).data).to_numpy().tolist() == [1, 0]
        with pytest.raises(ZeroDivisionError), weir.no_grad():
            raise ZeroDivisionError
        assert capi.weir_tensor_needs_grad(autograd.relu(x).data.handle)
    finally:
        autograd.training = False


def test_progress():
    assert list(weir.progress(range(3), disable=True)) == [0, 1, 2]
    done = python("import sys; sys.modules['tqdm'] = None\nimport weir\n"
                  "print(list(weir.progress(range(3))))")
    assert done.stdout == "[0, 1, 2]\n" and done.stderr == ""


# ---- graphs ----

def recorded(**options):
    x = weir.randn(4, 5)
    w = weir.randn(5, 6)
    with weir.cpu().graph(**options) as step:
        h = autograd.relu(autograd.matmul(x, w))
        y = autograd.matmul(h, weir.ones((6, 2)))
        del h
    return step, x, w, y


@pytest.mark.parametrize("options", [{}, {"level": -1}, {"disable": ["fuse", "cse"]},
                                     {"disable": "order"}])
def test_graph_runs(options):
    step, x, w, y = recorded(**options)
    for run in range(3):
        x.copy_from_numpy(np.full((4, 5), run - 1, np.float32))
        step.run(2)
        expected = np.maximum(x.data.to_numpy() @ w.data.to_numpy(), 0) @ np.ones((6, 2))
        assert np.allclose(y.data.to_numpy(), expected, atol=1e-5)
    assert step.stats["runs"] == 6


def test_graph_says_what_it_needs():
    step = recorded()[0]
    stats = step.stats
    assert stats["nodes"] >= 3 and stats["instructions"] >= 2 and stats["runs"] == 0
    assert stats["planned_peak_bytes"] == stats["persistent_bytes"] + stats["arena_bytes"]
    assert step.measure() == stats["arena_bytes"] > 0
    assert "matmul" in step.text() and "matmul" in step.text("cost")
    assert step.text("dot").startswith("digraph")
    assert len(step.json()["plan"]["instructions"]) == stats["instructions"]
    assert len(json.loads(step.text("outline"))["ops"]) == stats["instructions"]
    with pytest.raises(ValueError, match="unknown kind"):
        step.text("nonsense")


def test_graph_saves_pictures(tmp_path):
    step = recorded()[0]
    for kind in ("timeline", "addresses"):
        step.save_svg(tmp_path / kind, kind)
        assert xml.etree.ElementTree.parse(tmp_path / kind).getroot().tag.endswith("svg")
    step.save_html(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == step.text("html")
    assert step._repr_svg_() == step.text("timeline")
    assert weir.Graph(weir.cpu())._repr_svg_() is None
    step.save(tmp_path / "plan", "plan")
    assert (tmp_path / "plan").read_text() == step.text("plan")
    with pytest.raises(ValueError):
        step.save_svg(tmp_path / "x", "plan")


def test_graph_mistakes():
    step = weir.Graph(weir.cpu())
    with pytest.raises(RuntimeError, match="not planned"):
        step.run()
    with pytest.raises(ZeroDivisionError), weir.cpu().graph() as broken:
        raise ZeroDivisionError
    assert not weir.cpu().recording
    with pytest.raises(RuntimeError, match="not planned"):
        broken.run()
    with pytest.raises(weir.StateError), weir.cpu().graph(), weir.cpu().graph():
        pass
    assert not weir.cpu().recording
    with pytest.raises(weir.InvalidError, match="nosuchpass"), \
            weir.cpu().graph(disable="nosuchpass"):
        autograd.relu(weir.ones((2,)))
    done = recorded()[0]
    with pytest.raises(RuntimeError, match="recorded once"), done:
        pass
    done.run()


def test_dead_graphs_leave_nothing():
    dev = core.Device("cpu", threads=1)
    x = weir.ones((64,), device=dev)
    live = dev.memory().live
    for _ in range(10):
        with dev.graph() as step:
            y = autograd.relu(x)
        step.run()
        del step, y
    assert dev.memory().live == live


# ---- pictures ----

def test_plots():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    from matplotlib import pyplot
    from weir import plot
    step = recorded()[0]
    live = plot.live_bytes(step)
    assert max(map(sum, zip(*live.values()))) == step.stats["lower_bound_bytes"]
    ax = plot.timeline(step)
    assert f"{step.stats['arena_bytes'] / plot.MIB:.3f}" in ax.get_legend().texts[-1].get_text()
    assert "are persistent" in ax.get_title() and len(ax.lines) == 1
    most = step.stats["planned_peak_bytes"] + 1024
    with (dev := core.cpu()).graph(budget=most) as small:
        y = autograd.relu(autograd.relu(tensor.from_numpy(np.ones((8, 8), np.float32))))
    lines = plot.timeline(small).lines
    left = small.stats["budget_bytes"] - small.stats["persistent_bytes"]
    assert [line.get_ydata()[0] for line in lines] == [small.stats["arena_bytes"] / plot.MIB,
                                                       left / plot.MIB]
    del y, dev
    assert len(plot.addresses(step.json()).patches) == len(step.json()["plan"]["items"])
    ax = plot.budget([(2e6, 1.0), (1e6, 2.0)], label="recompute", floor=5e5)
    assert list(ax.lines[0].get_ydata()) == [2000, 1000]
    assert plot.budget([(1e6, 1.0)], ax=ax) is ax
    pyplot.close("all")


# ---- types ----

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = os.path.dirname(os.path.dirname(capi.__file__))         # of the package that is tested
EXAMPLES = sorted(glob.glob(os.path.join(ROOT, "examples", "python", "*.py")))


def knows_torch(interpreter):
    """Whether it has torch, without which no type of weir.torch is known."""
    code = "import importlib.util, sys; sys.exit(not importlib.util.find_spec('torch'))"
    return subprocess.run([interpreter, "-c", code], capture_output=True).returncode == 0


def tool(name):
    """The program's path; the test is left out without it."""
    path = shutil.which(name)
    if not path:
        pytest.skip(f"{name} is not installed: left out")
    return path


def mypy(*arguments):
    """What mypy says with the package of the build folder, and with the examples' name for it."""
    path = os.pathsep.join([FOLDER, os.path.join(ROOT, "test", "python", "typings")])
    return subprocess.run([tool("mypy"), "--ignore-missing-imports", "--cache-dir",
                           os.path.join(FOLDER, ".mypy_cache"), *arguments],
                          timeout=300, text=True, capture_output=True,
                          env={**os.environ, "MYPYPATH": path})


def test_types_of_the_package():
    done = mypy("--strict", "--no-warn-unused-ignores", "-p", "weir")
    assert done.returncode == 0, done.stdout


def test_types_of_the_examples():
    """What users write against the public names has types, and none of them is Any."""
    done = mypy("--strict", "--no-warn-unused-ignores", "--disallow-any-unimported",
                "--disallow-any-decorated", *EXAMPLES)
    assert len(EXAMPLES) > 10 and done.returncode == 0, done.stdout


def pyright_rules():
    """The rules of pyproject.toml, for the package that is tested."""
    with open(os.path.join(ROOT, "pyproject.toml"), "rb") as f:
        rules = tomllib.load(f)["tool"]["basedpyright"]

    def path(name):
        below = name.removeprefix("build/python")
        return os.path.join(ROOT, name) if below == name else FOLDER + below
    for key in ("include", "extraPaths"):
        rules[key] = [path(name) for name in rules[key]]
    left_out = [] if knows_torch(sys.executable) else [os.path.join(FOLDER, "weir", "torch")]
    return {**rules, "stubPath": path(rules["stubPath"]), "exclude": left_out}


def test_types_by_pyright(tmp_path):
    """basedpyright finds nothing in the package, generated modules too, and in the examples."""
    config = tmp_path / "pyrightconfig.json"
    config.write_text(json.dumps(pyright_rules()))
    done = subprocess.run([tool("basedpyright"), "-p", str(config), "--pythonpath",
                           sys.executable, "--outputjson"],
                          timeout=300, capture_output=True, text=True)
    report = json.loads(done.stdout)
    found = [f"{d['file']}:{d['range']['start']['line'] + 1}: {d['message']}"
             for d in report["generalDiagnostics"]]
    assert done.returncode == 0 and not found, "\n".join(found)
    assert report["summary"]["filesAnalyzed"] > 100


def test_every_public_type_is_known(tmp_path):
    """basedpyright --verifytypes: no type of a public name is unknown, or inferred by rules of its
    own. It asks the interpreter beside it for NumPy, whose scalars have default arguments since
    NumPy 2; no option names another interpreter."""
    beside = os.path.dirname(os.path.realpath(tool("basedpyright")))
    interpreter = shutil.which("python", path=beside)
    code = "import numpy; assert numpy.__version__[:2] == '2.'"
    if not interpreter or subprocess.run([interpreter, "-c", code], capture_output=True).returncode:
        pytest.skip("beside basedpyright there is no Python with NumPy 2: left out")
    done = subprocess.run(["basedpyright", "--verifytypes", "weir", "--ignoreexternal",
                           "--outputjson"], timeout=300, capture_output=True, text=True,
                          cwd=tmp_path, env={**os.environ, "PYTHONPATH": FOLDER, "PATH":
                                             os.pathsep.join([beside, os.environ["PATH"]])})
    found = json.loads(done.stdout)["typeCompleteness"]
    torch = knows_torch(interpreter)
    symbols = [symbol for symbol in found["symbols"]
               if torch or not symbol["name"].startswith("weir.torch.")]
    wrong = [f"{symbol['name']}: {d['message']}" for symbol in symbols
             for d in symbol["diagnostics"] if d["severity"] == "error"]
    exported = [symbol for symbol in symbols if symbol["isExported"]]
    unknown = [symbol["name"] for symbol in exported if not symbol["isTypeKnown"]]
    assert not wrong and not unknown, "\n".join([*wrong, *unknown])
    assert len(exported) > 4000


def test_types_of_a_program(tmp_path):
    """Both names of a module have the types of one."""
    program = tmp_path / "program.py"
    program.write_text("import weir.tensor\nfrom weir import layer\n"
                       "import weir.singa.tensor\n"
                       "t: weir.singa.tensor.Tensor = weir.tensor.Tensor((2, 3))\n"
                       "weir.tensor.nonsense\nlayer.nonsense\n")
    lines = mypy(str(program)).stdout.splitlines()
    assert [line.split(":")[1] for line in lines if "error:" in line] == ["5", "6"], lines


def test_stubs():
    done = subprocess.run([tool("stubtest"), "weir._capi"], timeout=300,
                          capture_output=True, text=True, env={**os.environ, "MYPYPATH": FOLDER})
    assert done.returncode == 0, done.stdout
    assert os.path.exists(os.path.join(os.path.dirname(capi.__file__), "py.typed"))

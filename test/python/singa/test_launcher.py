# test_launcher.py - scripts that say singa run on weir: by the launcher, by import weir.singa.
import os
import subprocess
import sys

import pytest

SCRIPT = """
import sys
from singa import autograd, device, tensor
from singa import singa_wrap
import singa.tensor
import singa as package
assert __name__ == "__main__"
assert package.tensor is tensor and package.tensor is sys.modules["weir.tensor"]
assert tensor.__spec__.name == "weir.tensor" and tensor.__name__ == "weir.tensor"
assert package.__version__ == singa_wrap.SINGA_VERSION
x = tensor.from_numpy(__import__("numpy").ones((2, 3), "float32"))
autograd.training = True
assert sys.modules["weir.tape"].is_training()
import helper
print(tensor.to_numpy(autograd.relu(x)).sum(), sys.argv[1:], helper.name)
"""


def run(*arguments, cwd=os.path.dirname(sys.executable), **options):
    """Runs Python, by default in a folder without a folder singa, as the one of these tests is."""
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=120,
                          cwd=cwd, **options)


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    (tmp_path / "helper.py").write_text("from singa import device\nname = device.__name__\n")
    return path


def test_script(script):
    done = run("-m", "weir.singa", str(script), "--epochs", "3")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "6.0 ['--epochs', '3'] weir.device\n"


def test_module(script):
    done = run("-m", "weir.singa", "-m", "script", "x", cwd=script.parent)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "6.0 ['x'] weir.device\n"


def test_script_without_launcher(script):
    done = run("-c", f"import weir.singa, runpy; runpy.run_path({str(script)!r}, "
                     "run_name='__main__')", cwd=script.parent)
    assert done.returncode == 0, done.stderr
    assert "weir.device" in done.stdout


@pytest.mark.parametrize("line", ["from singa import sonnx", "import singa.sonnx as sonnx",
                                  "from weir import sonnx"])
def test_sonnx_is_one_module(line):
    done = run("-c", f"import weir.singa\n{line}\nprint(sonnx.prepare.__name__)")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "prepare\n"


def test_unknown_names():
    done = run("-c", "import weir.singa\nfrom singa import nonsense")
    assert "ImportError: cannot import name 'nonsense'" in done.stderr
    done = run("-c", "import weir.singa\nimport singa.nonsense")
    assert "ModuleNotFoundError: No module named 'singa.nonsense'" in done.stderr
    done = run("-c", "import weir.singa, singa\nsinga.nonsense")
    assert "AttributeError: module 'singa' has no attribute 'nonsense'" in done.stderr


def test_weir_alone_leaves_singa_alone():
    done = run("-c", "import weir\nimport singa")
    assert "ModuleNotFoundError: No module named 'singa'" in done.stderr


@pytest.mark.parametrize("name", ["tensor", "layer", "singa_wrap", "tape", "proto.core_pb2",
                                  "raw.math", "operators.image"])
def test_one_module_has_three_names(name):
    done = run("-c", f"import weir.{name}, weir.singa.{name}, singa.{name}, sys\n"
                     f"print(weir.singa.{name} is weir.{name} is singa.{name},\n"
                     f"      weir.{name}.__name__, weir.{name}.__spec__.name)")
    assert done.stdout == f"True weir.{name} weir.{name}\n", done.stderr


@pytest.mark.parametrize("first", ["import weir.tensor", "from weir import autograd, model",
                                   "import weir; weir.zeros((2,))"])
def test_weir_singa_may_come_late(first):
    done = run("-c", f"{first}\nimport weir.singa\nfrom singa import opt\nprint(opt.__name__)")
    assert done.stdout == "weir.opt\n", done.stderr


def test_pickles_name_the_public_module():
    """What a pickle names stays, so that older ones are read."""
    done = run("-c", "import pickle, numpy, weir\n"
                     "t = pickle.dumps(weir.array([1.5, 2]))\n"
                     "assert b'weir.tensor_class' in t\n"
                     "print(pickle.loads(t).tolist())")
    assert done.stdout == "[1.5, 2.0]\n", done.stderr


def test_another_singa_is_not_replaced():
    done = run("-c", "import sys, types\nsys.modules['singa'] = types.ModuleType('singa')\n"
                     "import weir.singa")
    assert "another package singa is imported already" in done.stderr


def test_exit_codes(tmp_path):
    path = tmp_path / "leave.py"
    path.write_text("raise SystemExit(7)")
    assert run("-m", "weir.singa", str(path)).returncode == 7
    path.write_text("raise ValueError('mine')")
    done = run("-m", "weir.singa", str(path))
    assert done.returncode == 1 and "ValueError: mine" in done.stderr


def test_usage(tmp_path):
    done = run("-m", "weir.singa")
    assert done.returncode == 2 and done.stderr.startswith("usage: python -m weir.singa SCRIPT")
    done = run("-m", "weir.singa", "--help")
    assert done.returncode == 0 and done.stdout.startswith("usage: python -m weir.singa SCRIPT")
    done = run("-m", "weir.singa", str(tmp_path / "none.py"))
    assert done.returncode == 2 and "there is no file" in done.stderr


def test_element_types_of_the_messages():
    done = subprocess.run(
        [sys.executable, "-c", "import weir.singa\nfrom singa.proto import core_pb2\n"
         "from singa import singa_wrap\n"
         "print(core_pb2.kFloat32 == singa_wrap.kFloat32, core_pb2.kInt == singa_wrap.kInt)"],
        capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True"]

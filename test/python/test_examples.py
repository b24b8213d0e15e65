"""test_examples - every example in Python runs: equal losses off and on, budgets, goals."""
import importlib.util
import os
import re
import signal
import subprocess
import sys

import pytest

import weir

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.join(HERE, "..", "..", "examples", "python")
LM = ["--width", "32", "--layers", "2", "--length", "16", "--sample", "20", "--steps", "4"]
SMALL = {
    "mlp": ["mlp.py", "--steps", "20"],
    "cnn": ["cnn.py", "--steps", "6"],
    "resnet18": ["resnet.py", "--steps", "2", "--batch", "2", "--size", "16", "--cifar"],
    "gpt": ["charlm.py", *LM],
    "lstm": ["charlm.py", "--model", "lstm", *LM],
    "char_rnn": ["char_rnn.py", "--steps", "4", "--batch", "8", "--length", "6"],
    "transformer": ["transformer.py", "--steps", "6"],
    "gan": ["gan.py", "--steps", "20"],
    "train cnn": ["train_cnn.py", "cnn", "--steps", "2", "--batch", "4"],
    "train alexnet": ["train_cnn.py", "alexnet", "--steps", "2", "--batch", "2"],
    "train xceptionnet": ["train_cnn.py", "xceptionnet", "--steps", "2", "--batch", "2"],
}
# Containers often set PYTHONUNBUFFERED; with it, print writes a line and its end apart.
ENVIRONMENT = {"OMP_WAIT_POLICY": "passive", "PYTHONUNBUFFERED": "1"}
LAUNCHED = ("char_rnn", "transformer", "train cnn")     # those that say singa


def run(script, *options, launcher=False, before=(), code=0):
    """What an example printed; `before` starts Python."""
    start = [*before, sys.executable] + (["-m", "weir.singa"] if launcher else [])
    done = subprocess.run([*start, os.path.join(EXAMPLES, script), *options], capture_output=True,
                          text=True, timeout=300, env=os.environ | ENVIRONMENT)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def losses(text, label=""):
    """(step, loss) of the lines that begin so, the numbers as they were printed."""
    return re.findall(rf"^{label} *step +(\d+)  loss (\S+)$", text, re.M)


@pytest.mark.parametrize("name", SMALL)
def test_off_and_on_agree(name):
    text = run(*SMALL[name])
    off, on = losses(text, "graph off"), losses(text, "graph on")
    assert off and off == on
    assert "equal bits" in text
    planned, measured = re.search(r"planned (\d+) = measured (\d+) bytes", text).groups()
    assert planned == measured


@pytest.mark.parametrize("name", LAUNCHED)
def test_launcher_changes_nothing(name):
    command = [*SMALL[name], "--graph", "on"]
    assert losses(run(*command, launcher=True), "graph on") == losses(run(*command), "graph on")


@pytest.mark.parametrize("launcher", [False, True])
def test_mlp_buffer(launcher):
    off = losses(run("mlp_buffer.py", "--graph", "off", launcher=launcher))
    on = losses(run("mlp_buffer.py", launcher=launcher))
    assert off == on and len(on) == 11
    assert float(on[-1][1]) < 0.3 < 0.6 < float(on[0][1])


@pytest.mark.parametrize("name, budget", [("cnn", "75%"), ("char_rnn", "95%")])
def test_budget_is_kept(name, budget):
    text = run(*SMALL[name], "--budget", budget)
    numbers = re.search(r"planned (\d+) = measured (\d+) <= budget (\d+) bytes", text).groups()
    planned, measured, budget = map(int, numbers)
    assert planned == measured <= budget
    assert "equal bits" in text


def test_resume_after_kills_saves_the_same_bytes(tmp_path):
    script = os.path.join(EXAMPLES, "resume.py")
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    text = run("resume.py", "--folder", str(whole), "--epochs", "3")
    assert len(re.findall(r"^epoch +\d  top-1 \d\.\d\d  top-5 \d\.\d\d", text, re.M)) == 3
    for step in (7, 25):
        killed = subprocess.run([sys.executable, script, "--folder", str(parts), "--epochs", "3",
                                 "--kill-at", str(step)], capture_output=True, timeout=300)
        assert killed.returncode == -signal.SIGKILL
    assert "goes on after step 25" in run("resume.py", "--folder", str(parts), "--epochs", "3")
    for name in ("run.safetensors", "best.safetensors"):
        assert (whole / name).read_bytes() == (parts / name).read_bytes()


def test_gan_learns_the_mean():
    text = run("gan.py", "--steps", "600", "--graph", "on")
    mean = float(re.search(r"draws (\S+) in the mean, wanted 3.00", text).group(1))
    assert abs(mean - 3) < 0.3


@pytest.mark.parametrize("graph", ["off", "on"])
def test_gan_in_the_wrong_order(graph):
    text = run("gan.py", "--wrong", "--steps", "2", "--graph", graph, code=1)
    assert "which adam_update has changed since" in text


def test_impossible_budget_is_one_sentence():
    text = run(*SMALL["mlp"], "--graph", "on", "--budget", "1KB", code=1)
    assert "the smallest that works" in text and "Traceback" not in text


@pytest.mark.parametrize("script, options, wanted", [
    ("mlp.py", [], 96), ("transformer.py", ["--steps", "300"], 95)])
def test_accuracy(script, options, wanted):
    text = run(script, "--graph", "on", *options)
    assert float(re.search(r"accuracy (\S+) %", text).group(1)) >= wanted


def test_what_python_exports_runs_in_c(tmp_path):
    program = os.path.join(os.path.dirname(weir.__file__), "..", "..", "deploy")
    if not os.path.exists(program):
        pytest.skip("the build has no examples")
    path = str(tmp_path / "digits.safetensors")
    wanted = run("deploy.py", path, "--steps", "20")
    found = subprocess.run([program, path, "3MB"], capture_output=True, text=True, check=True,
                           cwd=os.path.join(EXAMPLES, "..", ".."),
                           env=os.environ | {"WEIR_GUARD": "0"})
    assert re.fullmatch(r"correct: [1-9]\d+ of 360\n", wanted) and found.stdout == wanted


def test_a_network_is_tuned_through_onnx_files_in_python_and_c(tmp_path):
    first, tuned, again = (str(tmp_path / name) for name in ("a.onnx", "b.onnx", "c.onnx"))
    before, after = map(int, re.fullmatch(r"correct: (\d+), then (\d+) of 64\n", run(
        "finetune.py", first, tuned, "--steps", "30")).groups())
    assert after > before
    program = os.path.join(os.path.dirname(weir.__file__), "..", "..", "finetune")
    if not os.path.exists(program):
        pytest.skip("the build has no examples")
    found = subprocess.run([program, first, again, "70%", "10"], capture_output=True, text=True,
                           check=True, cwd=os.path.join(EXAMPLES, "..", ".."),
                           env=os.environ | {"WEIR_GUARD": "0"})
    loss, planned, whole = re.fullmatch(
        r"loss (\S+) after 10 steps in (\d+) bytes, (\d+) without a budget\n",
        found.stdout).groups()
    assert float(loss) < 2 and int(planned) <= 0.7 * int(whole)
    assert weir.onnx.load(again).inputs == weir.onnx.load(first).inputs


def test_pytorch_resnet():
    text = run("pytorch_resnet.py", "--steps", "2")
    if importlib.util.find_spec("torch") is None:
        assert text == "torch: left out\n"
        return
    numbers = re.search(r"planned (\d+) = measured (\d+) <= budget (\d+) bytes", text).groups()
    planned, measured, budget = map(int, numbers)
    assert planned == measured <= budget
    assert losses(text, "weir") == losses(text, "weir budget") and "equal bits" in text
    for ours, theirs in zip(losses(text, "weir"), losses(text, "eager")):
        assert float(ours[1]) == pytest.approx(float(theirs[1]), rel=1e-2)


def test_pytorch_gpt2():
    text = run("pytorch_gpt2.py", "--steps", "2", "--ways", "eager", "weir")
    if importlib.util.find_spec("torch") is None:
        assert text == "torch: left out\n"
        return
    if importlib.util.find_spec("transformers") is None:
        assert text == "transformers: left out\n"
        return
    numbers = re.search(r"planned (\d+) = measured (\d+) <= budget (\d+) bytes", text).groups()
    planned, measured, budget = map(int, numbers)
    assert planned == measured <= budget and "equal bits" in text
    for ours, theirs in zip(losses(text, "weir"), losses(text, "eager")):
        assert float(ours[1]) == pytest.approx(float(theirs[1]), rel=1e-3)


def test_pictures(tmp_path):
    run("cnn.py", "--graph", "on", "--steps", "1", "--out", str(tmp_path))
    for kind in ("timeline", "addresses"):
        assert (tmp_path / f"digits-{kind}.svg").read_text().lstrip().startswith("<svg")


def test_cifar_files(tmp_path):
    (tmp_path / "data_batch_1.bin").write_bytes(bytes(range(10)) * 3073)
    text = run("train_cnn.py", "--data", str(tmp_path), "--steps", "1", "--batch", "2",
               "--graph", "on")
    assert len(losses(text, "graph on")) == 1
    assert "no files data_batch" in run("train_cnn.py", "--data", EXAMPLES, code=1)


@pytest.mark.parametrize("script", sorted(
    {command[0] for command in SMALL.values()} | {"mlp_buffer.py"}))
def test_help(script):
    assert "--graph" in run(script, "--help")


@pytest.mark.parametrize("by", ["holder", "weir launch"])
def test_data_parallel(by):
    """Processes agree; one of them prints its own line."""
    options = ["--steps", "4", "--batch", "8", "--budget", "90%"]
    if by == "holder":
        text = run("data_parallel.py", "--ranks", "2", *options)
    else:
        tool = os.path.join(os.path.dirname(weir.__file__), "..", "..", "weir")     # build/weir
        if not os.access(tool, os.X_OK):
            pytest.skip("the command weir is not beside the package")
        text = run("data_parallel.py", *options, before=[tool, "launch", "--ranks", "2"])
    found = re.findall(r"^rank (\d) of 2: last loss \S+, parameters (\w+)$", text, re.M)
    assert sorted(rank for rank, _ in found) == ["0", "1"] and len({d for _, d in found}) == 1
    assert "rank 0 of 1: " in run("data_parallel.py", "--steps", "2", "--batch", "8")

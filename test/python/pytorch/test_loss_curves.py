"""test_loss_curves - bench/zoo/loss_curves.py: short runs of a perceptron, and what it says."""
import os
import sys

import pytest

pytest.importorskip("torch", reason="torch: left out")

ZOO = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "..", "bench", "zoo")


@pytest.fixture
def loss_curves(monkeypatch):
    monkeypatch.setattr(sys, "path", [ZOO, *sys.path])
    import loss_curves
    return loss_curves


def test_losses_in_f32_are_those_of_pytorch(loss_curves):
    row = loss_curves.run_one("mlp", "f32", 5)
    assert row["curves"]["Weir"][-1] < row["curves"]["Weir"][0]
    assert loss_curves.agrees(row), row
    report = loss_curves.report([row])
    assert "| mlp | 128 x 784 | 0.02 | 5 |" in report and "| yes |" in report


def test_losses_in_bf16_are_near_those_of_pytorch(loss_curves):
    row = loss_curves.run_one("mlp", "bf16", 2)
    curves = row["curves"]
    assert len(curves) == 7 and all(len(curve) == 2 for curve in curves.values())
    assert curves["Weir"] == pytest.approx(curves["PyTorch, 2 threads"], rel=1e-2)
    assert curves["Weir"] != pytest.approx(curves["PyTorch, f32"], rel=1e-7)
    assert "| mlp | 32 x 784 | 0.02 | 2 |" in loss_curves.report([row])


def test_distances(loss_curves):
    assert loss_curves.largest_distance([1.0, 2.2], [1.0, 2.0]) == pytest.approx(0.1)
    assert loss_curves.largest_distance([float("nan")], [1.0]) == float("inf")
    assert loss_curves.smooth([1, 2, 3, 4, 5, 6]) == [3, 4]
    inside, far = loss_curves.beside_band([1.5, 2.2, 0.9, 1], [[1, 1, 1, 1], [2, 2, 2, 2]])
    assert (inside, far) == (0.5, pytest.approx(0.1))
    assert loss_curves.beside_band([float("nan")], [[1.0], [2.0]])[1] == float("inf")


@pytest.mark.parametrize("own, other, agrees", [
    (1.0005, 1.0, True), (1.01, 1.0, False), (1.01, 1.02, True), (float("nan"), 1.02, False)])
def test_verdict_in_f32(loss_curves, own, other, agrees):
    curves = {"Weir": [2.0, own], "PyTorch, 2 threads": [2.0, 1.0],
              "PyTorch, 1 thread": [2.0, other],
              "PyTorch, a unit in the last place": [2.0, 1.0]}
    assert loss_curves.agrees({"precision": "f32", "curves": curves}) is agrees


@pytest.mark.parametrize("own, agrees", [(1.05, True), (1.11, True), (1.2, False)])
def test_verdict_in_bf16(loss_curves, own, agrees):
    curves = {"Weir": [own], "PyTorch, 2 threads": [1.0], "PyTorch, 1 thread": [1.1],
              "PyTorch, perturbed 1": [1.05], "PyTorch, f32": [3.0]}
    assert loss_curves.agrees({"precision": "bf16", "curves": curves}) is agrees

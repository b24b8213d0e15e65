"""test_zoo - seven models of torchvision and transformers, compared as bench/zoo/sweep.py does."""
import os
import sys

import pytest

pytest.importorskip("torch", reason="torch: left out")

ZOO = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "..", "bench", "zoo")


@pytest.fixture
def sweep(monkeypatch):
    monkeypatch.setattr(sys, "path", [ZOO, *sys.path])
    import sweep
    return sweep


@pytest.mark.parametrize("package, name", [
    ("torchvision", "squeezenet1_1"), ("torchvision", "resnet18"),
    ("torchvision", "convnext_tiny"), ("transformers", "gpt2"), ("transformers", "t5"),
    ("transformers", "whisper"), ("transformers", "mixtral")])
def test_losses_and_gradients_are_those_of_pytorch(sweep, package, name):
    pytest.importorskip(package, reason=f"{package}: left out")
    row = sweep.run_one(package, name, 2, 3)
    assert sweep.agrees(row) or sweep.agrees_in_f64(row), row

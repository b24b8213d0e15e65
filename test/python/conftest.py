"""conftest - what the tests of the Python package share: a case runs eagerly and recorded."""
import pytest

from weir import autograd, core


@pytest.fixture(params=["off", "on"])
def mode(request):
    """Graph off or on; leaves the device as it was."""
    yield request.param
    core.cpu().Reset()


@pytest.fixture
def training():
    """Operators remember what gradients need."""
    autograd.training = True
    yield
    autograd.training = False


def run(fn, dev, mode):
    """The result of fn: computed at once, or recorded and executed twice."""
    if mode == "off":
        return fn()
    dev.ResetGraph()
    dev.EnableGraph(True)
    try:
        result = fn()
    finally:
        dev.EnableGraph(False)
    dev.RunGraph()
    dev.RunGraph()
    return result

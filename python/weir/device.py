"""device - getting devices."""
from . import core
from .core import Device  # noqa: F401


def get_default_device():
    return core.cpu()


create_cpu_device = get_default_device

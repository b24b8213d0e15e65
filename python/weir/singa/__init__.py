"""singa - makes `singa` mean weir: `python -m weir.singa script.py`, or `import weir.singa` first.

A finder at the head of sys.meta_path gives weir's modules for singa's names when they are asked
for, so `singa.autograd`, `weir.singa.autograd` and `weir.autograd` are one module.
"""
from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import runpy
import sys
import types
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

USAGE = "usage: python -m weir.singa SCRIPT [ARGUMENT...] | -m MODULE [ARGUMENT...]"


class _Package(types.ModuleType):
    """The module singa; its submodules are imported when they are first named."""

    def __getattr__(self, name: str) -> ModuleType:
        if name.startswith("_") or importlib.util.find_spec(f"weir.{name}") is None:
            raise AttributeError(f"module 'singa' has no attribute '{name}'")
        return importlib.import_module(f"singa.{name}")


def _name_in_weir(fullname: str) -> str | None:
    """The name of the module of weir that singa.NAME or weir.singa.NAME is; None: it is not one."""
    for prefix in ("singa.", "weir.singa."):
        if fullname.startswith(prefix):
            name = fullname.removeprefix(prefix)
            return None if name in ("singa", "__main__") else f"weir.{name}"
    return None


class _Loader(importlib.abc.Loader):
    """Imports a module of weir under singa's name; the module keeps its own __spec__."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        if spec.name == "singa":
            return _Package("singa", "weir under SINGA's name")
        module = importlib.import_module(_name_in_weir(spec.name) or "")
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        if isinstance(module, _Package):
            wrap = importlib.import_module("weir.singa_wrap")
            module.__dict__["__version__"] = wrap.SINGA_VERSION
        else:
            module.__spec__ = getattr(module.__spec__, "loader_state")


class _Finder(importlib.abc.MetaPathFinder):
    """Finds singa, singa.NAME and weir.singa.NAME."""

    def find_spec(self, fullname: str, path: Sequence[str] | None = None,
                  target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname == "singa":
            return importlib.machinery.ModuleSpec(fullname, _Loader(), is_package=True)
        name = _name_in_weir(fullname)
        if name is None or importlib.util.find_spec(name) is None:
            return None
        return importlib.machinery.ModuleSpec(fullname, _Loader())


def install() -> None:
    """Makes `singa` mean weir from now on."""
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    if "singa" in sys.modules:
        raise ImportError("another package singa is imported already; import weir.singa before it")
    sys.meta_path.insert(0, _Finder())


def main(arguments: Sequence[str]) -> int:
    """Runs a script, or a module after -m, as `python` would. Returns the exit code."""
    module = arguments[:1] == ["-m"]
    rest = arguments[1:] if module else arguments
    if not rest or rest[0] in ("-h", "--help"):
        print(USAGE, file=sys.stdout if rest else sys.stderr)
        return 0 if rest else 2
    if not module and not os.path.exists(rest[0]):
        print(f"weir.singa: there is no file {rest[0]}", file=sys.stderr)
        return 2
    sys.argv = list(rest)
    if module:
        sys.path[0] = os.getcwd()
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(rest[0]))
        runpy.run_path(rest[0], run_name="__main__")
    return 0


def __getattr__(name: str) -> ModuleType:
    """weir.singa.NAME without an import of its own."""
    if name.startswith("_") or importlib.util.find_spec(f"weir.{name}") is None:
        raise AttributeError(f"module 'weir.singa' has no attribute '{name}'")
    return importlib.import_module(f"weir.singa.{name}")


install()

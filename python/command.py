#!python
# command.py - the command `weir` of an installed wheel: starts the program inside the package.
#
# The package is found, not imported, so the command starts without NumPy. Installers replace the
# first line by the interpreter of the environment.
"""weir: the command-line tool of Weir; see weir --help."""
import importlib.util
import os
import sys


def main() -> None:
    """Replaces this process by the program weir_tool of the installed package."""
    found = importlib.util.find_spec("weir")
    for folder in (found.submodule_search_locations or ()) if found else ():
        tool = os.path.join(folder, "weir_tool")
        if os.path.exists(tool):
            os.execv(tool, [tool, *sys.argv[1:]])
    sys.exit("weir: the package weir has no program weir_tool: pip install --force-reinstall weir")


if __name__ == "__main__":
    main()

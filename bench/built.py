"""built - where the benchmarks find what was built: in the folder WEIR_BUILD, else in build/."""
import os
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("WEIR_BUILD") or ROOT / "build").resolve()


def add_tool(parser, option="--weir"):
    """The option that names the tool, which may be elsewhere."""
    parser.add_argument(option, default=str(BUILD / "weir"), metavar="FILE",
                        help="the tool; default: %(default)s, in $WEIR_BUILD if it is set")


def need_tool(tool):
    """Ends the program with a sentence unless the tool can be run."""
    if not shutil.which(tool):
        sys.exit(f"{Path(sys.argv[0]).name}: there is no program {tool}: build Weir, or name the "
                 "build folder with WEIR_BUILD or the tool with an option (--help lists them)")

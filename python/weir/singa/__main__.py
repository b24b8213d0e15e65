"""__main__ - python -m weir.singa SCRIPT: runs a script that says `singa` on weir."""
import sys

from weir.singa import main

sys.exit(main(sys.argv[1:]))

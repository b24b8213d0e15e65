"""weir - lazy-execution deep learning with a planned memory; SINGA's names, see README."""
from . import capi

__version__ = capi.weir_version()

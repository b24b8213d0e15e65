"""core_pb2 - the element types by SINGA's names, as `singa.proto.core_pb2` has them."""
from weir.core import (kBFloat16, kBool, kChar, kDouble, kFloat16, kFloat32, kInt,  # noqa: F401
                    kInt64, kUChar)

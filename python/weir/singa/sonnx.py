"""sonnx - SINGA's ONNX module, which is not here yet: importing it says so."""
raise ImportError("Weir reads and writes no ONNX yet: sonnx comes in a later version",
                  name=__name__)

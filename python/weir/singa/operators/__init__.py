"""operators - the operators of weir.autograd and their functions, by what they compute."""

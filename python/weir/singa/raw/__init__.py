"""raw - the raw tensors under singa_wrap: their class, views, element types, functions."""

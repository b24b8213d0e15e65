"""layers - where the layers of weir.layer are written: the protocol, images, sequences."""

"""proto - where SINGA keeps its generated messages; scripts read the element types from it."""

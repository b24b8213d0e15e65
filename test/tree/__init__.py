"""tree - the rules of the tree, one group a module; ../check_tree.py runs them."""

#!/usr/bin/env python3
# check_rooms.py - the old name of check_tree.py, for scripts that still call it by that.
import check_tree

raise SystemExit(check_tree.main())

# __init__.py - documents as programs: what test/docs.py reads, runs and is tested by.

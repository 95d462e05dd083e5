"""An engine of faults: real queries on a real cluster, hit again and again, then counted exactly.

`python -m faults --help`, with `tests` on the path, runs it; `make soak` does so for some minutes.
"""

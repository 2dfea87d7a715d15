"""Measurements beside floors and peers: ``python -m benchmarks``. None runs with the tests, since a busy machine would
fail them; the tests look only at what is counted, and whether it is right."""

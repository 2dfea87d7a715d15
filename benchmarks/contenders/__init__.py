"""The contenders. Each module is a program: ``python -m benchmarks.contenders.NAME client|serve ORDER``.

``client`` starts its own server, as a child process where the link has two, runs the scenario and prints one line with
the figures; ``serve`` is that child. ``ORDER`` is the JSON text of a ``workload.Order``.
"""

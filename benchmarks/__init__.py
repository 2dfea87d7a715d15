"""Measurements. None of them runs with the tests: a machine that is busy would fail them."""

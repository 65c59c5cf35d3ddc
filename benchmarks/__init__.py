"""Suites that prove what the README claims. Each is run as `python -m benchmarks.NAME`; `prove` runs them all."""

"""Measuring: texts, interleaved timing, statistics, and the form of result files. The suites are in `benchmarks/`."""

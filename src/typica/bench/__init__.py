"""Benchmark suites, the protocol that runs them, and its tables."""

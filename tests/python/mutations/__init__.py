"""Damaged or manipulated files: each query returns the right answer or an error.

``python -m mutations`` in tests/python tries as many mutants as requested and prints the outcomes.
"""

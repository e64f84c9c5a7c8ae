"""Files that are damaged, or that somebody has tampered with: each gives the right answer or an error.

``python -m mutations`` in tests/python tries as many as are asked for and prints what became of them.
"""

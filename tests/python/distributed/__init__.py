"""Queries over several processes."""

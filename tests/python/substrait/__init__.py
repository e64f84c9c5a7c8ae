"""Substrait plans of other systems, run here, and ours, run there."""

"""``warpmill bench``: what it measures, in which states, and that it says so. No test is about a time."""

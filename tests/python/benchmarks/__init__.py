"""``warpmill bench``: measurements, states, and reports. No test depends on a time."""

"""Does: one package for each kind of place that can run work."""

"""Real engines and frameworks; run by `make lab` alone."""

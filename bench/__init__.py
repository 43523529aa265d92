"""Measures what people wait for, beside something else in the same run. Started by `bench/run`."""

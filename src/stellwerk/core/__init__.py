"""Decides: pure values in, pure values out; no clock, no network, no files, no dice."""

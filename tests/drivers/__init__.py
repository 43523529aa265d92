"""Drivers: what all of them promise, and what each adds."""

"""Answers over HTTP: a thin edge over the store's read models and its inbox."""

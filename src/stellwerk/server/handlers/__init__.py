"""One module per part of the API; the rules are in core, the effects in engine."""

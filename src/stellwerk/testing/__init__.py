"""For tests, ours and those of drivers elsewhere: builders of values and the conformance suite."""

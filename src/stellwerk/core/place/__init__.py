"""Where, and why: which cluster and which nodes, with a verdict for every candidate."""

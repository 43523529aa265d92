"""From what a look at a machine found to what there is to give."""

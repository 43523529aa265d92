"""A place that exists in virtual time, with faults by seed and a true record of what happened."""

"""Who is next, and may they: order, quota, flavors, preemption, fair shares."""

"""Whether N ranks learn as one: their environments and random numbers on one rank, compared."""

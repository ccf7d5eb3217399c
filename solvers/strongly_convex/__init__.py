"""The bound for smooth strongly convex losses: its value, its proof and its minimiser."""

"""Problems on which noise acts: quadratic, strongly convex, and empirical risks."""

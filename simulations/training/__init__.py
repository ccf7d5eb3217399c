"""Private training with correlated noise: secret keys, the order of the data, the noise of a run, and its libraries."""

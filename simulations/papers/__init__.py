"""One room for each paper: its algorithms and experiments."""

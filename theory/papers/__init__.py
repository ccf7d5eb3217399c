"""One room for each paper: definitions and results that only this paper uses."""

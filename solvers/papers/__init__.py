"""One module for each paper: searches that only this paper uses."""

"""The best noise of a finite run within each family."""

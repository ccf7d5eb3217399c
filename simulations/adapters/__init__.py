"""Private runs in the loops of PyTorch, Opacus and JAX."""

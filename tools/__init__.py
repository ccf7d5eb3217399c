"""Tools for the work on this project: they run from a checkout, ``python -m tools.mutation``, and are not installed."""

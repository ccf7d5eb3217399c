"""Shared numerics: checks of arguments, records, number systems, elliptic integrals, quadrature and power series."""

"""Numerical ground: checked arguments, records, number systems, elliptic integrals, quadrature and power series."""

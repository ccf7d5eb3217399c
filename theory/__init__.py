"""Closed forms, exact recursions, quadratures, power series and bounds: pure functions and frozen records."""

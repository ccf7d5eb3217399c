"""Curves of privacy: between ρ of zCDP and (ε, δ), for one Gaussian mechanism and any, and of sampled batches."""

from corrnoise.simulations.amplification import amplified
from corrnoise.theory.privacy import (
    approx_dp_to_zcdp,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_rho,
    zcdp_to_approx_dp,
)

__all__ = ["amplified", "approx_dp_to_zcdp", "gaussian_delta", "gaussian_epsilon", "gaussian_rho", "zcdp_to_approx_dp"]

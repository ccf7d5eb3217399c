"""Privacy profiles of runs and of several runs, and conversions between ρ of zCDP and (ε, δ)."""

from corrnoise.simulations.amplification import amplified
from corrnoise.theory.privacy import (
    approx_dp_to_zcdp,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_rho,
    zcdp_to_approx_dp,
)
from corrnoise.theory.profile import GaussianProfile, Profile, SampledProfile, compose

__all__ = [
    "GaussianProfile",
    "Profile",
    "SampledProfile",
    "amplified",
    "approx_dp_to_zcdp",
    "compose",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_rho",
    "zcdp_to_approx_dp",
]

"""Privacy profiles of runs and of several runs, and conversions between ρ of zCDP and (ε, δ)."""

from corrnoise.simulations.amplification import amplified
from corrnoise.simulations.monte_carlo import MonteCarlo
from corrnoise.theory.auditing.one_run import one_run_bound
from corrnoise.theory.privacy import (
    approx_dp_to_zcdp,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_odometer,
    gaussian_rho,
    zcdp_to_approx_dp,
)
from corrnoise.theory.profile import GaussianProfile, ProductProfile, Profile, SampledProfile, compose
from corrnoise.theory.selection import SelectionProfile, Trials, selection, trial_budget

__all__ = [
    "GaussianProfile",
    "MonteCarlo",
    "ProductProfile",
    "Profile",
    "SampledProfile",
    "SelectionProfile",
    "Trials",
    "amplified",
    "approx_dp_to_zcdp",
    "compose",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_odometer",
    "gaussian_rho",
    "one_run_bound",
    "selection",
    "trial_budget",
    "zcdp_to_approx_dp",
]

"""Designs: noise for a problem and a privacy budget, as a practitioner takes it away."""

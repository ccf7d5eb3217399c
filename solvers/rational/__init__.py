"""Rational noise: few poles that reproduce a given noise, and fits with them."""

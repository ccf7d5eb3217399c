"""Rational noise: few poles that reproduce a given noise, and what is fitted with them."""

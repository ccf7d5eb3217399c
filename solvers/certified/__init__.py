"""Strategies of any form that are optimal for a finite run, between two bounds."""

"""Figures on federated learning with noise cancellation (Reshef and Levy, ICML 2025)."""

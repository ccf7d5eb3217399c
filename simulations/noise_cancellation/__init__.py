"""The server and the machines of federated learning with noise cancellation (Reshef and Levy, ICML 2025)."""

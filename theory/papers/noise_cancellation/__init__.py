"""Federated learning where each machine cancels its own past noise (Reshef and Levy, ICML 2025).

How far one example can move a message (``sensitivity``), what noise a machine adds (``machines``), how private it
then is (``privacy``), and how far the run comes (``coupling``, ``bounds``).
"""

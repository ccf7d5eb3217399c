"""Private momentum with tree-aggregated noise (Tran and Cutkosky, NeurIPS 2022).

``trees`` has the dyadic nodes and the noise that a momentum reads from them, ``sensitivity`` how much one example
changes all nodes, ``calibration`` the noise of Algorithms 1 and 2, ``reconstruction`` the identity behind Algorithm 2,
and ``bounds`` the theorems about gradient norms, as published and corrected.  ``orders`` has the sensitivity of any
other mechanism, ``published_reduced_noise`` the printed noise of Algorithm 2, and ``run_bounds`` the corrected lemmas
put together for any parameters.
"""

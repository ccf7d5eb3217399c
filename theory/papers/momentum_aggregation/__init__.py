"""Private momentum with tree-aggregated noise (Tran and Cutkosky, NeurIPS 2022).

The tree of Algorithm 1 is the mechanism ``BinaryTree(T, decoder="binary", decay=α)``.  ``trees`` has the dyadic nodes
and the noise that a momentum reads from them, ``sensitivity`` how much one example changes all nodes, or those of
Algorithm 2, ``calibration`` the noise of Algorithms 1 and 2, ``published_reduced_noise`` the printed noise of
Algorithm 2, ``reconstruction`` the identity behind Algorithm 2, and ``bounds`` the theorems about gradient norms, as
published and corrected.  ``run_bounds`` puts the corrected lemmas together for any parameters.
"""

"""Private momentum with normalised steps on data: Algorithms 1 and 2 of Tran and Cutkosky (2022), and baselines."""

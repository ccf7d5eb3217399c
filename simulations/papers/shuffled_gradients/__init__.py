"""Shuffled gradient methods: one run, the data sets and the experiments of the paper."""

"""Mutation testing of theory: are the formulas pinned down by the tests and the ledger?"""

"""Mutation testing: are the formulas pinned down by the tests, and by the claims of the ledger?"""

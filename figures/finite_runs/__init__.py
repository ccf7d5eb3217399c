"""The cost of a finite run: figures that go on from Table 3 of arXiv 2310.06771."""

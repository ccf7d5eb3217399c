"""The figures of the papers: a data function and a drawing function each."""

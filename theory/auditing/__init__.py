"""Statistics of an audit: evidence in the releases of a training loop about its noise and its privacy.

``noise`` tests the idle coordinates, ``canaries`` the coordinates that hold a gradient, ``epsilon`` bounds ε from
counts without any assumption about the noise, and ``findings`` makes one verdict of all.
"""

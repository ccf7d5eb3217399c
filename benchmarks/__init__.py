"""Benchmarks of corrnoise: ratios, measured in one run, of what a result costs here and by another method.

Run from the root of a checkout, with corrnoise installed::

    python -m benchmarks [--quick] [--only NAME] [--json FILE]

A ratio is the CPU time a value takes by the other method divided by the CPU time it takes here: above 1, corrnoise is
faster.  Both sides run in turns in one process, after a first call that compiles, and no row is printed without a
comparison of the numbers that the two sides return; a disagreement makes the command fail.  Linear algebra is held to
one thread, because the idle threads of a pool spin, and would be counted against whoever runs next.

A benchmark is a function in one of the modules named in ``core.SUBJECTS``::

    @benchmark
    def cubes(setting):
        \"\"\"Cubes of numbers against the power function.\"\"\"
        x = np.random.default_rng(0).uniform(1, 2, setting.pick(100_000, 1000))
        ours, other = Side("x * x * x", lambda: x * x * x, x.size), Side("x ** 3.0", lambda: x**3.0, x.size)
        yield setting.compare(f"{x.size} values", ours, other, item="value", tolerance=1e-15)
"""

import os

for _library in ("OPENBLAS", "OMP", "MKL"):  # read once, when numpy is first imported
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")

"""Benchmarks of corrnoise: ratios of CPU times, this library against another method, measured in one run.

Run from the root of a checkout, with corrnoise installed::

    python -m benchmarks [--quick] [--only NAME | --peer] [--json FILE]

A ratio is the CPU time that a value takes by the other method divided by the CPU time that it takes here: above 1,
corrnoise is faster.  Both sides run in turns in one process, after a first call that compiles.  Every row compares the
numbers that the two sides return, and a disagreement makes the command fail.  Linear algebra uses one thread, because
the idle threads of a pool spin, and their CPU time would be counted for the side that runs next.

A benchmark is a function in one of the modules named in ``core.SUBJECTS``::

    @benchmark
    def cubes(setting):
        \"\"\"Cubes of numbers against the power function.\"\"\"
        x = np.random.default_rng(0).uniform(1, 2, setting.pick(100_000, 1000))
        ours = Side("x * x * x", lambda: x * x * x, x.size)
        other = Side("x ** 3.0", lambda: x**3.0, x.size)
        yield setting.compare(f"{x.size} values", ours, other, item="value", tolerance=1e-15)
"""

import os

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
for _library in ("OPENBLAS", "OMP", "MKL"):  # the variables are read when numpy is first imported
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")

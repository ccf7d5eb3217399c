"""Settings of the suite: hypothesis draws the same examples at every run, and nothing is timed."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the workers of the suite share the cores

from hypothesis import HealthCheck, settings

settings.register_profile(
    "suite",
    derandomize=True,
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("suite")

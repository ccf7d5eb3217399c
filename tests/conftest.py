"""Settings of the suite: hypothesis draws the same examples at every run, nothing is timed, interrupts are heard."""

import os
import signal

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the workers of the suite share the cores

from hypothesis import HealthCheck, settings

for name, examples in (("suite", 25), ("thorough", 500)):  # pytest --hypothesis-profile thorough
    settings.register_profile(
        name,
        derandomize=True,
        deadline=None,
        max_examples=examples,
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile("suite")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # what a shell does to commands in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)  # tests interrupt themselves and their children

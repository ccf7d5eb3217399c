"""``corrnoise warm``: compile the functions of designs and runs, and keep their machine code.

An image that is built so needs no compiler time at the first design.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

SUMMARY = "compile the functions of designs and runs before their first use, for the build of an image"
EXAMPLE = "corrnoise warm"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare no argument."""


def run(arguments: Namespace) -> int:
    """Make small designs and runs of each data order, whose functions numba compiles and keeps."""
    import numpy as np

    from corrnoise.designs.make import design
    from corrnoise.theory.objectives.workloads import SGD
    from corrnoise.theory.participation import Participation
    from corrnoise.theory.privacy import Budget

    budget = Budget(rho=1.0)
    orders = [
        Participation.fixed_epochs(6, epochs=1),
        Participation.fixed_epochs(8, epochs=2),
        Participation.min_sep(20, 5, 3),
        Participation.reshuffled(8, epochs=2),
    ]
    for order in orders:
        made = design(budget, order, memory=1, replays=min(1, order.worst.count - 1)).run(size=4)
        for _ in made:
            made.add_noise(np.zeros(4))
    for order in orders[1:]:
        design(budget, order, SGD(momentum=0.9), memory=1)
    print("compiled the functions of designs and runs")
    return 0

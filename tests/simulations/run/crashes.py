"""The end of a process in the middle of a run, as tests stage it."""

from corrnoise.simulations.run.private import PrivateRun


def dies(run: PrivateRun) -> None:
    """The process ends without a word: nothing is written, the locks are free."""
    if run._durable is not None:
        run._durable.home.close()
        run._broken = True

"""The commands of the command line, one module each: ``SUMMARY``, ``EXAMPLE``, ``add_arguments`` and ``run``."""

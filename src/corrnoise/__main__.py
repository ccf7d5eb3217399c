"""The command line: ``corrnoise COMMAND``, where ``corrnoise --help`` shows an example of each.

A command is a module: its ``SUMMARY``, an ``EXAMPLE``, ``add_arguments``, and ``run``, which returns the exit status.
A command imports its libraries when it runs, so that help is immediate.  Errors are one line on stderr.  Exit
status: 0 success, 1 an error or a refusal, 2 a wrong word or value on the command line, 130 interruption, 143
termination by SIGTERM, which ends a command as an interruption does.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import warnings
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper

from corrnoise import __version__
from corrnoise.commands import audit, check, design, federate, figures, report, run, simulate, verify, warm
from corrnoise.commands.options import UsageError
from corrnoise.support.process import discard_output, this_process
from corrnoise.support.suggestions import did_you_mean

COMMANDS = {
    "figures": figures,
    "check": check,
    "verify": verify,
    "design": design,
    "simulate": simulate,
    "federate": federate,
    "audit": audit,
    "run": run,
    "report": report,
    "warm": warm,
}
_BEFORE_COMMANDS = ("-h", "--help", "--version")


def _parser() -> ArgumentParser:
    examples = "\n".join(f"  {command.EXAMPLE}" for command in COMMANDS.values())
    parser = ArgumentParser(
        prog="corrnoise",
        description="Correlated noise for differentially private optimisation.",
        epilog=f"examples:\n{examples}",
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"corrnoise {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        subparser = commands.add_parser(
            name, help=command.SUMMARY, description=command.SUMMARY, epilog=f"example: {command.EXAMPLE}"
        )
        command.add_arguments(subparser)
        subparser.add_argument(
            "-v", "--verbose", action="store_true", help="log each piece of the work, and where an error arose"
        )
        options = [option for action in subparser._actions for option in action.option_strings]
        subparser.set_defaults(run=command.run, options=options)
    return parser


def _unknown(word: str) -> str:
    """The message about an unknown first word."""
    if word.startswith("-"):
        return f"COMMAND must come before its options, got {word!r}{did_you_mean(word, _BEFORE_COMMANDS)}"
    return f"COMMAND must be one of {', '.join(COMMANDS)}, got {word!r}{did_you_mean(word, COMMANDS)}"


class _Terminated(KeyboardInterrupt):
    """SIGTERM: schedulers of clusters and containers end processes so."""


@contextmanager
def _ended_by_termination() -> Iterator[None]:
    """A block that SIGTERM ends by an exception, once, unless the program handles the signal itself."""
    ours = this_process()

    def end(*_: object) -> None:
        if this_process() == ours:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # let the command clean up
            raise _Terminated
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # in a process that was forked
        os.kill(os.getpid(), signal.SIGTERM)

    main_thread = threading.current_thread() is threading.main_thread()
    if not main_thread or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def _logged(verbose: bool) -> Iterator[None]:
    """A block whose log goes to standard error; with ``verbose`` the details, too, and where an error arose."""
    logger = logging.getLogger("corrnoise")
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("corrnoise: %(asctime)s %(message)s", "%H:%M:%S"))
    logger.addHandler(handler)
    before = logger.level
    logger.setLevel(logging.DEBUG if verbose else logging.INFO)
    try:
        yield
    except Exception:
        logger.debug("the error arose here:", exc_info=True)
        raise
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line with the arguments ``argv`` (None: of the process) and return the exit status."""
    if argv is None:
        _prepare_streams()
    try:
        status = _ran(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        discard_output()
        return 1


def _prepare_streams() -> None:
    """Let all texts be printed, a warning as one line: closed streams swallow them, other encodings replace letters."""
    warnings.showwarning = lambda message, *_: print(f"corrnoise: warning: {message}", file=sys.stderr)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, TextIOWrapper) and name == "stdout":
            stream.reconfigure(errors="replace")


def _ran(words: list[str]) -> int:
    """The exit status of the command line ``words``."""
    parser = _parser()
    if "_ARGCOMPLETE" in os.environ:  # the shell asks for completions
        import argcomplete

        argcomplete.autocomplete(parser)
    if words[:1] == ["help"]:
        words = [*words[1:2], "--help"]
    if not words:
        parser.print_help()
        return 0
    try:
        if words[0] not in (*COMMANDS, *_BEFORE_COMMANDS):
            parser.error(_unknown(words[0]))
        arguments, rest = parser.parse_known_args(words)
        if rest:
            near = did_you_mean(rest[0].partition("=")[0], arguments.options)
            parser.error(f"unrecognized arguments: {' '.join(rest)}{near}")
        with _ended_by_termination(), _logged(arguments.verbose):
            status: int = arguments.run(arguments)
            return status
    except SystemExit as stop:  # argparse: help, version, misuse
        return int(stop.code or 0)
    except _Terminated:
        print("corrnoise: terminated", file=sys.stderr)
        return 128 + signal.SIGTERM
    except KeyboardInterrupt:
        print("corrnoise: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        raise
    except (ArithmeticError, ImportError, OSError, ValueError) as error:
        print("corrnoise: error:", " ".join(str(error).split()), file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1


if __name__ == "__main__":
    sys.exit(main())

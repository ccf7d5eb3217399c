"""``corrnoise verify``: verify a certificate by another interval arithmetic.

Exit status: 0 valid, 1 not valid, 2 no certificate can be read.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

SUMMARY = "verify a certificate, by software that did not find it"
EXAMPLE = "corrnoise verify certificate.json"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("file", metavar="FILE", help="a certificate that corrnoise check --certificate has written")


def run(arguments: Namespace) -> int:
    """Verify the certificate and print the statement."""
    from corrnoise.commands.options import UsageError
    from corrnoise.paper_checks.machinery.verification import verify
    from corrnoise.support.reading import guarded, json_value, read_bytes

    try:
        with guarded(arguments.file):
            record = json_value(read_bytes(arguments.file))
    except (OSError, ValueError) as error:
        raise UsageError(str(error)) from error
    found = verify(record)
    if not found.valid:
        print(f"not valid: {found.reason}")
        return 1
    print(f"valid: {record.get('claim', '')} ({found.leaves} boxes, digest {record['digest'][:16]})")
    if record["left_out"]:
        print(f"left out: {record['left_out']}")
    return 0

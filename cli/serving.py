"""The subcommand `mtlmon serve`: a local page that checks a policy while it is written."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from typing import TYPE_CHECKING

from mtlmon.cli.arguments import Arguments
from mtlmon.cli.option_groups import (
    add_cell_options,
    add_column_options,
    add_end_option,
    add_error_option,
    add_pattern_option,
    add_unit_options,
)
from mtlmon.cli.parser import Parser, add_help_options
from mtlmon.cli.terminal import show
from mtlmon.run.failure import RunError, WriteFailure, reason
from mtlmon.support.inputs import STANDARD_STREAM
from mtlmon.support.table_formats import FORMAT_NAMES, compression_of, table_format

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

__all__ = ["ServeOptions", "make_parser", "parse_arguments", "serve", "worker_command"]

USAGE = "mtlmon serve [options] [FILE [LOG]]"

DESCRIPTION = """\
Show a page on this computer with a policy, a log, and what mtlmon says of them while you edit both:
errors at their places, verdicts and values of streams over time, and explanations.

  FILE  the policy, or a file of policies; an example if there is none
  LOG   the log as text: lines '@TIME-STAMP ATOM ATOM ...', CSV, TSV, JSON lines or lines with a
        pattern; only its text is shown, and no file is changed
"""

EPILOG = """\
examples:
  mtlmon serve rules.mtl events.csv
  mtlmon serve --open --port 0
  mtlmon serve --export finding.html rules.mtl events.csv

exit status: 0 no error, 2 an error in usage, a file that cannot be read, or a port in use
"""

DEFAULT_PORT = 8765
MOST_MEMORY = 1 << 30
SECONDS = 30.0


class ServeOptions(Arguments):
    """The options of the command line.

    Attributes:
        policy_name: the name of the policy file on the page.
        log_name: the name of the log on the page.
    """

    port: int
    opens: bool
    export: str | None
    max_memory: int
    policy_name: str
    log_name: str
    format: str | None
    pattern: str | None


def serve(arguments: Sequence[str]) -> int:
    """Run the subcommand; return the exit status.

    Raises:
        RunError: an argument is invalid, a file cannot be read, or the port cannot be used.
        SystemExit: after -h and --help.
    """
    options = parse_arguments(arguments)
    policy, log = texts_of(options)
    if options.export is not None:
        return export(policy, log, options)
    from mtlmon.serving import Playground, Serving, Workers

    workers = Workers(worker_command(arguments), SECONDS)
    playground = Playground(policy, log, options.policy_name, options.log_name)
    try:
        server = Serving(playground, workers, options.port)
    except (OSError, OverflowError) as error:
        words = reason(error) if isinstance(error, OSError) else str(error)
        raise RunError(
            f"cannot use port {options.port}: {words}; name another one with --port, or --port 0 "
            "for any that is free"
        ) from None
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    try:
        workers.prepare()
        show(f"{server.url}\n")
        if options.opens:
            import webbrowser

            webbrowser.open(server.url)
        server.serve_forever()
    except KeyboardInterrupt:
        return 0
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        server.server_close()
        workers.close()
    return 0


def worker_command(arguments: Sequence[str]) -> list[str]:
    """Return the command line of a process that answers a request, given those of this one."""
    # Without -P, a folder `mtlmon` of the working directory would be imported.
    return [sys.executable, "-P", "-m", "mtlmon.cli.serving_work", *arguments]


def _stop(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def export(policy: str, log: str, options: ServeOptions) -> int:
    """Write a page with what is found; return the exit status.

    Raises:
        WriteFailure: the page cannot be written.
    """
    from mtlmon.cli.serving_work import exported
    from mtlmon.support.replacing import write_whole

    assert options.export is not None
    page = exported(policy, log, options)
    try:
        write_whole(options.export, page.encode("utf-8", "replace"))
    except (OSError, ValueError) as error:
        raise WriteFailure(f"cannot write {options.export}: {reason(error)}") from None
    return 0


def texts_of(options: ServeOptions) -> tuple[str, str]:
    """Return the policy and the log that the page begins with.

    Raises:
        RunError: a file cannot be read, is too large, or is not text.
    """
    texts = ["", ""]
    if not options.files:
        from mtlmon.serving.examples import EXAMPLES

        return EXAMPLES[0].policy, EXAMPLES[0].log
    for place, path in enumerate(options.files):
        texts[place] = text_of(path)
    return texts[0], texts[1]


def text_of(path: str) -> str:
    """Return the text of a file.

    Raises:
        RunError: it cannot be read, is too large, or is not text.
    """
    from mtlmon.serving.page import MOST_TEXT_BYTES

    try:
        with open(path, "rb") as file:
            content = file.read(MOST_TEXT_BYTES + 1)
    except (OSError, ValueError) as error:
        raise RunError(f"cannot read {path}: {reason(error)}") from None
    if len(content) > MOST_TEXT_BYTES:
        raise RunError(
            f"{path} has more than {MOST_TEXT_BYTES >> 20} MiB, too much for a page: take a part "
            "of it, as with head -n 10000, or use mtlmon --report"
        )
    known = table_format(path)
    is_binary = known is not None and (known[1] is not None or known[0] in ("parquet", "arrow"))
    try:
        if is_binary or compression_of(content[:16]) is not None:
            raise ValueError
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except ValueError:
        raise RunError(
            f"{path} is not text in UTF-8, which a page could show: convert it, for instance to "
            "CSV, or use mtlmon --report"
        ) from None


def make_parser() -> Parser:
    """Make the parser of the arguments."""
    parser = Parser(prog="mtlmon serve", usage=USAGE, description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument("files", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument(
        "--port",
        type=port_number,
        default=DEFAULT_PORT,
        metavar="N",
        help=f"the port of the page (default: {DEFAULT_PORT}); 0 for any free port",
    )
    parser.add_argument("--open", dest="opens", action="store_true", help="open it in the browser")
    parser.add_argument(
        "--export",
        metavar="FILE",
        help="write a page that shows policy, log, verdicts and explanations without a server to "
        "FILE.html instead",
    )
    parser.add_argument(
        "--format",
        choices=("text", *(name for name in FORMAT_NAMES if name not in ("parquet", "arrow"))),
        help="the format of the log (default: from its name, or else from its first line)",
    )
    add_pattern_option(parser)
    add_cell_options(parser)
    add_column_options(parser)
    add_unit_options(parser)
    parser.add_argument("--sort", action="store_true", help="sort rows by time first")
    add_end_option(parser)
    add_error_option(parser)
    add_help_options(parser)
    return parser


def port_number(text: str) -> int:
    """Return the number of a port.

    Raises:
        ArgumentTypeError: it is none.
    """
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"a port is a number from 0 to 65535, not {text}")
    return int(text)


def parse_arguments(arguments: Sequence[str]) -> ServeOptions:
    """Parse the arguments.

    Raises:
        RunError: an argument is invalid.
        SystemExit: after -h and --help.
    """
    parser = make_parser()
    options = parser.read(arguments, ServeOptions())
    if len(options.files) > 2:
        parser.error(f"one policy file and one log: leave out {' '.join(options.files[2:])}")
    if STANDARD_STREAM in options.files:
        parser.error("the page needs files: standard input is not shown")
    if options.pattern is not None and options.format is not None:
        parser.error("--pattern reads lines of text: leave out --format")
    names = [os.path.basename(path) for path in options.files]
    options.policy_name = names[0] if names else "policy.mtl"
    options.log_name = names[1] if len(names) > 1 else "events.log"
    options.max_memory = MOST_MEMORY
    return options

"""What `-h` shows: the most used options of each command on one screen. `--help` shows all."""

from __future__ import annotations

__all__ = ["SHORT_HELP"]

_COMMAND = r"""
usage: mtlmon [options] POLICY_FILE [LOG ...]
       mtlmon [options] -e FORMULA [LOG ...]
       mtlmon COMMAND [options] ...

Check a log against policies in metric temporal logic.
Logs: lines '@TIME ATOM ATOM ...', CSV, JSON lines, Parquet, or --pattern.

policies and logs:
  --unit UNIT          the unit of time-stamps, as in --unit s for ONCE[0,5m]
  --pattern REGEX      the columns of lines of text; or sshd, nginx, syslog, ...
  --time COLUMN, --event COLUMN, --key COLUMN
                       the columns of times, events, and keys: each is a trace
  --sort, --wait D     sort rows by time; in live logs, hold them back for D
  --end-time last      the log is complete: leave nothing undecided
verdicts:
  --verdicts false     only violations; --resolve: no equivalences
  -o FILE, --output-format {text,jsonl,csv,parquet}
  --explain, -C N      explain the first violations; show N rows around each
  --report FILE        write an HTML page about the run
commands:
  check-policy, serve, streams, query, analyze, resolve, latest

examples:
  mtlmon --end-time last policy.mtl events.log
  tail -f events.log | mtlmon -e 'request IMPLIES EVENTUALLY[0,5] response'
  mtlmon --key user --event action --report report.html rules.mtl 'logs/*.csv'
  mtlmon serve --open policy.mtl events.log

All options: mtlmon --help. Options of a command: mtlmon COMMAND -h.
"""

_RESOLVE = r"""
usage: mtlmon resolve [options] [VERDICTS]

Give every time-point its Boolean verdict, as early as it is known: '5:1 = 5:0'
becomes '5:1 false' when '5:0 false' comes.

  VERDICTS             lines as mtlmon writes them (default: standard input)
  --in-order           write verdicts in the order of time-points
  --reach N            with --in-order: how long a verdict may wait
  --verdicts {all,false,none}
                       which verdicts to write (default: all)
  --changelog          read verdicts that --lateness has corrected
  -o FILE              write verdicts to FILE

examples:
  mtlmon resolve yesterday.verdicts
  mtlmon policy.mtl events.log | mtlmon resolve --in-order --reach 5

All options: mtlmon resolve --help.
"""

_LATEST = r"""
usage: mtlmon latest [options] [CHANGELOG]

Collapse a changelog of late or corrected events into the latest verdict of each
time-point, in order of time.

  CHANGELOG            what mtlmon --lateness writes (default: standard input)
  --final              write only verdicts that no late event can change
  --as-of T            what was known at time T, of a changelog of --arrival
  --resolve            write Boolean verdicts instead of equivalences
  --verdicts {all,false,none}
                       which verdicts to write (default: all)
  -o FILE              write verdicts to FILE

examples:
  mtlmon latest yesterday.changes
  tail -n +1 -f live.changes | mtlmon latest --final --resolve

All options: mtlmon latest --help.
"""

_CHECK_POLICY = r"""
usage: mtlmon check-policy [options] FILE [LOG]

Check a policy file and explain how it is parsed: every policy, and the atoms
defined by predicates. With a LOG, the types of its columns are checked, too.

  --policy FILE        a policy file, in place of FILE; may be repeated
  --unit UNIT          the unit of the log's time-stamps, if the file has none
  --set NAME=CONSTANT  the value of a constant that the file declares
  --pattern REGEX      the columns of lines of text; or sshd, nginx, syslog, ...
  --parentheses        print a file of version 0.2 with the parentheses that
                       formulas need now

examples:
  mtlmon check-policy rules.mtl
  mtlmon check-policy rules.mtl events.parquet
  mtlmon check-policy --parentheses old.mtl > new.mtl

All options: mtlmon check-policy --help.
"""

_STREAMS = r"""
usage: mtlmon streams [options] FILE LOG...

Write the values of the streams that a policy file declares: a row for each row
of the log and for each tick, with its time-stamp and its key.

log:
  --format FORMAT      the format of the log (default: from its name)
  --pattern REGEX      the columns of lines of text; or sshd, nginx, syslog, ...
  --time COLUMN, --event COLUMN, --key COLUMN
                       the columns of times, of events, and of keys
  --unit UNIT          the unit of time-stamps
  --set NAME=CONSTANT  the value of a constant that the file declares
  --sort, --wait D     sort rows by time; in live logs, hold them back for D
values:
  --plot FILE          draw values and violations into FILE.svg or .png
  -o FILE              write the values to FILE
  --output-format {jsonl,csv,parquet}

examples:
  mtlmon streams rules.mtl events.csv
  mtlmon streams --plot means.svg rules.mtl 'logs/*.csv'

All options: mtlmon streams --help.
"""

_QUERY = r"""
usage: mtlmon query [options] FILE RELATION [TABLE...] [NAME=TABLE...]

Write the records of a relation: from which time-stamp and up to which each is
valid, then its columns. TABLE is the log, if the relation reads its rows.

  --format FORMAT      the format of the log (default: from its name)
  --pattern REGEX      the columns of lines of text; or sshd, nginx, syslog, ...
  --time COLUMN        the column of times
  --unit UNIT          the unit of time-stamps
  --set NAME=CONSTANT  the value of a constant that the file declares
  --sort               sort rows by time first
  --lateness D         accept rows up to D late, and revise records
  -o FILE              write the records to FILE
  --output-format {jsonl,csv,parquet}

examples:
  mtlmon query shop.mtl prices
  mtlmon query rules.mtl assigned events.csv

All options: mtlmon query --help.
"""

_ANALYZE = r"""
usage: mtlmon analyze [options] FILE [TABLE]

Say how much memory the policies and streams of a file need at most, if the log
is as the file assumes: assume rate <= 1000/s, assume keys <= 5000.

  --limit SIZE         exit with status 1 if it needs more than this, as 1GiB
  --key COLUMN         rows with equal values in this column form a trace
  --lateness D         add the memory to correct verdicts for late rows
  --unit UNIT          the unit of the log's time-stamps
  --set NAME=CONSTANT  the value of a constant that the file declares
  --format {text,json}
                       how to write the bounds (default: text)

examples:
  mtlmon analyze rules.mtl
  mtlmon analyze --limit 1GiB rules.mtl events.csv

All options: mtlmon analyze --help.
"""

_SERVE = r"""
usage: mtlmon serve [options] [FILE [LOG]]

Show a page on this computer with a policy, a log, and what mtlmon says of them
while you edit both. Without files, the page begins with an example.

page:
  --open               open it in the browser
  --port N             its port (default: 8765); 0 for any free port
  --export FILE        write what it shows to FILE.html instead
log:
  --format FORMAT      the format of the log (default: from its name)
  --pattern REGEX      the columns of lines of text; or sshd, nginx, syslog, ...
  --time COLUMN, --event COLUMN, --key COLUMN
                       the columns of times, of events, and of keys
  --unit UNIT          the unit of time-stamps
  --set NAME=CONSTANT  the value of a constant that the file declares
  --end-time last      the log is complete: leave nothing undecided

examples:
  mtlmon serve --open
  mtlmon serve --key user --event action rules.mtl events.csv

All options: mtlmon serve --help.
"""

SHORT_HELP = {
    "mtlmon": _COMMAND,
    "mtlmon resolve": _RESOLVE,
    "mtlmon latest": _LATEST,
    "mtlmon check-policy": _CHECK_POLICY,
    "mtlmon streams": _STREAMS,
    "mtlmon query": _QUERY,
    "mtlmon analyze": _ANALYZE,
    "mtlmon serve": _SERVE,
}
"""The text for each command, by what it is called; it begins with an empty line."""

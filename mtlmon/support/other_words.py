"""What other languages and tools call what mtlmon has: the words that people try.

The words are those of tools for temporal logic (LTL, STL, MonPoly, RTLola), of SQL, of PromQL and
of pandas. Each is in lower case, and leads to the name that mtlmon has, or to a sentence that says
what to write. `mtlmon.support.guesses.advice` reads these tables.
"""

from __future__ import annotations

from mtlmon.support.guesses import with_advice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "AGGREGATES",
    "BINARY_OPERATORS",
    "DECLARATIONS",
    "FUNCTIONS",
    "OPTIONS",
    "PREFIX_OPERATORS",
    "SIGNS",
    "STEPS",
    "SUBCOMMANDS",
    "type_hint",
]


def _table(*rows: tuple[str, str]) -> dict[str, str]:
    """Make a table from rows of words, separated by blanks, and what they all mean."""
    return {word: meant for words, meant in rows for word in words.split()}


_MATCHES = 'a regular expression is matched by matches(column, "^a+$")'
_BOUND = "write bounds in brackets behind the operator: EVENTUALLY[0,5] p"
_QUANTIFIED = "a quantifier has variables and a dot: EXISTS x. p(x)"

BINARY_OPERATORS = _table(
    ("xor", "write NOT (p EQUIV q)"),
    ("nand", "write NOT (p AND q)"),
    ("nor", "write NOT (p OR q)"),
    ("equals equivalent biimplies", "EQUIV"),
    ("then implied implying", "IMPLIES"),
    ("weakuntil wuntil weak unless", "WEAK_UNTIL"),
    ("v releases", "RELEASE"),
    ("m strong_release strongrelease mighty_release", "write q UNTIL (p AND q)"),
    ("weak_since wsince weaksince b backto", "write (p SINCE q) OR HISTORICALLY p"),
    ("triggers triggered", "TRIGGER"),
    ("within before_within", _BOUND),
    ("leads leadsto leads_to followed followedby responds", "write p IMPLIES EVENTUALLY[0,5] q"),
    ("for during lasting", "write bounds in brackets: HISTORICALLY[0,5] p for the last 5 units"),
    ("after precedes preceded", "write p IMPLIES ONCE q"),
    ("like ilike rlike regexp similar", _MATCHES),
    ("between", "compare with >= and <="),
    ("mod", "the rest of a division is x % y"),
    ("where having", "join conditions by AND"),
)
"""Operators between two formulas."""

PREFIX_OPERATORS = _table(
    ("henceforth invariably alw", "ALWAYS"),
    ("sometime sometimes future possibly ev", "EVENTUALLY"),
    ("tomorrow strong_next snext weak_next wnext", "NEXT"),
    ("yesterday last before strong_previous weak_previous", "PREVIOUS"),
    ("past ever", "ONCE"),
    ("historic historical", "HISTORICALLY"),
    ("never", "write ALWAYS NOT p; at every time-point by itself, NOT p"),
    ("rise rising", "write p AND NOT PREVIOUS p"),
    ("fall falling", "write NOT p AND PREVIOUS p"),
    ("changed", "write p AND PREVIOUS NOT p, or NOT p AND PREVIOUS p"),
    ("for_all", _QUANTIFIED.replace("EXISTS", "FORALL")),
    ("for", _QUANTIFIED.replace("EXISTS", "FORALL")),
    ("there thereexists", _QUANTIFIED),
    ("after when whenever", "write p IMPLIES q"),
    ("select", "a formula is no query: write the condition that each row has to meet"),
    ("case", "a choice is written if ... then ... else ..., and compared"),
)
"""Operators before a formula."""

AGGREGATES = _table(
    ("mean average", "avg"),
    ("percentile pct percentile_cont quantiles", "quantile"),
    ("std stdev stddev_samp stddev_pop sd", "stddev"),
    ("variance var_samp var_pop", "var"),
    ("median_absolute_deviation medianabsolutedeviation mad_over_time", "mad"),
    ("cnt number counter size", "count"),
    ("irate per_second", "rate"),
    ("growth", "increase"),
    ("count_distinct nunique unique cardinality approx_distinct count_values", "distinct"),
    ("total", "sum"),
    ("maximum", "max"),
    ("minimum", "min"),
    ("some exists bool_or or", "any"),
    ("every forall bool_and and", "all"),
    ("first_value", "first"),
    ("last_value latest", "last"),
    ("integrate area", "integral"),
)
"""Aggregates of windows and groups, without `rolling_` before and `_over_time` behind them."""

FUNCTIONS = _table(
    ("lag prev previous shift", "write x.last() for the value before"),
    ("lead next", "write x.next() for the value after it"),
    ("diff delta deriv idelta", "write x - x.last() for the difference to the value before"),
    ("ifnull nvl isnull fillna", "write coalesce(x, 0), or x is null"),
    ("regexp regexp_like regex match rlike re_match", 'write matches(x, "^a+$")'),
    ("now current_timestamp time", "write ts, the time of the row"),
    ("dayofweek day_of_week dow", "write weekday(ts)"),
    ("len strlen char_length", "length"),
    ("lcase tolower to_lower", "lower"),
    ("ucase toupper to_upper", "upper"),
    ("starts_with has_prefix", "startswith"),
    ("ends_with has_suffix", "endswith"),
    ("includes instr", "contains"),
    ("fabs absolute", "abs"),
    ("int trunc", "floor"),
    ("ceil ceiling", "write -floor(-x)"),
    ("power", "pow"),
    ("ln", "log"),
    ("log10 log2", "write log(x) / log(10)"),
    ("cast convert", "declare the type of a column: column x: float"),
)
"""Functions of values."""

DECLARATIONS = _table(
    ("rule assert assertion property spec requirement guarantee alert invariant", "policy"),
    ("def define macro formula", "let"),
    (
        "input output",
        "this is RTLola, whose inputs are the columns of a log here and need no declaration: write "
        "stream NAME = EXPRESSION for output, and trigger NAME: CONDITION",
    ),
    ("import", "nothing is imported: leave the line out"),
    ("predicate proposition prop", "atom"),
    ("constant param parameter", "const"),
    ("signal var variable", "stream"),
    ("table view", "relation"),
    ("query search", "find"),
)
"""The words that begin declarations."""

STEPS = _table(
    ("filter having", "where"),
    ("project columns map", "select"),
    ("groupby aggregate", "group"),
    ("except difference subtract antijoin", "minus"),
    ("inner left right outer cross", "join"),
    ("exists", "semijoin"),
    ("dedup unique", "distinct"),
    ("merge", "coalesce"),
    ("union_all concat", "union"),
    ("sample", "every"),
    ("delay lag postpone", "shift"),
    ("asof as_of snapshot slice", "at"),
    ("window windows hop", "write valid 15m, valid last 100 rows or valid 15m every 5m"),
    ("order sort limit", "relations have no order and no first records: leave it out"),
)
"""The steps of relations."""

SUBCOMMANDS = _table(
    (
        "check monitor verify run test eval evaluate policy",
        "no word is needed: mtlmon POLICY LOG",
    ),
    ("explain why", "an option explains violations: mtlmon --explain POLICY LOG"),
    ("report html", "an option writes a report: mtlmon --report report.html POLICY LOG"),
    ("validate lint parse check_syntax compile", "did you mean 'mtlmon check-policy'?"),
    ("help", "did you mean 'mtlmon --help'?"),
    ("version", "did you mean 'mtlmon --version'?"),
    ("plot ui gui web playground", "did you mean 'mtlmon serve'?"),
    ("watch tail follow", "an option follows a log: mtlmon --follow LOG POLICY"),
    ("sql select relation", "did you mean 'mtlmon query'?"),
    ("memory cost bounds estimate", "did you mean 'mtlmon analyze'?"),
)
"""First words of the command."""

_NOTHING = "mtlmon needs no such option: leave it out"
_BY_NAME = "the log is named behind the policy: mtlmon POLICY LOG"
OPTIONS = _table(
    ("formula", "the formula is -e FORMULA, its file the first argument: mtlmon FILE LOG"),
    ("spec specification f", "the file is the first argument: mtlmon FILE LOG"),
    ("policies rule rules p", "--policy"),
    ("sig", "--signature"),
    ("log logs input i csv-in trace data", _BY_NAME),
    ("stdin", "a log on standard input is written -, or not at all"),
    (
        "no_rw no-rw verified no_mw nonewlastts nofilterempty nofilteremptytp nofilteremptydb unix "
        "ignore_parse_errors stop_at_out_of_order_ts stop_at_first_viol offline online pastify "
        "dense discrete sampling-period",
        _NOTHING,
    ),
    ("strict", _NOTHING),
    ("check", "did you mean 'mtlmon check-policy FILE'?"),
    ("robustness semantics", "verdicts are true or false, there is no robustness: leave it out"),
    ("csv-time-column timestamp-column time-column timestamp ts", "--time"),
    ("verbosity", "--verdicts"),
    ("statistics stats v verbose", "--summary"),
    ("q quiet silent", "--verdicts none writes none, and the exit status is 1 for a violation"),
    (
        "json jsonl csv parquet",
        "--format says how the log is written, --output-format how verdicts",
    ),
    ("out", "--output"),
    ("html", "--report"),
    ("watch tail", "--follow"),
    ("group-by by partition partition-by k", "--key"),
    ("regex regexp", "--pattern"),
    ("tz zone", "--time-zone"),
    ("watermark max-delay delay slack", "--wait"),
    ("end", "--end-time"),
    ("closed", "--end-time inf says that no event follows"),
    ("sep separator", "--delimiter"),
    ("u", "--unit"),
)
"""Options of the command, without the hyphens before them."""

SIGNS = {
    **dict.fromkeys("◇⋄⬦⟡◈", "write EVENTUALLY, F or ◊"),
    **dict.fromkeys("⬜◻☐", "write ALWAYS, G or □"),
    **dict.fromkeys("◆⬥", "write ONCE, O or ⧫"),
    **dict.fromkeys("◼⬛", "write HISTORICALLY, H or ■"),
    **dict.fromkeys("◯⚪", "write NEXT, X or ○"),
    **dict.fromkeys("⊙⬤⊖", "write PREVIOUS, Y or ●"),
    **dict.fromkeys("⇒⟹⟶⊃", "implication is written ->, => or IMPLIES"),
    **dict.fromkeys("⇔⟺⟷≡", "equivalence is written <->, <=> or EQUIV"),
    **dict.fromkeys("⊕⊻", "exclusive or is written NOT (p EQUIV q)"),
    **dict.fromkeys("𝒰𝓤", "write UNTIL or U"),
    **dict.fromkeys("𝒮𝓢", "write SINCE or S"),
    "≤": "write <=",
    "≥": "write >=",
    "≠": "write != or <>",
    "∈": "write in, as in status in (401, 403)",
    "×": "write *",
    "÷": "write /",
    "−": "write -, the hyphen of the keyboard",
    "–": "write -, the hyphen of the keyboard",
    **dict.fromkeys("“”„", 'write straight quotes: "like this"'),
    "^": "conjunction is written AND; there are no powers: write x * x",
    "?": "a choice is written if ... then ... else ...",
    ";": "parts are not separated by semicolons: each policy begins a new line, policy NAME: ...",
}
"""Characters that formulas and expressions do not have."""

_TYPES = [
    frozenset(words.split())
    for words in (
        "text string str varchar char character symbol object",
        "float double real float64 float32 number numeric float4 float8",
        "int integer int64 int32 int16 int8 uint64 uint32 long bigint short",
        "decimal money",
        "bool boolean logical",
        "time datetime timestamp date timestamptz",
        "regexp regex",
    )
]


def type_hint(name: str, known: Iterable[str]) -> str:
    """Return a hint for a name that is no type of a language.

    Args:
        name: the name.
        known: the types of the language.

    >>> type_hint("double", ["text", "float"])
    'did you mean float? the types are text, float'
    """
    names = list(known)
    others = {word: one for one in names for group in _TYPES if one in group for word in group}
    return with_advice(name, names, f"the types are {', '.join(names)}", others)

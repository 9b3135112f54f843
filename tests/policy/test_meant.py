"""Hints at what was meant: by formulas that are not valid, and by negations of nulls."""

from __future__ import annotations

import pytest

from mtlmon import FormulaError
from mtlmon.policy import parse_policies
from tests.doors import Nulls, remarks

FORM = (
    'policy NAME ["TEXT"] [per COLUMN] [on every 10s | on changes of RELATION] [for 5m] '
    '[at most 1%] [severity WORD]: FORMULA [message "TEXT"]'
)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (r'pattern r"^(?P<a>\S+) \"x"', r'write pattern "^(?P<a>\\S+) \\\"x"'),
        ("time 'When'\npolicy x: p", 'write time "When"'),
        ("time `time:timestamp`\npolicy x: p", 'write time "time:timestamp"'),
        ("polcy x: p", f"did you mean policy? it is written {FORM}"),
        ('polcy x "why" per ip: p', f"did you mean policy? it is written {FORM}"),
        ("policy x every 10s: p", "write policy x on every 10s: FORMULA"),
        ("trigger x per y every  1m: p", "write on before it, as in on every 10s"),
        ('policy x "every day" every 1m: p', "write on before it, as in on every 10s"),
        ("policy x changes of r: p", "write policy x on changes of r: FORMULA"),
        ("trigger x rows where y > 1: p", "write trigger x on rows where CONDITION: CONDITION"),
        ("policy x onevery 1m: p", f"it is written {FORM}"),
        ("lett y = p\npolicy x: y", "did you mean let? it is written let NAME = FORMULA"),
        ("policy x: p severity high", f"write this before the colon: {FORM}"),
        ("severity high\npolicy x: p", f"write this after the name of a policy: {FORM}"),
        ("at most 5%\npolicy x: p", f"write this after the name of a policy: {FORM}"),
        ("per user\npolicy x: p", f"write this after the name of a policy: {FORM}, or key COL"),
        ("severity AND p\npolicy x: p", "write policy NAME: before it"),
        ("key user.id\npolicy x: p", "write key `user.id`"),
        ("key host, user-id  # both\npolicy x: p", "write key host, `user-id`"),
        ("time event.at\npolicy x: p", 'write time "event.at"'),
        ('trigger x: entered(u) message "m"', "a trigger has no variables"),
        ("trigger x: lenght(u) > 3", "did you mean length?"),
        ('trigger x: n ~ "a"', "a regular expression is matched by matches(n"),
        ("policy x: n > 3 message m", "policies and triggers have messages, in double quotes"),
        ("policy x: n between 1 and 3", "compare with >= and <=, or use startswith"),
        ('policy x: n not like "a"', "compare with >= and <=, or use startswith"),
        ('policy x: n in ["a", "b"]', "the values are in parentheses: status in (401, 403)"),
        ("policy x: n not in [1, 2]", "the values are in parentheses: status in (401, 403)"),
        ('policy x: NOT n ~ "a"', 'a regular expression is matched by matches(n, "^a+$")'),
        ("policy x: ~p", "negation is written NOT"),
        ('key "user id"\npolicy x: p', "the name of a column is written as a word, or in backq"),
        (
            "policy x per 'a.b': p",
            "the name of a column is written as a word, or in backquotes: `a.b",
        ),
        ("policy x: mean[0,5](n) < 3", "did you mean avg? the aggregates of windows are count"),
        ("policy x: quantil[0,5](n, 0.5) < 3", "did you mean quantile? the aggregates"),
        ("policy x: p[0,5]", "the aggregates of windows are count"),
        ("policy x: count[0,5](*) < 3", "write nothing between the parentheses"),
        ("policy x: n.prev() < 3", "there is no .prev(); values of other rows are x.last()"),
        ("policy x: n.last < 3", "write `n.last`, or with parentheses for the value of another"),
        ("policy x: if p then q else r", "a choice is a value, to be compared"),
        ("trigger x > 3", "it is written trigger NAME [per COLUMN]"),
        ("stream s = n\ntrigger not s > 3", "it is written trigger NAME [per COLUMN]"),
        ("assume rate < 5/s\npolicy x: p", "as in assume rate <= 10/s"),
        ("policy x: p q", "join two formulas with an operator such as AND"),
        ("stream count = 3\npolicy x: p", "give the stream another name"),
        ("// why\npolicy x: p", "a comment is written /* ... */ or after #"),
        ("-- why not\npolicy x: p", "a comment is written /* ... */ or after #"),
        (
            "relation r = rows valid 1m\nrelation n = group r select count() as n",
            "the relation comes first: r group ...",
        ),
        (
            "relation r = rows valid 1m\npolicy x: r.n < 3",
            "a column of a relation is looked up by a key: r[...].n",
        ),
        ("relation r = rows valid 1m\npolicy x: s.n < 3", "write `s.n`"),
    ],
)
def test_hints_say_what_was_probably_meant(text: str, hint: str) -> None:
    with pytest.raises(FormulaError) as caught:
        parse_policies(text, unit="s")
    assert (caught.value.hint or "").startswith(hint)


@pytest.mark.parametrize(
    ("expression", "parts"),
    [
        ("x", ["x"]),
        ("ts", []),
        ("safe", []),
        ("row.x + 1", ["x"]),
        ("x / safe", ["x", "x / safe"]),
        ("safe / 2", []),
        ("safe % 0", ["safe % 0"]),
        ("coalesce(x, 0)", []),
        ("coalesce(x, y)", ["x", "y"]),
        ("if x > 1 then 2 else y", ["y"]),
        ("count[0,5](x > 1) + distinct[0,5](x)", []),
        ("avg[0,5](x)", ["avg[0,5](x)"]),
        ("avg[0,5](x, or: 0)", []),
        ("x.last() + x.last(or: 0)", ["x.last()"]),
        ("n + total", []),
        ("m", ["m"]),
        ("views[7]", ["views[7]"]),
        ("max(views over views) - count(views > 1 over views)", ["max(views over views)"]),
    ],
)
def test_what_can_be_null(expression: str, parts: list[str]) -> None:
    text = f"""
    stream value = {expression}
    stream n = n.last(or: 0) + 1
    stream total = n + total.last(or: 0)
    stream m = m.last() + 1
    stream views = count[0,5]() per k
    """
    file = parse_policies(text, needs_policy=False)
    nulls = Nulls(file, lambda column: column != "safe")
    assert list(nulls.of(file.streams["value"].expression)) == parts


@pytest.mark.parametrize(
    ("formula", "mended"),
    [
        ("NOT x > 5", "x <= 5"),
        ("ONCE[0,5] NOT x = 5", "x != 5"),
        ("NOT x not in (1, 2)", "x in (1, 2)"),
        ('NOT startswith(x, "a")', 'atom NAME = not startswith(x, "a")'),
        ("x > 5", None),
        ("NOT p", None),
        ("NOT count[0,5](x > 1) > 5", None),
        ("NOT x is null", None),
    ],
)
def test_negated_nulls_are_remarked(formula: str, mended: str | None) -> None:
    file = parse_policies(f"policy a: {formula}\ntrigger b: x > 5")
    found = list(remarks(file, lambda _: True))
    assert [one.rpartition(", write ")[2] for one in found] == ([] if mended is None else [mended])
    assert not list(remarks(file, lambda _: False))

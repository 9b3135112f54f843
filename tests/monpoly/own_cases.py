"""Cases in MonPoly's language, with what it would write; worked out by hand."""

from __future__ import annotations

import re
from typing import NamedTuple


class Case(NamedTuple):
    """A formula, a log, and the output."""

    formula: str
    log: str
    output: str
    negate: bool = False


def written(case: Case) -> str:
    """The output of a case as MonPoly writes it."""
    return re.sub(r"\((\d+)\): ", r"(time point \1): ", case.output)


SIGNATURE = """
p(x: int) q(x: int, y: int) r()   # rows without names of arguments are fine as well
s(string) t(string, int)
f(x: float) g(x: float, k: int)
w(regexp)
"""

CASES = {
    "an atom": Case("p(x)", "@1 p(2)(1)\n@3\n@3 p(1)", "@1 (0): (1) (2)\n@3 (2): (1)\n"),
    "columns come in order of occurrence": Case("q(y, x)", "@1 q(1,2)", "@1 (0): (1,2)\n"),
    "a formula without variables": Case("r()", "@1 r()\n@2\n@3 r", "@1 (0): true\n@3 (2): true\n"),
    "violations": Case(
        "p(x) IMPLIES EXISTS y. q(x, y)", "@1 p(1)(2) q(2,3)", "@1 (0): (1)\n", negate=True
    ),
    "violations below FORALL have no values": Case(
        "FORALL x. p(x) IMPLIES q(x, x)", "@1 p(1) q(1,1)\n@2 p(2)", "@2 (1): true\n", negate=True
    ),
    "SINCE binds most loosely": Case(
        # (q(x, y) OR q(y, x)) SINCE q(x, y)
        "q(x, y) OR q(y, x) SINCE q(x, y)",
        "@1 q(1,2)\n@2 q(2,1)\n@3\n",
        "@1 (0): (1,2)\n@2 (1): (1,2) (2,1)\n",
    ),
    "the right side of SINCE comes first": Case(
        "p(x) SINCE q(y, x)", "@1 q(7,1) p(1)\n@2 p(1)", "@1 (0): (7,1)\n@2 (1): (7,1)\n"
    ),
    "the right side of UNTIL comes first": Case(
        "p(x) UNTIL[0,5] q(y, x)", "@1 p(1)\n@2 q(7,1)", "@1 (0): (7,1)\n@2 (1): (7,1)\n"
    ),
    "the right side of > comes first": Case(
        "x > y AND q(x, y)", "@0 q(2,1)(1,2)", "@0 (0): (1,2)\n"
    ),
    "SINCE groups to the right": Case(
        # at 2, (NOT r() SINCE p(x)) does not hold, but p(x) SINCE q(x, x) did
        "NOT r() SINCE p(x) SINCE q(x, x)", "@1 q(1,1)\n@2\n@3 r()", "@1 (0): (1)\n@2 (1): (1)\n"
    ),
    "ONCE reaches over AND, not over SINCE": Case(
        "ONCE p(x) AND q(x, x)", "@1 p(1)\n@2 q(1,1)\n@3 p(2) q(2,2)", "@3 (2): (2)\n"
    ),
    "a quantifier reaches over IMPLIES": Case(
        "FORALL x. p(x) IMPLIES q(x, x)", "@1 p(1)\n@2 p(1) q(1,1)", "@2 (1): true\n"
    ),
    "NOT binds most tightly": Case("NOT r() AND p(x)", "@1 p(1)\n@2 p(1) r()", "@1 (0): (1)\n"),
    "IMPLIES groups to the right": Case(
        # r IMPLIES (r IMPLIES r) always holds, (r IMPLIES r) IMPLIES r does not
        "r() IMPLIES r() IMPLIES r()", "@1\n@2 r()", "@1 (0): true\n@2 (1): true\n"
    ),
    "bounds": Case(
        "ONCE[1,3) p(x)", "@0 p(0)\n@1 p(1)\n@3 p(3)\n@4", "@1 (1): (0)\n@3 (2): (1)\n@4 (3): (3)\n"
    ),
    "bounds without their limits": Case(
        "ONCE(0,2) p(x)", "@0 p(0)\n@1 p(1)\n@2", "@1 (1): (0)\n@2 (2): (1)\n"
    ),
    "bounds with units": Case(
        "ONCE[1m,1h] p(x)", "@0 p(0)\n@59\n@60\n@3600\n@3601", "@60 (2): (0)\n@3600 (3): (0)\n"
    ),
    "no upper bound": Case("ONCE[2,*] p(x)", "@0 p(0)\n@1\n@9", "@9 (2): (0)\n"),
    "the future": Case(
        "EVENTUALLY[0,5] p(x)", "@0\n@0 p(1)\n@6 p(2)", "@0 (0): (1)\n@0 (1): (1)\n@6 (2): (2)\n"
    ),
    "UNTIL": Case(
        "p(x) UNTIL[0,5] q(x, x)",
        "@0 p(1)(2)\n@1 p(1)\n@2 q(1,1)(2,2)",
        "@0 (0): (1)\n@1 (1): (1)\n@2 (2): (1) (2)\n",
    ),
    "ALWAYS below a policy": Case(
        "p(x) IMPLIES ALWAYS[0,3] NOT q(x, x)", "@0 p(1)(2)\n@3 q(1,1)\n@4 q(2,2)", "@0 (0): (1)\n",
        negate=True,
    ),
    "PREVIOUS": Case("PREV[0,2] p(x)", "@0 p(1)\n@2 p(2)\n@5", "@2 (1): (1)\n"),
    "NEXT": Case("NEXT[0,2] p(x)", "@0\n@2 p(2)\n@5 p(3)", "@0 (0): (2)\n"),
    "a time-point follows the last one": Case(
        "p(x) AND NEXT ONCE p(x)", "@0 p(1)\n@1 p(2)", "@0 (0): (1)\n@1 (1): (2)\n"
    ),
    "nothing is at the time-point that follows": Case(
        "p(x) AND NEXT NOT EXISTS y. p(y)", "@0 p(1)\n@1 p(2)", "@1 (1): (2)\n"
    ),
    "HISTORICALLY": Case(
        "p(x) AND PAST_ALWAYS[0,2] (p(x) IMPLIES NOT r())",
        "@0 p(1) r()\n@2 p(1)\n@3 p(1)(2)",
        "@3 (2): (1) (2)\n",
    ),
    "SOMETIMES is EVENTUALLY": Case("SOMETIMES[1,1] p(x)", "@0\n@1 p(1)", "@0 (0): (1)\n"),
    "EQUIV": Case("r() EQUIV NOT r()", "@0\n@1 r()", ""),
    "a wildcard": Case("p(x) AND NOT q(x, _)", "@0 p(1)(2) q(1,5)", "@0 (0): (2)\n"),
    "a variable that begins with _": Case("q(x, _a) AND NOT p(_a)", "@0 q(1,5)", "@0 (0): (1)\n"),
    "a repeated variable": Case("q(x, x)", "@0 q(1,2)(3,3)", "@0 (0): (3)\n"),
    "a constant": Case("q(1, x) AND t(\"a b\", x)", '@0 q(1,2) t("a b",2)', "@0 (0): (2)\n"),
    "variables of one name": Case(
        "p(x) AND (EXISTS x. q(x, x))", "@0 p(1) q(2,2)\n@1 p(1)", "@0 (0): (1)\n"
    ),
    "variables of one name and different types": Case(
        "p(x) AND (EXISTS x. s(x))", "@0 p(1) s(a)\n@1 s(b)", "@0 (0): (1)\n"
    ),
    "sum by user": Case(
        "s <- SUM a; u t(u, a)", "@0 t(ann,1)(ann,2)(bob,5)\n@1", '@0 (0): (3,"ann") (5,"bob")\n'
    ),
    "equal amounts of a user are one": Case(
        "s <- SUM a; u ONCE t(u, a)", "@0 t(ann,1)\n@1 t(ann,1)", '@0 (0): (1,"ann")\n'
        '@1 (1): (1,"ann")\n',
    ),
    "tp tells equal amounts apart": Case(
        "s <- SUM a; u ONCE (t(u, a) AND tp(i))", "@0 t(ann,1)\n@1 t(ann,1)",
        '@0 (0): (1,"ann")\n@1 (1): (2,"ann")\n',
    ),
    "the formula of an aggregate reaches to the end": Case(
        # also over SINCE: NOT r() SINCE p(x) is counted
        "n <- CNT x NOT r() SINCE p(x)", "@0 p(1)(2)\n@1 r()\n", "@0 (0): (2)\n@1 (1): (0)\n"
    ),
    "aggregates of nothing": Case(
        "(a <- CNT x p(x)) AND (b <- SUM x p(x)) AND (c <- AVG x p(x)) AND (d <- MED x p(x))"
        " AND (e <- MIN x p(x)) AND (h <- MAX x p(x))",
        "@0\n@1 p(1)(2)(4)",
        "@0 (0): (0,0,0,0,0,0)\n@1 (1): (3,7,2.33333,2,1,4)\n",
    ),
    "extremes of no floats and of no texts": Case(
        "(a <- MIN x f(x)) AND (b <- MAX x f(x)) AND (c <- MIN x s(x))",
        "@0\n@1 f(0.5)(2) s(b)(a)",
        '@0 (0): (inf,-inf,"")\n@1 (1): (0.5,2,"a")\n',
    ),
    "the median of an even number": Case("m <- MED x p(x)", "@0 p(1)(4)", "@0 (0): (2.5)\n"),
    "a result named like a variable": Case(
        "x <- MAX x; k g(x, k)", "@0 g(1.5,1)(2,1)(3,2)", "@0 (0): (2,1) (3,2)\n"
    ),
    "a nested aggregate": Case(
        "m <- MAX c c <- CNT y; x q(x, y)", "@0 q(1,1)(1,2)(2,1)\n@1", "@0 (0): (2)\n@1 (1): (0)\n"
    ),
    "a let": Case(
        "LET big(x) = p(x) AND x > 2 IN ONCE big(x) AND r()",
        "@0 p(1)(3)\n@1 p(9) r()",
        "@1 (1): (9)\n",
    ),
    "in the body of a let the name is the outer one": Case(
        "LET p(x) = p(x) AND x > 2 IN p(x)", "@0 p(1)(3)", "@0 (0): (3)\n"
    ),
    "a let that hides another": Case(
        "LET a(x) = p(x) IN LET a(x) = a(x) AND x > 2 IN a(x)", "@0 p(1)(3)", "@0 (0): (3)\n"
    ),
    "a let of an inner formula": Case(
        "(LET p(x) = q(x, x) IN p(x)) AND p(x)", "@0 p(1)(2) q(2,2)(3,3)", "@0 (0): (2)\n"
    ),
    "a let without parameters": Case(
        "LET open() = NOT r() SINCE EXISTS x. p(x) IN open() AND s(y)",
        "@0 p(1)\n@1 s(a)\n@2 r() s(b)",
        '@1 (1): ("a")\n',
    ),
    "a let with calculated arguments": Case(
        "LET two(x, y) = q(y, x) IN two(x, 1 + 1)", "@0 q(2,7)(1,8)", "@0 (0): (7)\n"
    ),
    "comparisons": Case(
        "p(x) AND 1 < x AND x <= 3 AND NOT x = 2", "@0 p(1)(2)(3)(4)", "@0 (0): (3)\n"
    ),
    "an equality binds": Case("y = x * 2 + 1 AND p(x)", "@0 p(3)", "@0 (0): (7,3)\n"),
    "an equality alone": Case("x = 1", "@0\n@5", "@0 (0): (1)\n@5 (1): (1)\n"),
    "* binds more tightly than -": Case("p(x) AND y = 10 - 2 * x", "@0 p(3)", "@0 (0): (3,4)\n"),
    "arithmetic groups to the left": Case("p(x) AND y = 10 - 4 - x", "@0 p(3)", "@0 (0): (3,3)\n"),
    "MOD takes all on its right": Case(
        # x MOD (3 + 1)
        "p(x) AND y = x MOD 3 + 1", "@0 p(7)(-7)", "@0 (0): (-7,-3) (7,3)\n"
    ),
    "division of integers": Case(
        "p(x) AND y = x / 2", "@0 p(7)(-7)(-1)", "@0 (0): (-7,-3) (-1,0) (7,3)\n"
    ),
    "division of floats": Case(
        "f(x) AND y = 1. / x", "@0 f(4)(0)", "@0 (0): (0,inf) (4,0.25)\n"
    ),
    "a minus sign": Case("p(x) AND y = - x + 1", "@0 p(3)", "@0 (0): (3,-2)\n"),
    "conversions of numbers": Case(
        "f(x) AND i = f2i(x) AND y = i2f(i)", "@0 f(2.75)(-2.75)", "@0 (0): (-2.75,-2,-2) "
        "(2.75,2,2)\n",
    ),
    "conversions to texts": Case(
        "p(x) AND a = i2s(x) AND f(y) AND b = f2s(y)", "@0 p(-3) f(2)(0.5)",
        '@0 (0): (-3,"-3",0.5,"0.5") (-3,"-3",2,"2.")\n',
    ),
    "conversions of texts": Case(
        "s(x) AND i = s2i(x) AND y = s2f(x)", '@0 s("12")("1.5")(no)',
        '@0 (0): ("1.5",0,1.5) ("12",12,12) ("no",0,0)\n',
    ),
    "dates": Case(
        "f(x) AND a = FORMAT_DATE(x) AND b = YEAR(x) AND c = MONTH(x) AND d = DAY_OF_MONTH(x)",
        "@0 f(951782400)",
        '@0 (0): (9.51782e+08,"2000-02-29",2000,2,29)\n',
    ),
    "a part of a text": Case('s(x) AND "an" SUBSTRING x', "@0 s(ann)(bob)", '@0 (0): ("ann")\n'),
    "a pattern": Case(
        r's(x) AND x MATCHES r"^a+\(b\|c\)$"', "@0 s(aab)(ac)(abc)(b)", '@0 (0): ("aab") ("ac")\n'
    ),
    "groups of a pattern": Case(
        r's(x) AND x MATCHES r"\([a-z]+\)-\([0-9]+\)" (y, _)', '@0 s("ab-12")(ab)',
        '@0 (0): ("ab-12","ab")\n',
    ),
    "a group that is not part of the match": Case(
        r's(x) AND x MATCHES r"a\|\(b\)" (y)', "@0 s(a)(b)", '@0 (0): ("b","b")\n'
    ),
    "patterns are values": Case(
        's(x) AND w(y) AND x MATCHES y AND z = r2s(y)', '@0 s(ab)(cd) w("a.")',
        '@0 (0): ("ab",r"a.","a.")\n',
    ),
    "time-points and time-stamps": Case(
        "p(x) AND tp(i) AND ts(t)", "@5 p(1)\n@5 p(1)\n@7", "@5 (0): (1,0,5)\n@5 (1): (1,1,5)\n"
    ),
    "both of them at once": Case("p(x) AND tpts(i, t)", "@5\n@9 p(1)", "@9 (1): (1,1,9)\n"),
    "TRUE and FALSE": Case(
        "p(x) AND (TRUE AND NOT FALSE)", "@0 p(1)", "@0 (0): (1)\n"
    ),
    "doubles are shown with six digits": Case(
        "f(x)", "@0 f(123456789)(0.1)(1e300)", "@0 (0): (0.1) (1.23457e+08) (1e+300)\n"
    ),
    "texts keep what is written": Case(
        "s(x)", '@0 s("a \\" b")(x_1.5:/-!)("")', '@0 (0): ("") ("a \\" b") ("x_1.5:/-!")\n'
    ),
    "texts are ordered by their characters": Case(
        's(x) AND x < "b"', "@0 s(a)(B)(b)(ab)", '@0 (0): ("B") ("a") ("ab")\n'
    ),
    "comments": Case(
        "# a policy\np(x) (* of\ntwo lines *) AND r()", "# a log\n@0 p(1) # here\n r()",
        "@0 (0): (1)\n",
    ),
    "a time-point of several lines": Case(
        "p(x) AND q(x, y)", "@0 p (1)\n (2) q(1,5)\np(3)\n\n@1 p(3)", "@0 (0): (1,5)\n"
    ),
    "several time-points on a line": Case(
        "p(x)", "@0 p(1); @1; @2 p(2) @3 p(3)", "@0 (0): (1)\n@2 (2): (2)\n@3 (3): (3)\n"
    ),
    "values in quotes": Case(
        "t(x, y)", '@0 t("a","1")', '@0 (0): ("a",1)\n'
    ),
    "an empty log": Case("x = 1", "", ""),
}  # fmt: skip
"""The cases by what they show; `(0)` in an output stands for `(time point 0)`."""

"""What a page that is written to a file says of a log, against what the command says."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from tests.cli.process import mtlmon

LOG = "ts,user,what\n1,ann,ask\n2,bob,ask\n4,ann,reply\n20,ann,ask\n40,bob,reply\n"
RULES = (
    'key user\natom ask = what = "ask"\natom reply = what = "reply"\n'
    "policy answered: ask IMPLIES EVENTUALLY[0,5] reply\n"
)


@pytest.mark.parametrize("name", ["log.csv", "<b>&.csv"])
def test_the_page_has_the_violations(name: str, tmp_path: Path) -> None:
    log, rules, page = tmp_path / name, tmp_path / "rules.mtl", tmp_path / "page.html"
    log.write_text(LOG)
    rules.write_text(RULES)
    lines = mtlmon(str(rules), str(log)).output.splitlines()
    assert [line for line in lines if "false" in line] == [
        "answered\tbob\t2:0 false",
        "answered\tann\t20:0 false",
    ]
    done = mtlmon("serve", "--export", str(page), str(rules), str(log))
    assert done.status == 0
    text = page.read_text()
    assert "<script" not in text
    assert html.escape(name, quote=False) in text
    words = re.sub(r"<[^>]*>", " ", text)
    for user, time in [("bob", 2), ("ann", 20)]:
        assert re.search(rf"\b{user}\b[^.]*?\b{time}\b|\b{time}\b[^.]*?\b{user}\b", words)

"""The rule packs in examples/rules run on the patterns that they name, and each rule can fire."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="pyarrow (mtlmon[tables]) is not installed")

from mtlmon.policy import parse_policies
from tests.cli.process import mtlmon
from tests.doors import line_pattern

RULES = Path(__file__).resolve().parents[2] / "examples" / "rules"
BEGIN = datetime(2024, 5, 1, 12, 30)

FAILED = "sshd[8]: Failed password for ann from {ip} port 22 ssh2"
ATTACK = "sshd[8]: fatal: Local: crc32 compensation attack: network attack detected"
LOGINS = [
    [
        "sshd[8]: reverse mapping checking getaddrinfo for a.example [{ip}] failed - "
        "POSSIBLE BREAK-IN ATTEMPT!"
    ]
    * 6,
    ["sshd[8]: Timeout before authentication for {ip} port 22"] * 6,
    ["sshd[8]: Invalid user bob from {ip} port 22"] * 4
    + ["sshd[8]: Failed password for invalid user bob from {ip} port 22 ssh2"] * 4,
    ["sshd[8]: Bad packet length 12."] * 3 + [ATTACK],
    ["sshd[8]: User bob from {ip} not allowed because not listed in AllowUsers"] * 8,
    [FAILED] * 8 + ["sshd[8]: Accepted password for ann from {ip} port 22 ssh2"],
    ["su: pam_unix(su:auth): authentication failure; logname= uid=0 tty= ruser= rhost={ip}"] * 8,
    ['vsftpd[9]: [ann] FAIL LOGIN: Client "{ip}"'] * 8,
    ['vsftpd[9]: CONNECT: Client "{ip}"'] * 12,
    [FAILED] * 12,
    ["clamd[9]: /tmp/x: Eicar FOUND"] * 8,
]
REJECTED = "postfix/smtpd[8]: NOQUEUE: reject: RCPT from unknown[{ip}]: "
MAIL = [
    *(
        [f"{REJECTED}{code} 5.7.1 <a@b.example>: no; from=<x>"] * 8
        for code in (554, 550, 450, 503, 504)
    ),
    [f"{REJECTED}554 5.7.1 Client host [{{ip}}] blocked using zen.example; from=<x>"] * 8,
    ["postfix/smtpd[8]: warning: unknown[{ip}]: SASL LOGIN authentication failed: no"] * 8,
]
WEB = [
    *([f"GET /x {status} 10"] * 14 for status in (404, 501, 500, 503)),
    ["GET /?q=union+1 404 10"] * 8,
    ["GET /?q=select+1 200 10"],
    ["GET /../../x 404 10"] * 10,
    ["GET /%3Cscript 404 10"] * 10,
    ["POST /wp-login.php 200 10"] * 8,
    [f"GET /{page} 200 10000" for page in range(15)],
]


def stamps(blocks: list[list[str]]) -> list[tuple[datetime, str, str]]:
    """The lines of blocks: one a second, an hour between blocks, each of another address."""
    return [
        (BEGIN + timedelta(hours=hour, seconds=second), f"10.0.0.{hour + 1}", line)
        for hour, block in enumerate(blocks)
        for second, line in enumerate(block)
    ]


def syslog(blocks: list[list[str]]) -> str:
    return "".join(
        f"{time:%b %e %H:%M:%S} mx {line.format(ip=ip)}\n" for time, ip, line in stamps(blocks)
    )


def access_log(blocks: list[list[str]]) -> str:
    lines = []
    for time, ip, line in stamps(blocks):
        method, path, status, size = line.split()
        request = f'"{method} {path} HTTP/1.1" {status} {size}'
        lines.append(f"{ip} - - [{time:%d/%b/%Y:%H:%M:%S} +0000] {request}\n")
    return "".join(lines)


def json_lines(blocks: list[list[str]]) -> str:
    rows = []
    for time, ip, line in stamps(blocks):
        for user in "abcd":
            row = {"ts": time.isoformat(), "host": "h", "ip": ip, "user": user, "event": line}
            rows.append(json.dumps(row) + "\n")
    return "".join(rows)


HOSTS = [
    ["daemon_written", "launchctl_load"],
    ["weak_ticket"] * 2,
    ["wmi_filter", "wmi_consumer", "wmi_binding"],
    ["network_login", "password_reset"],
    ["logon_failed"] * 5 + ["weak_ticket", "password_reset"],
]
LOGS = {
    "hosts": json_lines(HOSTS),
    "logins": syslog(LOGINS),
    "mail": syslog(MAIL),
    "web": access_log(WEB),
}


def test_every_pack_has_a_log() -> None:
    assert {path.stem for path in RULES.glob("*.mtl")} == set(LOGS)


@pytest.mark.parametrize("name", LOGS)
def test_every_rule_fires(name: str, tmp_path: Path) -> None:
    path = RULES / f"{name}.mtl"
    file = parse_policies(path.read_text(encoding="utf-8"), path.name)
    log = tmp_path / ("log.jsonl" if file.pattern is None else "log")
    log.write_text(LOGS[name], encoding="utf-8")
    checked = mtlmon("check-policy", str(path), str(log))
    assert (checked.status, checked.errors) == (0, "")
    ended = mtlmon("--verdicts", "false", str(path), str(log))
    assert (ended.status, ended.errors) == (1, "")
    violated = {line.partition("\t")[0] for line in ended.output.splitlines()}
    assert violated == {policy.name for policy in file.policies}
    if file.pattern is not None:
        # what a pack counts for an address is named by all of its patterns
        for regex in line_pattern(file.pattern).regexes or ():
            assert {"time", *(file.key or ())} <= set(line_pattern(regex).groups())


def test_an_ordinary_day_is_quiet(tmp_path: Path) -> None:
    """No rule fires for single lines of each kind."""
    log = tmp_path / "log"
    log.write_text(syslog([[block[0]] for block in LOGINS]), encoding="utf-8")
    ended = mtlmon("--verdicts", "false", str(RULES / "logins.mtl"), str(log))
    assert ended == (0, "", "")

"""The examples of the page: policies with logs that show what can be written."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["EXAMPLES", "Example"]


class Example(NamedTuple):
    """A policy file and a log.

    Attributes:
        title: what they show.
        policy_name: the name of the policy file.
        policy: its text, with all settings that the log needs.
        log_name: the name of the log, which tells its format.
        log: its text.
    """

    title: str
    policy_name: str
    policy: str
    log_name: str
    log: str


_REQUESTS = Example(
    "Requests and responses",
    "policy.mtl",
    """\
# Every request is answered within 30 seconds,
# and nothing is released that was not reviewed in the five minutes before.
unit s

policy answered: request IMPLIES EVENTUALLY[0,30s] response
policy reviewed: release IMPLIES ONCE[0,5m] review
""",
    "events.log",
    """\
@100 request
@112 response
@150 review
@170 request
@201 response
@240 release
@480 request
@500 release
""",
)

_LOGINS = Example(
    "Failed logins: counts in a window, for each user",
    "logins.mtl",
    """\
# Three failed logins of a user within a minute are reported, and
# whoever logs in after a failure has changed the password or waited.
unit s
key user

stream failures = count[0,60s](not ok)
trigger guessing: failures >= 3 message "{user}: {failures} failed logins in a minute, from {ip}"
policy patient: ok IMPLIES NOT ONCE[0,10s] (NOT ok)
""",
    "logins.csv",
    """\
ts,user,ip,ok
2024-05-01T08:00:00Z,ann,10.0.0.7,true
2024-05-01T08:00:05Z,bob,10.0.0.9,false
2024-05-01T08:00:09Z,bob,10.0.0.9,false
2024-05-01T08:00:12Z,cy,10.0.0.4,false
2024-05-01T08:00:20Z,bob,10.0.0.9,false
2024-05-01T08:00:24Z,cy,10.0.0.4,true
2024-05-01T08:00:31Z,bob,10.0.0.9,false
2024-05-01T08:00:36Z,bob,10.0.0.9,true
2024-05-01T08:02:10Z,bob,10.0.0.9,true
""",
)

_SENSORS = Example(
    "Temperatures: values over time, with gaps",
    "sensors.mtl",
    """\
# What is hot cools down within five minutes.
unit s
key sensor

stream fahrenheit = celsius * 1.8 + 32
stream mean = avg[0,3m](celsius)
stream state = if celsius > 85 then "hot" else "fine"
policy cools: celsius > 85 IMPLIES EVENTUALLY[0,5m] celsius < 75
trigger warm: mean > 89 message "{sensor}: {mean:.1f} degrees in the last three minutes"
""",
    "sensors.csv",
    "ts,sensor,celsius\n"
    + "".join(
        f"{60 * minute},{sensor},{value}\n"
        for minute, values in enumerate(
            zip(
                (61, 64, 70, 88, 90, 82, 74, 70, 66, 63, 61, 60),
                (70, 79, 84, "", "", 88, 91, 93, 90, 87, 86, 80),
                strict=True,
            )
        )
        for sensor, value in zip(("inlet", "outlet"), values, strict=True)
    ),
)

_PUBLISHING = Example(
    "Four eyes: policies with variables",
    "publishing.mtl",
    """\
# Nobody publishes a document that nobody else has approved in the week before,
# and whoever has left the company approves nothing.
unit h

policy four_eyes:
    publish(who, doc) IMPLIES ONCE[0,7d] EXISTS other. (approve(other, doc) AND NOT other = who)
policy employed: approve(who, doc) IMPLIES NOT ONCE leave(who)
""",
    "publishing.log",
    """\
@1 approve(ann, report)
@3 publish(bob, report)
@20 approve(bob, budget)
@21 publish(bob, budget)
@30 leave(ann)
@44 approve(ann, plan)
@45 publish(cy, plan)
@400 publish(bob, report)
""",
)

_ORDERS = Example(
    "Orders as JSON lines, with dates",
    "orders.mtl",
    """\
# Nothing is shipped before it is paid, and what is paid is shipped within two days.
unit s
key order
event "what"

policy paid_first: ship IMPLIES ONCE pay
policy shipped: pay IMPLIES EVENTUALLY[0,2d] (ship OR cancel)
""",
    "orders.jsonl",
    """\
{"ts": "2024-05-01T09:00:00Z", "order": 17, "what": "open"}
{"ts": "2024-05-01T09:30:00Z", "order": 18, "what": "open"}
{"ts": "2024-05-01T10:00:00Z", "order": 17, "what": "pay"}
{"ts": "2024-05-01T15:00:00Z", "order": 18, "what": "ship"}
{"ts": "2024-05-02T08:00:00Z", "order": 19, "what": "pay"}
{"ts": "2024-05-02T11:00:00Z", "order": 17, "what": "ship"}
{"ts": "2024-05-05T12:00:00Z", "order": 19, "what": "ship"}
{"ts": "2024-05-05T13:00:00Z", "order": 20, "what": "pay"}
{"ts": "2024-05-05T14:00:00Z", "order": 20, "what": "cancel"}
{"ts": "2024-05-05T16:00:00Z", "order": 21, "what": "pay"}
""",
)

_SSH = Example(
    "Lines of sshd, read with a pattern",
    "sshd.mtl",
    """\
# An address that fails three times within ten minutes does not get in.
unit s
pattern "sshd:2024"
key client

stream failures = count[0,10m](result = "Failed")
trigger broken_in: result = "Accepted" and failures >= 3
    message "{user} from {client} after {failures} failures"
""",
    "auth.log",
    """\
May  1 10:00:02 web sshd[811]: Failed password for root from 203.0.113.9 port 4711 ssh2
May  1 10:00:07 web sshd[811]: Failed password for root from 203.0.113.9 port 4711 ssh2
May  1 10:01:15 web sshd[815]: Accepted publickey for ann from 198.51.100.4 port 5022 ssh2
May  1 10:02:40 web sshd[811]: Failed password for invalid user ed from 203.0.113.9 port 4712 ssh2
May  1 10:03:01 web sshd[811]: Accepted password for root from 203.0.113.9 port 4713 ssh2
""",
)

EXAMPLES = (_REQUESTS, _LOGINS, _SENSORS, _PUBLISHING, _ORDERS, _SSH)
"""The examples; the page begins with the first one if no file is given."""

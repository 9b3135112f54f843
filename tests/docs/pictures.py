"""Draws the pictures of the pages: `python -m tests.docs.pictures`.

What the pictures show is what a monitor says, and tests compare them with the files. They have a
ground of their own and follow the reader's setting, dark or light; marks differ in shape as well
as in colour, and a description says in words what is seen.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from mtlmon import Monitor, resolve
from tests.cli.process import mtlmon
from tests.docs import late_picture, relations_picture
from tests.docs.pages import DIRECTORY

if TYPE_CHECKING:
    from collections.abc import Iterator

PICTURES = DIRECTORY / "pictures"

_UNIT = 46
_TWIN = 22
_ROW = 34
_TOP = 30
_CHARACTER = 7.5
_RADIUS = 8

_STYLE = """\
svg{--ink:#1c1e21;--faint:#5f6670;--rule:#d5d9de;--ground:#ffffff;--true:#0b6e4f;--false:#b3261e;
--window:#dfe7f1;font:12px ui-monospace,Menlo,Consolas,monospace}
@media (prefers-color-scheme:dark){svg{--ink:#e8eaed;--faint:#a3abb5;--rule:#3a4048;
--ground:#16181c;--true:#5fd3a5;--false:#ff8a80;--window:#2c3542}}
text{fill:var(--ink)}.faint{fill:var(--faint)}.rule{stroke:var(--rule)}.ground{fill:var(--ground)}
.window{fill:var(--window)}.anchor{stroke:var(--faint);stroke-dasharray:3 3}
.atom{fill:var(--ink)}.true{fill:var(--true)}.false{stroke:var(--false);stroke-width:2}
.tick{stroke:var(--ground);stroke-width:2;fill:none}"""


class Window(NamedTuple):
    """What a temporal operator looks at from the time-point at `anchor`."""

    row: str
    anchor: int
    first: int
    last: int


class Picture(NamedTuple):
    """A trace, and the values of formulas at each of its time-points.

    Attributes:
        name: the name of the file.
        formulas: the formulas.
        trace: the time-stamps, and the atoms that hold.
        window: what one of the formulas looks at.
        policy: if the formulas are of the kind that policy files have, what stands before them.
    """

    name: str
    formulas: tuple[str, ...]
    trace: tuple[tuple[int, str], ...]
    window: Window | None = None
    policy: str = ""


ALL = (
    Picture(
        "eventually",
        ("EVENTUALLY[2,5] p",),
        ((0, ""), (1, "p"), (3, ""), (4, ""), (6, "p"), (6, ""), (8, "")),
        Window("p", 3, 5, 8),
    ),
    Picture(
        "always",
        ("ALWAYS[0,3] p",),
        ((0, "p"), (1, "p"), (2, "p"), (4, ""), (5, "p"), (7, "p"), (9, ""), (13, "p")),
        Window("p", 5, 5, 8),
    ),
    Picture(
        "until",
        ("p UNTIL[0,5] q",),
        ((0, "p"), (2, "p"), (3, ""), (4, "p"), (5, "p"), (7, "q"), (9, "p"), (15, "q")),
        Window("q", 4, 4, 9),
    ),
    Picture(
        "since",
        ("p SINCE[2,8] q",),
        ((0, "q"), (1, "p"), (3, "p"), (4, ""), (5, "p q"), (6, "p"), (9, "p"), (14, "p")),
        Window("q", 9, 1, 7),
    ),
    Picture(
        "neighbours",
        ("PREVIOUS[0,2] p", "NEXT[0,2] p"),
        ((0, "p"), (1, ""), (1, "p"), (3, ""), (7, "p"), (8, "")),
    ),
    Picture(
        "events",
        ("EVENTUALLY[0,6] p", "EVENTUALLY[0,3] EVENTUALLY[0,3] p"),
        ((0, ""), (5, "p"), (12, "")),
        Window("p", 0, 0, 6),
    ),
    Picture(
        "order",
        ("p IMPLIES ONCE s", "p IMPLIES EVENTUALLY s"),
        ((0, "p"), (1, ""), (2, "s"), (3, ""), (4, "p"), (5, "p s"), (6, "p")),
    ),
    Picture(
        "scopes",
        ("p IMPLIES NOT (NOT r SINCE (q AND NOT r))",),
        ((0, "p"), (1, "q"), (2, "p"), (3, ""), (4, "p"), (5, "r"), (6, "p"), (7, "q"), (8, "p r")),
        Window("p", 1, 1, 4),
    ),
    Picture(
        "debounced",
        ("(hot AND NOT PREVIOUS hot) IMPLIES EVENTUALLY[0,5] NOT hot",),
        (
            *((0, ""), (1, "hot"), (2, "hot"), (3, ""), (5, "hot"), (6, "hot"), (8, "hot")),
            *((9, "hot"), (11, "hot"), (12, "")),
        ),
        Window("hot", 5, 5, 10),
    ),
    Picture(
        "occurrence",
        ("NOT p", "(ONCE p) OR EVENTUALLY p", "NOT (p AND PREVIOUS ONCE (p AND PREVIOUS ONCE p))"),
        ((0, ""), (1, "p"), (2, ""), (3, "p"), (4, "p"), (5, "")),
    ),
    Picture(
        "session",
        ("buy IMPLIES NOT logout SINCE login",),
        ((0, "buy"), (1, "login"), (2, "buy"), (4, "logout"), (5, "buy"), (7, "login"), (8, "buy")),
    ),
    Picture(
        "rate",
        ("count[0,4](buy) <= 2",),
        ((0, "buy"), (1, "buy"), (3, "buy"), (4, ""), (6, "buy"), (8, "buy"), (11, "")),
        Window("buy", 3, 0, 3),
        policy="policy p",
    ),
    Picture(
        "heartbeat",
        ("count[0,3]() > 0",),
        ((0, "login"), (1, "buy"), (5, ""), (6, ""), (13, "login")),
        policy="policy p on every 2",
    ),
    Picture(
        "eyes",
        ("publish(u) IMPLIES EXISTS m. (ONCE[0,5] approve(m)) AND NOT m = u",),
        (
            *((0, "approve(ann)"), (2, "publish(bob)"), (4, "publish(ann)"), (5, "approve(bob)")),
            *((6, "publish(ann)"), (9, "publish(bob)")),
        ),
        policy="policy p",
    ),
)


def values(picture: Picture, formula: str) -> dict[tuple[int, int], bool]:
    """The Boolean verdicts on the time-points of a picture that its events decide."""
    events = [(time_stamp, letter.split()) for time_stamp, letter in picture.trace]
    if picture.policy:
        return _checked(f"{picture.policy}: {formula}\n", events)
    return {
        (verdict.time_stamp, verdict.offset): verdict.value
        for verdict in resolve(Monitor(formula)(events))
        if verdict.value is not None
    }


def _checked(policy: str, events: list[tuple[int, list[str]]]) -> dict[tuple[int, int], bool]:
    """The verdicts that the command gives; a time-point may have one for each choice of values."""
    with TemporaryDirectory() as directory:
        file, log = Path(directory, "policy.mtl"), Path(directory, "log")
        file.write_text(policy, encoding="utf-8")
        log.write_text("".join(f"@{stamp} {' '.join(atoms)}\n" for stamp, atoms in events))
        done = mtlmon("--verdicts", "all", str(file), str(log))
    assert done.status in {0, 1}, done.errors
    found: dict[tuple[int, int], bool] = {}
    for line in done.output.splitlines():
        name, value = line.split("\t")[1].split(" ")[:2]
        time_stamp, offset = map(int, name.split(":"))
        found[time_stamp, offset] = value == "true"
    return found


def all_files() -> dict[str, str]:
    """The pictures by name, as SVG."""
    others = {"late": late_picture, "relations": relations_picture}
    found = {picture.name: draw(picture) for picture in ALL}
    return found | {name: module.draw(_STYLE) for name, module in others.items()}


def draw(picture: Picture) -> str:
    """The picture as SVG."""
    return "\n".join(_Drawing(picture).lines()) + "\n"


class _Drawing:
    """Where rows, time-stamps and time-points are, and what is drawn there."""

    def __init__(self, picture: Picture) -> None:
        self.picture = picture
        letters = {name for _, letter in picture.trace for name in letter.split()}
        self.labels = [*sorted(letters), *picture.formulas]
        self.left = 28 + _CHARACTER * max(map(len, self.labels))
        self.x_of_time = self.time_places()
        self.width = max(self.x_of_time.values()) + _UNIT
        self.height = _TOP + _ROW * len(self.labels) + 8
        self.points = self.time_points()

    def time_places(self) -> dict[int, float]:
        """Where the first time-point of each time-stamp is, or would be."""
        stamps = [time_stamp for time_stamp, _ in self.picture.trace]
        window = self.picture.window
        last = stamps[-1] if window is None else max(stamps[-1], window.last)
        places: dict[int, float] = {}
        x = self.left
        for time_stamp in range(last + 1):
            places[time_stamp] = x
            x += _UNIT + _TWIN * max(0, stamps.count(time_stamp) - 1)
        return places

    def time_points(self) -> list[tuple[int, int, frozenset[str], float]]:
        """Time-stamp, offset, atoms and place of each time-point."""
        points: list[tuple[int, int, frozenset[str], float]] = []
        for time_stamp, letter in self.picture.trace:
            offset = sum(point[0] == time_stamp for point in points)
            x = self.x_of_time[time_stamp] + _TWIN * offset
            points.append((time_stamp, offset, frozenset(letter.split()), x))
        return points

    def y(self, label: str) -> float:
        return _TOP + _ROW * (self.labels.index(label) + 0.5)

    def lines(self) -> Iterator[str]:
        name = self.picture.name
        heading = " and ".join(self.picture.formulas)
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" '
            f'aria-labelledby="{name}-title {name}-text" width="{self.width:.0f}" '
            f'height="{self.height}" viewBox="0 0 {self.width:.0f} {self.height}">'
        )
        yield f'<title id="{name}-title">{escape(heading)} on a small trace</title>'
        yield f'<desc id="{name}-text">{escape(self.description())}</desc>'
        yield f"<style>{_STYLE}</style>"
        yield f'<rect width="{self.width:.0f}" height="{self.height}" rx="6" class="ground"/>'
        yield from self.rows()
        yield from self.window()
        for time_stamp, offset, letter, x in self.points:
            if offset == 0:
                yield f'<text x="{x:.0f}" y="20" text-anchor="middle">{time_stamp}</text>'
            for atom in sorted(letter):
                yield f'<circle cx="{x:.0f}" cy="{self.y(atom):.0f}" r="6" class="atom"/>'
        for formula in self.picture.formulas:
            yield from self.marks(formula)
        yield "</svg>"

    def rows(self) -> Iterator[str]:
        for label in self.labels:
            y = self.y(label)
            yield f'<text x="10" y="{y + 4:.0f}">{escape(label)}</text>'
            top = y - _ROW / 2
            yield f'<line class="rule" x1="0" x2="{self.width:.0f}" y1="{top:.0f}" y2="{top:.0f}"/>'

    def window(self) -> Iterator[str]:
        """The part of a row that is looked at, and the time-point from where."""
        window = self.picture.window
        if window is None:
            return
        twins = sum(point[0] == window.last and point[1] > 0 for point in self.points)
        left = self.x_of_time[window.first] - 14
        right = self.x_of_time[window.last] + _TWIN * twins + 14
        yield (
            f'<rect x="{left:.0f}" y="{self.y(window.row) - 13:.0f}" width="{right - left:.0f}" '
            f'height="26" rx="6" class="window"/>'
        )
        x = self.x_of_time[window.anchor]
        yield f'<line class="anchor" x1="{x:.0f}" x2="{x:.0f}" y1="{_TOP}" y2="{self.height}"/>'

    def places_of(self, value: dict[tuple[int, int], bool]) -> dict[tuple[int, int], float]:
        """Where the time-points of a formula are: those of the trace, or ticks of a clock."""
        if " on every " in self.picture.policy:
            return {point: self.x_of_time[point[0]] for point in value}
        return {(time_stamp, offset): x for time_stamp, offset, _, x in self.points}

    def marks(self, formula: str) -> Iterator[str]:
        """A tick, a cross or a question mark at each time-point."""
        value = values(self.picture, formula)
        y = self.y(formula)
        for (time_stamp, offset), x in self.places_of(value).items():
            match value.get((time_stamp, offset)):
                case True:
                    yield f'<circle cx="{x:.0f}" cy="{y:.0f}" r="{_RADIUS}" class="true"/>'
                    yield f'<path class="tick" d="M{x - 4:.0f} {y:.0f}l3 3 5-6"/>'
                case False:
                    yield (f'<path class="false" d="M{x - 5:.0f} {y - 5:.0f}l10 10m0-10l-10 10"/>')
                case None:
                    yield (
                        f'<text x="{x:.0f}" y="{y + 4:.0f}" text-anchor="middle" '
                        f'class="faint">?</text>'
                    )

    def description(self) -> str:
        """The trace and the values in sentences."""
        words = {True: "holds", False: "fails", None: "is undecided"}
        sentences = []
        found = {one: values(self.picture, one) for one in self.picture.formulas}
        for time_stamp, offset, letter, _ in self.points:
            parts = [" and ".join(sorted(letter)) or "no atom"]
            if " on every " not in self.picture.policy:
                for formula, value in found.items():
                    parts.append(f"{formula} {words[value.get((time_stamp, offset))]}")
            sentences.append(f"At {time_stamp}:{offset}, {', '.join(parts)}.")
        if " on every " in self.picture.policy:
            for formula, value in found.items():
                for (time_stamp, _), holds in value.items():
                    sentences.append(f"At time {time_stamp}, {formula} {words[holds]}.")
        return " ".join(sentences)


def main() -> None:
    """Write all pictures."""
    PICTURES.mkdir(exist_ok=True)
    for name, text in all_files().items():
        (PICTURES / f"{name}.svg").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

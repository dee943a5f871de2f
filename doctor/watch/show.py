"""A live run in words: events as lines of text or JSON, the state as a few lines for a screen."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from doctor.groups import SURVIVES
from doctor.i18n import pick, tr
from doctor.render import plot
from doctor.render.safe import printable, redact, safe, width
from doctor.render.text import STYLES, mark, ranks_text, size_text, wrap
from doctor.watch.alarms import OWN, Alarm
from doctor.watch.pace import Lane
from doctor.watch.watcher import Event, State

SCHEMA = "doctor.watch/1"
FOLDED = 8
"""Rows of ranks shown; more are folded into one for each state."""
ALARM_LINES = 8

ROW_STYLES = {"failed": STYLES["error"], "silent": "yellow"}

Line = list[tuple[str, str]]


def clean(value: Any) -> Any:
    """Plain data with every text in it harmless and without secrets."""
    if isinstance(value, str):
        return redact(printable(value))
    if isinstance(value, dict):
        return {str(key): clean(one) for key, one in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return [clean(one) for one in value] if isinstance(value, (list, tuple)) else value


def stamp(at: float) -> str:
    """A time as ISO 8601 with the offset of this machine.

    >>> len(stamp(0.0))
    25
    """
    text = time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(at))
    return f"{text[:-2]}:{text[-2:]}"


def duration(seconds: float) -> str:
    """Seconds for people.

    >>> duration(7.4), duration(75), duration(7300), duration(200000)
    ('7 s', '1:15', '2:01:40', '2 d 7 h')
    """
    whole = int(seconds + 0.5)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02d}"
    if whole < 86400:
        return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"
    return f"{whole // 86400} d {whole // 3600 % 24} h"


# ------------------------------------------------------------------ events


def as_json(event: Event, **more: Any) -> str:
    """An event as one line of JSON."""
    row: dict[str, Any] = {"schema": SCHEMA, "event": event.kind, "time": stamp(event.at), **event.args}
    if event.alarm is not None:
        row |= event.alarm.plain()
    return json.dumps({**clean(row), **more}, ensure_ascii=False)


def as_text(events: Sequence[Event], lang: str, *, brief: bool = False) -> list[str]:
    """Events as lines, one each; files that come or go together are one line. ``brief``: no evidence, no advice."""
    out: list[str] = []
    waiting: list[Event] = []

    def files() -> None:
        if waiting:
            names = [safe(redact(str(e.args["name"]))) for e in waiting]
            shown = ", ".join(names[:3]) + (f" … ({len(names)})" if len(names) > 3 else "")
            out.append(_line(waiting[0], lang, tr(lang, f"watch.file.{waiting[0].args['what']}", name=shown)))
            waiting.clear()

    for event in events:
        if event.kind == "file":
            if waiting and waiting[0].args["what"] != event.args["what"]:
                files()
            waiting.append(event)
            continue
        files()
        out.append(_line(event, lang, _words(event, lang, brief)))
    files()
    return out


def _line(event: Event, lang: str, words: str) -> str:
    return f"{stamp(event.at)} {tr(lang, 'watch.event.' + event.kind)}: {words}"


def _words(event: Event, lang: str, brief: bool) -> str:
    args = event.args
    if event.alarm is not None:
        alarm = event.alarm
        old = f" ({tr(lang, 'watch.old')})" if args.get("old") and event.kind == "alarm" else ""
        by = " " + tr(lang, "watch.by", rule=alarm.by) if event.kind == "explained" else ""
        line = f"{tr(lang, f'severity.{alarm.severity}')} {alarm_text(alarm, lang)}{by}{old}"
        if brief or event.kind not in ("alarm", "worse", "again"):
            return line
        if alarm.evidence and alarm.evidence[0].text:
            line += f" | {safe(redact(alarm.evidence[0].text))[:300]}"
        return line + f" | {tr(lang, 'next')}: {safe(redact(pick(alarm.next, lang)))[:300]}"
    if event.kind == "state":
        return _pace_text(args, lang)
    if event.kind == "until":
        line = tr(lang, f"watch.until.{args['why']}")
        return line + (
            f" {safe(args['name'])}:{args['line']}: {safe(redact(args['text']))[:300]}" if args["name"] else ""
        )
    if event.kind == "read":
        return tr(lang, "watch.read", files=args["files"], size=size_text(args["size"]))
    if event.kind == "begin":
        return safe(" ".join(args["inputs"]))
    return ""


def _pace_text(args: dict[str, Any], lang: str) -> str:
    parts = [tr(lang, "watch.ranks", n=args["ranks"])]
    if args["step"] is not None:
        slow = f" ({args['slowest']}…)" if args["slowest"] != args["step"] else ""
        parts.append(f"{tr(lang, 'watch.step')} {args['step']}{slow}")
    if args["loss"] is not None:
        parts.append(f"{tr(lang, 'series.loss')} {plot.number(args['loss'])}")
    if args["step_time_ms"]:
        parts.append(f"{plot.number(args['step_time_ms'])} ms")
    if args["left_seconds"] is not None:
        parts.append(tr(lang, "watch.left", time=duration(args["left_seconds"])))
    return ", ".join(parts)


def alarm_text(alarm: Alarm, lang: str, *, place: bool = True) -> str:
    """Rule, ranks, place and title of an alarm in one line."""
    ranks = f" rank[{ranks_text(alarm.ranks)}]" if alarm.ranks else ""
    where = f" {safe(alarm.where)}" if alarm.where and place else ""
    return f"{alarm.rule}{ranks}{where} {safe(redact(pick(alarm.title, lang)))}"


# ------------------------------------------------------------------ the state


class Row(NamedTuple):
    """One or more ranks that are at the same point. ``state``: steps · done · failed · silent · past."""

    ranks: str
    step: str
    loss: str
    step_time: str
    throughput: str
    age: str
    left: str
    state: str


def rows(state: State, most: int = FOLDED) -> list[Row]:
    """The ranks, those at the same step folded; when they are too many, those in the same state."""
    by_step: dict[tuple[Any, ...], list[Lane]] = {}
    by_state: dict[tuple[Any, ...], list[Lane]] = {}
    for lane in state.lanes:
        at = _state_of(lane, state)
        by_step.setdefault((at, lane.epoch, lane.step), []).append(lane)
        by_state.setdefault((at,), []).append(lane)
    groups = by_step if len(by_step) <= most else by_state
    out = [_row(key[0], lanes, state) for key, lanes in groups.items()]
    return sorted(out, key=lambda row: (row.state not in ("failed", "silent"), row.ranks))


def _state_of(lane: Lane, state: State) -> str:
    if any(_ended_by(lane, alarm) for alarm in state.alarms):
        return "failed"
    if lane.name in state.quiet:
        return "silent"
    if lane.done:
        return "done"
    return "steps" if lane.live or state.now - lane.seen < 60 else "past"


def _ended_by(lane: Lane, alarm: Alarm) -> bool:
    """Whether an alarm is about an error of this rank that ends a run, and the rank has not gone on since."""
    if not alarm.counts or alarm.severity != "error" or alarm.rule in OWN or alarm.topic.startswith(SURVIVES):
        return False
    return lane.rank in alarm.ranks or any(one.source == lane.name for one in alarm.evidence)


def _row(at: str, lanes: Sequence[Lane], state: State) -> Row:
    numbers = [lane.rank for lane in lanes if lane.rank is not None]
    first = lanes[0]
    ranks = f"rank[{ranks_text(numbers)}]" if numbers else safe(first.name).rpartition("/")[2]
    if len(numbers) < len(lanes) > 1:
        ranks += f" +{len(lanes) - max(1, len(numbers))}"
    steps = sorted(lane.step for lane in lanes if lane.step is not None)
    step = "" if not steps else str(steps[0]) if steps[0] == steps[-1] else f"{steps[0]}…{steps[-1]}"
    step += f"/{first.total}" if first.total and steps else ""
    if first.epoch is not None:
        step = f"{first.epoch}:{step}"
    times = sorted(lane.step_time or 1000 * lane.usual / lane.between for lane in lanes if lane.step_time or lane.usual)
    rates = sorted(lane.throughput[0] for lane in lanes if lane.throughput)
    unit = first.throughput[1] if first.throughput else ""
    loss = max((lane.loss for lane in lanes if lane.loss is not None), key=_worse, default=None)
    left = [lane.left for lane in lanes if lane.left is not None]
    return Row(
        ranks, step, plot.number(loss) if loss is not None else "",
        f"{plot.number(times[len(times) // 2])} ms" if times else "",
        f"{plot.number(rates[len(rates) // 2])} {safe(unit)}".strip() if rates else "",
        duration(max(0.0, state.now - max(lane.seen for lane in lanes))),
        duration(max(left)) if left and at != "failed" else "", at,
    )  # fmt: skip


def _worse(loss: float) -> bool:
    """Of several losses the one that is no number is shown."""
    return not math.isfinite(loss)


def lead(state: State) -> Lane | None:
    """The rank whose loss is drawn: one whose loss is no number, else of those with the most steps the first."""
    lanes = [lane for lane in state.lanes if lane.track is not None]
    return max(lanes, key=lambda one: (_worse(one.loss or 0.0), one.rows, -(one.rank or 0)), default=None)


def drawing(state: State, name: str, columns: int, ascii_only: bool) -> tuple[str, list[str]]:
    """(newest value, lines of the plot) of a column of the leading rank, events marked; nothing if it has none."""
    lane = lead(state)
    if lane is None or lane.track is None or name not in lane.track.columns:
        return "", []
    from doctor.training import points

    pairs = points(lane.track, name)
    marks = [
        event["step"] for one in state.series if one["source"] == lane.name and one["name"] == name
        for event in one["events"][:6] if event["step"] is not None
    ]  # fmt: skip
    lines = plot.plot(pairs, marks, columns=max(8, min(columns - 12, 4 * len(pairs))), ascii_only=ascii_only)
    newest = pairs[-1][1] if pairs else None
    return (plot.number(newest) if newest is not None else "nan"), lines


def head(state: State, lang: str) -> Line:
    """How much there is, what is still to be read, and what cannot be."""
    out: Line = [("", tr(lang, "watch.files", n=state.files, size=size_text(state.size)))]
    if state.behind:
        done = 100 * (state.size - state.behind) // max(1, state.size)
        out.append(("", tr(lang, "watch.catching_up", percent=done)))
    out += [("yellow", safe(text)) for text in state.trouble[:2]]
    if state.full:
        out.append(("yellow", tr(lang, "watch.full")))
    return out


def table(state: State, lang: str, columns: int, most: int = FOLDED) -> list[Line]:
    """The ranks as a table of at most so many columns; what does not fit is left out from the right."""
    found = rows(state, most)
    if not found:
        return [[("dim", tr(lang, "watch.no_steps"))]]
    heads = tuple(tr(lang, f"watch.column.{name}") for name in Row._fields)
    cells = [heads, *((*row[:-1], tr(lang, f"watch.state.{row.state}")) for row in found)]
    # a column without a value says nothing
    widths = {n: max(width(line[n]) for line in cells) for n in range(len(heads)) if any(line[n] for line in cells[1:])}
    for least in ("throughput", "left", "age", "step_time"):
        if sum(widths.values()) + 2 * (len(widths) - 1) <= columns:
            break
        widths.pop(Row._fields.index(least), None)
    out: list[Line] = []
    for n, line in enumerate(cells):
        text = "  ".join(line[k] + " " * (room - width(line[k])) for k, room in widths.items())
        style = ROW_STYLES.get(found[n - 1].state, "") if n else "dim"
        out.append([(style, cut(text.rstrip(), columns))])
    return out


def screen(
    state: State, inputs: Sequence[str], lang: str, *, columns: int, height: int, ascii_only: bool
) -> list[Line]:
    """The run at a glance in at most ``height`` lines."""
    lines: list[Line] = [[("bold", cut(safe(" ".join(inputs)), columns))]]
    lines += [[(style, cut(text, columns))] for style, text in head(state, lang)]
    lines += table(state, lang, columns)
    spare = height - len(lines) - 4
    value, picture = drawing(state, "loss", columns, ascii_only) if spare >= plot.ROWS + 4 else ("", [])
    if picture:
        lines += [[], [("bold", f"{tr(lang, 'series.loss')} {value}")], *([("cyan", row)] for row in picture)]
    lines.append([])
    lines += alarm_lines(state, lang, columns, max(1, height - len(lines) - 1), ascii_only)
    return lines[:height]


def alarm_lines(state: State, lang: str, columns: int, most: int, ascii_only: bool) -> list[Line]:
    """The alarms, newest first, those that are over behind the others."""
    if not state.alarms:
        return [[("green" if state.lanes and not state.behind else "dim", tr(lang, "watch.no_alarm"))]]
    ordered = sorted(state.alarms, key=lambda a: (not a.counts, -a.at))
    out: list[Line] = []
    for alarm in ordered:
        style = STYLES[alarm.severity] if alarm.state == "active" else "dim"
        sign = mark(alarm.severity, ascii_only) if alarm.state == "active" else "-"
        when = time.strftime("%H:%M:%S", time.localtime(alarm.at))
        note = "" if alarm.state == "active" else f" [{tr(lang, 'watch.event.' + alarm.state)}]"
        note += f" ({tr(lang, 'watch.old')})" if alarm.old else ""
        out.append([(style, cut(f"{sign} {when} {alarm_text(alarm, lang)}{note}", columns))])
        if alarm.state == "active" and len(ordered) <= 3:
            out += [
                [("", cut("  " + row, columns))] for row in wrap(safe(redact(pick(alarm.next, lang))), columns - 4)[:2]
            ]
    if len(out) > most:
        left = len(out) - most + 1
        out = [*out[: most - 1], [("dim", tr(lang, "watch.more", n=left))]] if most > 1 else out[:1]
    return out


def cut(text: str, columns: int) -> str:
    """At most so many cells of a line."""
    if width(text) <= columns:
        return text
    used = 0
    for n, char in enumerate(text):
        used += width(char)
        if used > columns - 1:
            return text[:n] + "~"
    return text

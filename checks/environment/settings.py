"""ENV512, ENV513: clock and character set."""

from __future__ import annotations

from doctor.checks.environment.common import servers
from doctor.model import Answer, Fact, Unknown, fail, not_applicable, passed, unknown


def clock(time: Fact, launch: Fact | Unknown) -> Answer:
    """Whether the clock is synchronised. Logs of several servers are compared by it, and their time limits assume it;
    no document asks for a figure. Of no concern for one server."""
    nodes = servers(launch)
    if nodes == 1:
        return not_applicable("single_node")
    synchronised = time.value["synchronised"]
    if synchronised is None:
        return unknown("not_understood")
    if synchronised:
        return passed({}, time.evidence)
    return fail({}, time.evidence, severity="warning" if nodes else "advice")


def character_set(locale: Fact) -> Answer:
    """Whether Python will read and write UTF-8 by default; C, POSIX and unset are fine since Python 3.7."""
    args = {"source": locale.value["source"], "value": locale.value["value"], "charset": locale.value["charset"]}
    return passed(args, locale.evidence) if locale.value["utf8"] else fail(args, locale.evidence)

"""The network as a picture in text: servers, their devices, the port of each and what joins them.

``draw`` takes the value of the fact ``net.topology``::

    {"servers": [{"id", "pod", "devices": [{"id", "rank", "ip", "link", "switch"}]}],
     "links": {"labels": ["NPU0", …], "rows": [["X", "HCCS", …], …]} or None}

Everything but ``id`` may be absent. The picture never grows with the cluster: servers that are alike are folded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from doctor.i18n import tr
from doctor.render.safe import safe, width
from doctor.render.text import ranks_text

LINES = 40
"""Lines of the list of servers."""
DEVICES = 32
"""Devices shown one by one."""
MATRIX = 16
"""Devices of the largest matrix: more do not fit a screen."""

Device = Mapping[str, Any]
Server = Mapping[str, Any]


def draw(
    topology: Mapping[str, Any], columns: int = 100, *, ascii_only: bool = False, lang: str = "en", most: int = LINES
) -> list[str]:
    """Lines of at most ``columns`` cells; no line for an empty topology."""
    servers = [server for server in topology.get("servers") or () if isinstance(server, Mapping)]
    out: list[str] = []
    if sum(len(_devices(server)) for server in servers) <= DEVICES or len(servers) == 1:
        for server in servers:
            out += _one(server, ascii_only, lang)
    else:
        out += _many(servers, ascii_only, lang, max(most, 6))
    links = topology.get("links")
    if isinstance(links, Mapping):
        out += _links(links, columns, lang)
    return [clip(line, max(columns, 20), ascii_only) for line in out]


def brief(
    topology: Mapping[str, Any], columns: int = 100, *, ascii_only: bool = False, lang: str = "en",
    devices: bool = False, matrix: bool = False,
) -> list[str]:  # fmt: skip
    """The servers, each with the number of its devices and links, and what joins the devices, in a line each.

    ``devices``: those of this host one by one, which are the ones whose links are known. ``matrix``: the whole matrix.
    """
    servers = [server for server in topology.get("servers") or () if isinstance(server, Mapping)]
    if len(servers) > 4:
        total = sum(len(_devices(server)) for server in servers)
        out = [tr(lang, "topology.servers", servers=len(servers), devices=total)]
    else:
        out = []
        for server in servers:
            own = _devices(server)
            up = Counter(_word(device.get("link")) for device in own if device.get("link"))
            if devices and any(device.get("link") or device.get("ip") for device in own) and (up or len(servers) == 1):
                out += _one(server, ascii_only, lang)
                continue
            pod = f"{tr(lang, 'topology.pod', id=_word(server['pod']))}  " if server.get("pod") else ""
            text = pod + tr(lang, "topology.server", id=_word(server.get("id")) or "-", count=len(own))
            if up:
                states = ", ".join(f"{count} {word}" for word, count in sorted(up.items()))
                text += tr(lang, "topology.roce", list=states)
            out += [text] if own else []
    links = topology.get("links")
    if isinstance(links, Mapping):
        out += _links(links, columns if matrix else 0, lang)
    return [clip(line, max(columns, 20), ascii_only) for line in out]


def clip(line: str, columns: int, ascii_only: bool = False) -> str:
    """``line`` made harmless and cut to ``columns`` cells, with a mark where it was cut."""
    line = safe(line)
    if width(line) <= columns:
        return line
    mark = ".." if ascii_only else "…"
    used, kept = width(mark), ""
    for char in line:
        used += width(char)
        if used > columns:
            break
        kept += char
    return kept + mark


def _branch(last: bool, ascii_only: bool) -> str:
    if ascii_only:
        return "`- " if last else "|- "
    return "└─ " if last else "├─ "


def _pad(text: str, cells: int) -> str:
    return text + " " * max(0, cells - width(text))


def _devices(server: Server) -> list[Device]:
    return [device for device in server.get("devices") or () if isinstance(device, Mapping)]


def _word(value: Any) -> str:
    return "" if value is None else str(value)


# ------------------------------------------------------------------ one server


def _one(server: Server, ascii_only: bool, lang: str) -> list[str]:
    devices = _devices(server)
    shown = devices[:DEVICES]
    ranked = any(device.get("rank") is not None for device in shown)
    pod = f"{tr(lang, 'topology.pod', id=_word(server['pod']))}  " if server.get("pod") else ""
    head = pod + tr(lang, "topology.server", id=_word(server.get("id")) or "-", count=len(devices))
    rows = []
    for device in shown:
        up = _word(device.get("link"))
        row = [_word(device.get("id"))]
        if ranked:
            row.append(tr(lang, "rank", ranks=_word(device.get("rank"))))
        row.append(_word(device.get("ip")) or tr(lang, "topology.no_ip"))
        row += [_line_of(up, ascii_only), up, _word(device.get("switch"))]
        rows.append(row)
    sizes = [max((width(row[n]) for row in rows), default=0) for n in range(len(rows[0]) if rows else 0)]
    out = [head]
    for n, row in enumerate(rows):
        last = n == len(devices) - 1
        cells = "  ".join(_pad(cell, size) for cell, size in zip(row, sizes, strict=True) if size)
        out.append((_branch(last, ascii_only) + cells).rstrip())
    if len(devices) > len(shown):
        out.append(_branch(True, ascii_only) + tr(lang, "topology.more_devices", count=len(devices) - len(shown)))
    return out


def _line_of(up: str, ascii_only: bool) -> str:
    """The cable: drawn through, broken, or not known."""
    if ascii_only:
        return {"UP": "-----", "DOWN": "--x--"}.get(up, "")
    return {"UP": "─────", "DOWN": "──✖──"}.get(up, "")


# ------------------------------------------------------------------ several servers


def _many(servers: Sequence[Server], ascii_only: bool, lang: str, most: int) -> list[str]:
    total = sum(len(_devices(server)) for server in servers)
    out = [tr(lang, "topology.servers", servers=len(servers), devices=total)]
    usual = Counter(len(_devices(server)) for server in servers).most_common(1)[0][0]
    kept = _kept(servers, usual, most)
    size = max((width(_word(servers[n].get("id"))) for n in kept), default=0)
    pod, before = None, -1
    for n in kept:
        if n > before + 1:
            out.append(_fold(servers[before + 1 : n], ascii_only, lang))
        if servers[n].get("pod") and servers[n].get("pod") != pod:
            pod = servers[n].get("pod")
            out.append(tr(lang, "topology.pod", id=_word(pod)))
        mark = ("! " if ascii_only else "▲ ") if _odd(servers[n], usual) else "  "
        last = n == len(servers) - 1
        out.append((_branch(last, ascii_only) + mark + _row(servers[n], size, lang)).rstrip())
        before = n
    if before + 1 < len(servers):
        out.append(_fold(servers[before + 1 :], ascii_only, lang))
    return out


def _odd(server: Server, usual: int) -> bool:
    """Whether a server is to be seen among many: another number of devices than the rest, or a link that is down."""
    devices = _devices(server)
    return len(devices) != usual or any(device.get("link") == "DOWN" for device in devices)


def _kept(servers: Sequence[Server], usual: int, most: int) -> list[int]:
    """Servers to show: all if they fit, else the first ones, those unlike the rest, and the last one."""
    if len(servers) <= most:
        return list(range(len(servers)))
    odd = [n for n, server in enumerate(servers) if _odd(server, usual)][: most // 2]
    first = list(range(max(1, min(4, most - len(odd) - 1))))
    return sorted({*first, *odd, len(servers) - 1})


def _numbers(devices: Sequence[Device], key: str) -> str:
    found = [device[key] for device in devices if isinstance(device.get(key), int)]
    return ranks_text(found) if found else ""


def _row(server: Server, size: int, lang: str) -> str:
    devices = _devices(server)
    parts = [_pad(_word(server.get("id")), size)]
    ranks = _numbers(devices, "rank")
    if ranks:
        parts.append(tr(lang, "rank", ranks=ranks))
    parts.append(tr(lang, "device", device=_numbers(devices, "id") or "-"))
    addresses = [_word(device.get("ip")) for device in devices if device.get("ip")]
    if addresses:
        parts.append(_between(addresses))
    down = [device for device in devices if device.get("link") == "DOWN"]
    if down:
        parts.append(f"DOWN: {_numbers(down, 'id')}")
    return "  ".join(parts)


def _between(addresses: Sequence[str]) -> str:
    """First and last of some addresses; the last one without what it shares with the first.

    >>> _between(["192.0.2.10", "192.0.2.11", "192.0.2.17"])
    '192.0.2.10-17'
    """
    first, last = addresses[0], addresses[-1]
    if first == last:
        return first
    head, _, tail = last.rpartition(".")
    return f"{first}-{tail}" if head and first.startswith(head + ".") else f"{first} - {last}"


def _fold(servers: Sequence[Server], ascii_only: bool, lang: str) -> str:
    devices = [device for server in servers for device in _devices(server)]
    ranks = _numbers(devices, "rank")
    text = tr(lang, "topology.more_servers", servers=len(servers), devices=len(devices))
    mark = ":  " if ascii_only else "┊  "
    return mark + ("... " if ascii_only else "… ") + text + (f"  {tr(lang, 'rank', ranks=ranks)}" if ranks else "")


# ------------------------------------------------------------------ what joins the devices of a server


def _links(links: Mapping[str, Any], columns: int, lang: str) -> list[str]:
    labels = [_word(label) for label in links.get("labels") or ()]
    rows = [[_word(cell) for cell in row] for row in links.get("rows") or () if isinstance(row, (list, tuple))]
    size = len(labels)
    if size < 2 or len(rows) != size or any(len(row) != size for row in rows):
        return []
    words = Counter(rows[a][b] for a in range(size) for b in range(size) if a != b)
    if len(words) == 1:
        return [tr(lang, "topology.mesh", word=next(iter(words)), count=size)]
    cell = max(width(text) for text in (*labels, *(cell for row in rows for cell in row))) + 1
    if size <= MATRIX and (size + 1) * cell <= columns:
        out = [" " * cell + "".join(_pad(label, cell) for label in labels).rstrip()]
        for label, row in zip(labels, rows, strict=True):
            out.append((_pad(label, cell) + "".join(_pad(word, cell) for word in row)).rstrip())
        return out
    if len({label.rstrip("0123456789") for label in labels}) == 1:
        labels = [label[len(label.rstrip("0123456789")) :] or label for label in labels]
    return [f"{word or '-'}: {_pairs(labels, rows, word, lang)}" for word, _ in words.most_common(8)]


def _pairs(labels: Sequence[str], rows: Sequence[Sequence[str]], word: str, lang: str) -> str:
    """Devices that one kind of link joins, as groups in which each has it to each other, else as a number of pairs."""
    groups: list[list[int]] = []
    for device in range(len(labels)):
        home = next((group for group in groups if all(rows[device][other] == word for other in group)), None)
        if home is None:
            groups.append([device])
        else:
            home.append(device)
    joined = [group for group in groups if len(group) > 1]
    inside = sum(len(group) * (len(group) - 1) for group in joined)
    pairs = sum(rows[a][b] == word for a in range(len(labels)) for b in range(len(labels)) if a != b)
    if inside == pairs and joined:
        return " | ".join(" ".join(labels[device] for device in group) for group in joined)
    return tr(lang, "topology.pairs", count=(pairs + 1) // 2)

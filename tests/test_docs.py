"""The documents lead where they say, name commands that exist, and the pages of the rules can be made and checked."""

from __future__ import annotations

import argparse
import importlib.util
import re
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote

import pytest

from doctor.cli import parser

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "rules" / "README.md")
)
_FENCE = re.compile(r"^(```+|~~~+)[^\n]*\n(.*?)^\1\s*$", re.M | re.S)
_CODE = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"(?<!\\)\[(?:[^\[\]\\\n]|\\.)*\]\(([^()\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.M)


@lru_cache
def rule_pages() -> ModuleType:
    """scripts/rule_pages.py as a module."""
    spec = importlib.util.spec_from_file_location("rule_pages", ROOT / "scripts" / "rule_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@lru_cache
def generated() -> dict[str, str]:
    """The pages of the rules as they would be written now, by path in the tree."""
    pages, _ = rule_pages().pages(str(ROOT / "rules"))
    return {f"docs/rules/{name}": text for name, text in pages.items()}


def anchors(text: str) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    found: set[str] = set()
    for heading in _HEADING.findall(_FENCE.sub("", text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        n, unique = 0, slug
        while unique in found:
            n += 1
            unique = f"{slug}-{n}"
        found.add(unique)
    return found


def wrong_links(name: str, text: str) -> list[str]:
    """Links of a page that lead to no file of the tree or to no heading in it."""
    wrong = []
    for target in _LINK.findall(_CODE.sub("", _FENCE.sub("", text))):
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        path, _, anchor = unquote(target).partition("#")
        there = ((ROOT / name).parent / path).resolve() if path else ROOT / name
        page = (
            text
            if not path
            else generated().get(there.relative_to(ROOT).as_posix())
            if there.is_relative_to(ROOT)
            else None
        )
        if page is None and there.is_relative_to(ROOT) and there.exists():
            page = there.read_text(encoding="utf-8") if there.suffix == ".md" else ""
        if page is None or (anchor and anchor not in anchors(page)):
            wrong.append(target)
    return wrong


def commands(text: str) -> list[str]:
    """What a page shows of ``doctor …`` as code."""
    blocks = [line for _, block in _FENCE.findall(text) for line in block.splitlines()]
    shown = [*blocks, *_CODE.findall(_FENCE.sub("", text))]
    out = []
    for line in shown:
        found = re.match(r"(?:\$ )?(?:\S*/)?(?:python -m )?doctor (\S.*)$", line.strip())
        if found:
            out.append(found[1])
    return out


def subcommands(of: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in of._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def refused(command: str) -> str:
    """Why a shown command cannot be right, "" if it can."""
    command = re.split(r" (?:#|\||>|2>|&&)", f" {command}")[0].strip()
    at, path = parser(), ["doctor"]
    words = command.split()
    while words and subcommands(at) and not words[0].startswith("-"):
        word = words.pop(0).rstrip(",;:.")
        for one in word.split("|"):
            if one not in subcommands(at):
                return f"{' '.join(path)} has no command {one}"
        if "|" in word:
            return ""
        at = subcommands(at)[word]
        path.append(word)
    known = {option for action in at._actions for option in action.option_strings}
    for word in words:
        option = re.match(r"\[?(--?[a-zA-Z][\w-]*)", word)
        if option and option[1] not in known:
            return f"{' '.join(path)} has no option {option[1]}"
    return ""


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_of_a_document_lead_somewhere(name: str) -> None:
    assert wrong_links(name, (ROOT / name).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_commands_shown_in_a_document_exist(name: str) -> None:
    shown = commands((ROOT / name).read_text(encoding="utf-8"))
    assert [why for why in map(refused, shown) if why] == []


def test_a_wrong_link_and_a_wrong_command_are_found() -> None:
    text = "# One\n[a](nowhere.md) [b](#two) [c](#one) [d](https://x.y/z) [e](CHANGELOG.md) [f](../../etc/passwd)\n"
    assert wrong_links("README.md", text) == ["nowhere.md", "#two", "../../etc/passwd"]
    assert refused("diagnose a.log --format json | head") == ""
    assert refused("diagnos a.log")
    assert refused("diagnose --frobnicate")
    assert commands("`doctor demo` and\n```\n$ doctor rules list  # all\n.venv/bin/doctor explain X\n```\n") == [
        "rules list  # all", "explain X", "demo",
    ]  # fmt: skip


def test_generated_pages_name_every_rule_and_their_links_lead_somewhere() -> None:
    pages = generated()
    found, _, _ = rule_pages().read_folder(str(ROOT / "rules"))
    for _, rule in found:
        if rule.status == "draft":
            continue
        page = pages[f"docs/rules/{rule_pages().family_of(rule.id)}.md"]
        assert f"\n## {rule.id}\n" in page
        assert rule_pages().md(rule.cause.zh.strip()) in page
        assert rule_pages().md(rule.next.en.strip()) in page
    for name, text in pages.items():
        assert wrong_links(name, text) == []


def test_page_text_is_never_markup() -> None:
    md = rule_pages().md
    assert md("a|b <x> *y* [z](u) `c`") == r"a\|b \<x\> \*y\* \[z\](u) \`c\`"
    assert md("rank {rank?} of {name}\n next") == "rank ‹rank› of ‹name› next"
    assert md("device_id __init__") == r"device_id \_\_init\_\_"
    assert rule_pages().reference("see https://a.b/c_d, x") == "see <https://a.b/c_d>, x"


RULE = """\
id: RUN001
name: made-up
topic: env.disk_full
title: {zh: 出错了, en: It broke}
severity: error
confidence: likely
status: stable
since: 0.1.0
match: {log: {any: [{literal: it broke entirely}]}}
cause: {zh: 原因, en: Because}
next: {zh: 下一步, en: Look}
provenance: [{kind: measured, ref: made up}]
tests:
  hit: [{log: it broke entirely}]
  miss: [{log: it works}, {log: it broke}]
"""


def test_check_tells_stale_missing_and_left_over_pages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rules" / "run").mkdir(parents=True)
    (tmp_path / "rules" / "topics.yaml").write_bytes((ROOT / "rules" / "topics.yaml").read_bytes())
    (tmp_path / "rules" / "run" / "RUN001.yaml").write_text(RULE, encoding="utf-8")
    main = rule_pages().main
    out = ["--rules", str(tmp_path / "rules"), "--out", str(tmp_path / "pages")]
    assert main([*out, "--check"]) == 1
    assert main(out) == 0
    assert main([*out, "--check"]) == 0
    (tmp_path / "pages" / "RUN.md").write_text("changed")
    (tmp_path / "pages" / "OLD.md").write_text("left over")
    capsys.readouterr()
    assert main([*out, "--check"]) == 1
    said = capsys.readouterr().out
    assert "RUN.md" in said
    assert "OLD.md" in said
    assert main(out) == 0
    assert not (tmp_path / "pages" / "OLD.md").exists()
    assert main([*out, "--check"]) == 0


def test_a_broken_rule_file_stops_the_pages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rules" / "run").mkdir(parents=True)
    (tmp_path / "rules" / "topics.yaml").write_bytes((ROOT / "rules" / "topics.yaml").read_bytes())
    (tmp_path / "rules" / "run" / "RUN001.yaml").write_text("id: [\n")
    assert rule_pages().main(["--rules", str(tmp_path / "rules"), "--out", str(tmp_path / "out")]) == 2
    assert "RUN001.yaml:" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()

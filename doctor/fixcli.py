"""``doctor fix`` and ``doctor resume``: arguments in, a patch shown, applied or put back."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from doctor.i18n import pick, texts
from doctor.render.safe import printable

if TYPE_CHECKING:
    from doctor.patch.journal import Journal
    from doctor.patch.plan import Patch
    from doctor.patch.propose import Decision
    from doctor.patch.spans import Refused
    from doctor.render.text import Line

USAGE = 2


def add_fix(commands: Any, common: Any) -> None:
    """The arguments of ``doctor fix``."""
    fix = commands.add_parser("fix", help="show what would mend the findings of files; --apply does it")
    fix.add_argument("paths", nargs="*", metavar="PATH", help="configs, scripts, sources, or folders of them")
    fix.add_argument("--only", action="append", default=[], metavar="RULE", help="ids or globs; commas or repeated")
    fix.add_argument("--unsafe", action="store_true", help="also what may change results")
    fix.add_argument("--aliases", action="store_true", help="agree that YAML aliases of a changed value change with it")
    fix.add_argument("--choose", action="append", default=[], metavar="ID=VALUE",
                     help="the alternative of a fix to take, by its number or value")  # fmt: skip
    fix.add_argument("--mindspore", default="", metavar="X.Y", help="the version that sources are written for")
    fix.add_argument("--script", metavar="FILE", help="write the proposed environment settings as a script to source")
    fix.add_argument("--undo", nargs="?", const="", metavar="ID", help="put back what a patch (the newest) replaced")
    fix.add_argument("--list", action="store_true", help="the patches applied so far")
    _apply_options(fix)
    common(fix, fail_on=False)
    fix.add_argument("--format", choices=("text", "json"), default="text")


def add_resume(commands: Any, common: Any) -> None:
    """The arguments of ``doctor resume``."""
    resume = commands.add_parser("resume", help="find the checkpoints to continue a run from, and the settings for it")
    resume.add_argument("run", metavar="RUN_DIR", help="the output folder of the run")
    resume.add_argument("--checkpoints", metavar="DIR", help="the folder of the checkpoints, if it is elsewhere")
    resume.add_argument("--logs", action="append", default=[], metavar="PATH", help="its logs, if they are elsewhere")
    resume.add_argument("--config", metavar="FILE", help="the configuration to continue with, to be patched")
    resume.add_argument("--ranks", type=int, metavar="N", help="ranks of the run (default: as many as have a folder)")
    _apply_options(resume)
    common(resume, fail_on=False)
    resume.add_argument("--format", choices=("text", "json"), default="text")


def _apply_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--apply", action="store_true", help="write the patch; asks first")
    parser.add_argument("--yes", action="store_true", help="with --apply: do not ask")
    parser.add_argument("--journal", default="", metavar="DIR", help="where old contents are kept")


def say(lang: str, key: str, /, **values: Any) -> str:
    """A text of the interface, everything that is filled in made harmless."""
    text = texts(lang)[key]
    for name, value in values.items():
        text = text.replace("{" + name + "}", printable(str(value)))
    return text


def why_text(lang: str, refused: Refused) -> str:
    """Why nothing is changed, with the file and line if they are known."""
    table = texts(lang)
    key = f"patch.{refused.code}"
    if key not in table and refused.code.startswith("yaml_"):
        key = "patch.yaml_syntax"
    text = say(lang, key, **({"why": ""} | refused.args_)) if key in table else refused.code
    return text.rstrip(" :：")


def _where(refused: Refused) -> str:
    path, line = refused.args_.get("path"), refused.args_.get("line")
    return (printable(str(path)) + (f":{line}" if line else "") + ": ") if path else ""


def refuse(lang: str, refused: Refused) -> int:
    """One line on stderr; the exit code of wrong usage."""
    print(f"doctor: {_where(refused)}{why_text(lang, refused)}", file=sys.stderr)
    return USAGE


def _words(given: Sequence[str]) -> tuple[str, ...]:
    return tuple(word.strip() for text in given for word in text.split(",") if word.strip())


def fix(args: argparse.Namespace) -> int:
    """Run ``doctor fix``; returns the exit code: 0 nothing is left to do, 1 something is, 2 it cannot be done."""
    from doctor.patch import apply, journal
    from doctor.patch.spans import Refused

    book = journal.Journal(args.journal)
    try:
        if args.list:
            return _list(args, book)
        if args.undo is not None:
            entry = apply.undo(book, args.undo)
            print(say(args.lang, "fix.undone", id=entry.id, files=", ".join(f.path for f in entry.files)))
            return 0
        if not args.paths:
            print("doctor: " + texts(args.lang)["fix.no_path"], file=sys.stderr)
            return USAGE
        return _fix(args, book)
    except Refused as refused:
        return refuse(args.lang, refused)


def _choices(given: Sequence[str]) -> dict[str, str]:
    from doctor.patch.spans import Refused

    out = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign or not name.strip() or not value.strip():
            raise Refused("bad_choose", value=text)
        out[name.strip()] = value.strip()
    return out


def _fix(args: argparse.Namespace, book: Journal) -> int:
    from doctor.patch import configs, plan, propose
    from doctor.patch.spans import Refused
    from doctor.rulebase import load

    options = propose.Options(_words(args.only), args.unsafe, _choices(args.choose), args.aliases, args.rules,
                              args.mindspore)  # fmt: skip
    unread = 0
    for path in args.paths:
        if os.path.isdir(path):
            continue
        try:
            shot = plan.snapshot(path)
            text = plan.decode(shot.data, shot.format)
            _parses(shot.format, text)
        except Refused as refused:
            refused.args_.setdefault("path", path)
            unread += refuse(args.lang, refused) > 0
    if unread and unread == len(args.paths):
        return USAGE
    base = load(args.rules)
    found = propose.find(list(configs.files(args.paths)), options)
    every = propose.of_found(found, options, base)
    patch, decisions = propose.decide(every, options)
    words_only = propose.unmended(found, every)
    script = propose.environment([one for one in found if not one.edits], args.lang, base)
    if args.script and script and not _write_script(args, script):
        return USAGE
    shown = script if not args.script else ""
    applied, code = "", 0
    if args.format == "json":
        if args.apply and patch is not None:
            applied, code = _apply(args, book, patch, propose.passing(decisions))
        data = as_json(patch, decisions, applied, script) | {"words_only": [finding.id for finding in words_only]}
        print(json.dumps(data, ensure_ascii=False, indent=1))
    else:
        _emit(args, lines(args.lang, patch, decisions, shown))
        if words_only:
            ids = " ".join(dict.fromkeys(finding.id for finding in words_only))
            print(say(args.lang, "fix.words_only", n=len(words_only), ids=ids), file=sys.stderr)
        if args.apply and patch is not None:
            applied, code = _apply(args, book, patch, propose.passing(decisions))
        elif patch is not None:
            print(texts(args.lang)["fix.apply_hint"], file=sys.stderr)
    if code:
        return code
    left = [d for d in decisions if d.state != "planned" or not applied]
    return int(bool(left)) if not unread else max(1, int(bool(left)))


def _parses(fmt: str, text: str) -> None:
    """Raises Refused if a file cannot be read in its format."""
    from doctor.patch import jsonspans, pyspans, shellspans, yamlspans

    if fmt == "yaml":
        yamlspans.check_empty(text)
    else:
        {"json": jsonspans.read, "shell": shellspans.words, "python": pyspans.parse}[fmt](text)


def _write_script(args: argparse.Namespace, script: str) -> bool:
    try:
        with open(args.script, "w", encoding="utf-8") as file:
            file.write(script)
    except OSError as error:
        print(f"doctor: {args.script}: {error.strerror}", file=sys.stderr)
        return False
    print(say(args.lang, "check.fix_env", path=args.script), file=sys.stderr)
    return True


def _apply(args: argparse.Namespace, book: Journal, patch: Patch, passes: Any = None) -> tuple[str, int]:
    """(id of the applied patch or nothing, exit code if it was not applied)."""
    from doctor.patch import apply
    from doctor.patch.spans import Refused

    if not args.yes:
        if sys.stdin is None or not sys.stdin.isatty():
            print("doctor: " + texts(args.lang)["fix.no_terminal"], file=sys.stderr)
            return "", USAGE
        sys.stderr.write(say(args.lang, "fix.ask", n=len(patch.files)) + " ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes", "是"):
            print(texts(args.lang)["fix.left"], file=sys.stderr)
            return "", 1
    try:
        entry = apply.apply(patch, book, passes)
    except Refused as refused:
        return "", refuse(args.lang, refused)
    print(say(args.lang, "fix.applied", id=entry, files=", ".join(f.path for f in patch.files)), file=sys.stderr)
    return entry, 0


def _list(args: argparse.Namespace, book: Journal) -> int:
    from doctor.patch import journal

    entries = book.entries()
    if args.format == "json":
        print(json.dumps([journal.as_json(entry) for entry in entries], ensure_ascii=False, indent=1))
        return 0
    if not entries:
        print(say(args.lang, "fix.empty", path=book.folder))
    for entry in entries:
        state = texts(args.lang)[f"fix.state.{entry.state}"]
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry.time))
        print(printable(f"{entry.id}  {when}  {state}  {' '.join(dict.fromkeys(entry.rules))}".rstrip()))
        for file in entry.files:
            print("   " + printable(file.path))
            for key, old, new in file.edits[:20]:
                print(printable(f"      {key}: {_short(old)} → {_short(new)}"))
    return 0


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 60 else text[:59] + "…"


def lines(lang: str, patch: Patch | None, decisions: Sequence[Decision], script: str = "") -> list[Line]:
    """What would be done, what would not and why, and the diff."""
    from doctor.patch import diff
    from doctor.render.text import STYLES, mark

    table = texts(lang)
    out: list[Line] = []
    for decision in decisions:
        one, finding = decision.proposal, decision.proposal.finding
        title = printable(pick(finding.title, lang))
        out.append([(STYLES[finding.severity], f"{mark(finding.severity)} {one.fix.id}  "), ("bold", title)])
        place = finding.evidence[0] if finding.evidence else None
        if place is not None and place.source:
            out.append([("dim", "   " + printable(place.source) + (f":{place.line}" if place.line else ""))])
        out.append([("", "   " + printable(pick(one.fix.text, lang)))])
        for n, choice in enumerate(one.choices):
            words = pick(choice.text, lang)
            row = f"   {n + 1}) {choice.label}" + (f"  {words}" if words else "")
            out.append([("cyan", printable(row))])
        state = say(lang, f"fix.state.{decision.state}", id=one.fix.id)
        if decision.why is not None:
            state += " " + why_text(lang, decision.why)
        out.append([("green" if decision.state == "planned" else "yellow", "   " + state)])
        out.append([("", "")])
    if patch is not None:
        out += diff.layout(patch)
        for file in patch.files:
            if file.also:
                out.append([("yellow", say(lang, "fix.also", keys=", ".join(file.also[:12])))])
    elif not decisions:
        out.append([("green", table["fix.nothing"])])
    if script:
        out += [[("", "")], [("bold", table["fix.environment"])]]
        out += [[("", "   " + printable(line))] for line in script.rstrip().split("\n")]
    return out


def as_json(patch: Patch | None, decisions: Sequence[Decision], applied: str, script: str) -> dict[str, Any]:
    """``doctor.fix/1``."""
    from doctor.patch import diff

    fixes = []
    for decision in decisions:
        one = decision.proposal
        item: dict[str, Any] = {
            "id": one.fix.id, "rule": one.finding.id, "severity": one.finding.severity, "title": one.finding.title,
            "applicability": one.fix.applicability, "text": one.fix.text,
            "edits": [{"file": e.file, "key": e.key, "to": e.new} for e in one.fix.edits],
            "choices": list(one.fix.choices), "state": decision.state,
        }  # fmt: skip
        if decision.why is not None:
            item["why"] = {lang: why_text(lang, decision.why) for lang in ("zh", "en")}
        fixes.append(item)
    files = []
    for file in patch.files if patch is not None else ():
        edits = [{"file": e.file, "key": e.key, "from": e.old, "to": e.new} for e in file.changes]
        files.append({"file": file.path, "edits": edits, "also": list(file.also), "diff": diff.unified(file)})
    return {"schema": "doctor.fix/1", "fixes": fixes, "files": files, "applied": applied or None, "environment": script}


def _emit(args: argparse.Namespace, rows: list[Line]) -> None:
    from doctor.render import text

    text.write(rows, sys.stdout, colour=text.wants_colour(sys.stdout, args.no_color))


def resume(args: argparse.Namespace) -> int:
    """Run ``doctor resume``; returns the exit code: 0 there is something to continue from, 1 there is not."""
    from doctor import resume as assistant
    from doctor.patch import journal
    from doctor.patch.spans import Refused

    if not os.path.isdir(args.run):
        print("doctor: " + say(args.lang, "resume.no_folder", path=args.run), file=sys.stderr)
        return USAGE
    try:
        result = assistant.inspect(args.run, checkpoints=args.checkpoints, logs=args.logs, config=args.config,
                                   ranks=args.ranks)  # fmt: skip
    except Refused as refused:
        return refuse(args.lang, refused)
    applied, code = "", 0
    if args.format == "json":
        if args.apply and result.patch is not None:
            applied, code = _apply(args, journal.Journal(args.journal), result.patch)
        print(json.dumps(assistant.as_json(result, applied), ensure_ascii=False, indent=1))
        return code or int(result.chosen is None)
    _emit(args, assistant.lines(result, args.lang))
    if args.apply and result.patch is not None:
        applied, code = _apply(args, journal.Journal(args.journal), result.patch)
    elif result.patch is not None:
        print(texts(args.lang)["fix.apply_hint"], file=sys.stderr)
    return code or int(result.chosen is None)

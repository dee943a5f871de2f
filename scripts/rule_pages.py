"""Write the pages of the rules, docs/rules/<FAMILY>.md and their index, from the rules base.

usage: python scripts/rule_pages.py [--check] [--rules DIR] [--out DIR]

With ``--check`` nothing is written: exit 1 and the names of the pages that are not what the rules say. Exit 2 when a
rule file cannot be used, for then its page would silently be missing.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)

from doctor.ruleschema import FAMILIES, RuleS, read_folder  # noqa: E402 - the checkout's own package first

NAMES = {
    "ENV": ("Environment", "环境"),
    "VER": ("Versions", "版本配套"),
    "NPU": ("Device and driver", "设备与驱动"),
    "HCCL": ("Collective communication", "集合通信"),
    "CFG": ("Configuration", "配置"),
    "PAR": ("Parallel settings", "并行配置"),
    "CODE": ("Model source and graph compilation", "模型代码与图编译"),
    "API": ("Names and arguments of interfaces", "接口名与参数"),
    "MEM": ("Memory", "内存"),
    "NUM": ("Numerics", "数值"),
    "OPS": ("Operators", "算子"),
    "DATA": ("Data pipeline", "数据处理"),
    "CKPT": ("Checkpoints", "权重与 checkpoint"),
    "PERF": ("Speed", "性能"),
    "RUN": ("Launch and processes", "启动与进程"),
}
SOURCES = {
    "source": ("source code", "源码"),
    "official_doc": ("official document", "官方文档"),
    "measured": ("measured", "实测"),
    "issue": ("public report", "公开问题"),
    "seed": ("claim, unverified", "未经验证的说法"),
}
MARK = "<!-- Written by scripts/rule_pages.py from rules/; change the rule, not this page. -->\n"

_SPECIAL = re.compile(r"[\\`*\[\]<>|~]|(?<![^\W_])_|_(?![^\W_])")
_FIELD = re.compile(r"\{([a-z_][a-z0-9_]*)\??\}")
_URL = re.compile(r"(https?://[^\s)>\]]*[^\s)>\].,;:])")


def md(text: str) -> str:
    """Plain text as Markdown that shows just that; a placeholder ``{rank?}`` becomes ‹rank›."""
    text = _FIELD.sub(r"‹\1›", re.sub(r"\s+", " ", text.replace("[[", "").replace("]]", "")))
    return _SPECIAL.sub(lambda found: "\\" + found[0], text)


def reference(text: str) -> str:
    """A source: addresses become links, the rest stays plain."""
    return "".join(f"<{piece}>" if n % 2 else md(piece) for n, piece in enumerate(_URL.split(text)))


def section(rule: RuleS) -> list[str]:
    """The part of a page that speaks of one rule."""
    kinds = " · ".join("/".join(SOURCES[k]) for k in dict.fromkeys(source.kind for source in rule.provenance))
    lines = [
        f"## {rule.id}", "",
        f"**{md(rule.title.en.strip())}**  ", f"**{md(rule.title.zh.strip())}**", "",
        f"Severity 级别: {rule.severity} · topic 主题: `{rule.topic}` · "
        f"role 角色: {rule.role} · since 版本: {rule.since}  ",
        f"Strength of evidence 证据强度: {rule.confidence} · {rule.status} · {kinds}", "",
    ]  # fmt: skip
    if rule.applies_to:
        ranges = [f"{k} {v if isinstance(v, str) else ' '.join(map(str, v))}" for k, v in rule.applies_to.items()]
        lines += [f"Applies to 适用范围: {md(', '.join(ranges))}", ""]
    if rule.deprecated:
        lines += [f"Deprecated 已废弃: {md(rule.deprecated)}", ""]
    lines += [f"**Cause.** {md(rule.cause.en.strip())}", "", f"**Next.** {md(rule.next.en.strip())}", ""]
    lines += [f"**原因。** {md(rule.cause.zh.strip())}", "", f"**下一步。** {md(rule.next.zh.strip())}", ""]
    for fix in rule.fix:
        lines += [f"**Fix 修复** ({fix.applicability}). {md(fix.en.strip())}  ", md(fix.zh.strip()), ""]
    targets = [f"[{t.id}]({family_of(t.id)}.md#{t.id.lower()})" if t.id else f"`{t.topic}`" for t in rule.explains]
    if targets:
        lines += [f"Explains 可解释: {', '.join(targets)}", ""]
    lines += ["Sources 依据:", ""]
    for source in rule.provenance:
        says = f" ({md(source.says.strip())})" if source.says else ""
        lines.append(f"- {SOURCES[source.kind][0]}: {reference(source.ref)}{says}")
    return [*lines, ""]


def family_of(rule_id: str) -> str:
    """The letters of an id."""
    return rule_id.rstrip("0123456789")


def family_page(family: str, rules: Sequence[RuleS]) -> str:
    """The whole page of one family."""
    en, zh = NAMES[family]
    lines = [f"# {family}: {en} · {zh}", "", MARK]
    lines += ["| id | what is wrong | 问题 | severity | confidence | status |", "| --- | --- | --- | --- | --- | --- |"]
    for rule in rules:
        lines.append(
            f"| [{rule.id}](#{rule.id.lower()}) | {md(rule.title.en)} | {md(rule.title.zh)} | {rule.severity} "
            f"| {rule.confidence} | {rule.status} |"
        )
    lines.append("")
    for rule in rules:
        lines += section(rule)
    return "\n".join(lines).rstrip("\n") + "\n"


def index_page(families: dict[str, list[RuleS]]) -> str:
    """The page that leads to the families."""
    lines = [
        "# The rules · 规则", "", MARK,
        "Every rule with its cause, what to do next, and what it rests on. The same text offline: `doctor explain ID`. "
        "‹name› stands for what the rule reads out of the log.", "",
        "每条规则的原因、下一步与依据。离线查看：`doctor explain ID --lang zh`。‹name› 表示规则从日志中取出的值。", "",
        "Confidence says how sure the cause is once the text was seen: certain, likely, guess. "
        "A preview rule rests on a text that was not yet verified and is never more than a warning.", "",
        "置信度表示看到该文本后对原因的把握：certain 确定、likely 很可能、guess 猜测。"
        "preview 规则的文本尚未核实，级别不高于 warning。", "",
        "| family | subject | 主题 | rules |", "| --- | --- | --- | --- |",
    ]  # fmt: skip
    for family, rules in families.items():
        en, zh = NAMES[family]
        lines.append(f"| [{family}]({family}.md) | {en} | {zh} | {len(rules)} |")
    lines.append(f"| | all | 合计 | {sum(map(len, families.values()))} |")
    return "\n".join(lines) + "\n"


def pages(folder: str) -> tuple[dict[str, str], list[str]]:
    """(text of every page by file name, problems of the rule files). Drafts are left out."""
    found, _, problems = read_folder(folder)
    families: dict[str, list[RuleS]] = {}
    for family in FAMILIES:
        rules = [rule for _, rule in found if family_of(rule.id) == family and rule.status != "draft"]
        if rules:
            families[family] = rules
    out = {f"{family}.md": family_page(family, rules) for family, rules in families.items()}
    return {"README.md": index_page(families), **out}, [str(p) for p in problems]


def stale(out: str, wanted: dict[str, str]) -> list[str]:
    """Names of the pages in ``out`` that are missing, different, or of no family any more."""
    have = {name for name in os.listdir(out) if name.endswith(".md")} if os.path.isdir(out) else set()
    wrong = have - set(wanted)
    for name, text in wanted.items():
        if name in have:
            with open(os.path.join(out, name), encoding="utf-8") as file:
                if file.read() == text:
                    continue
        wrong.add(name)
    return sorted(wrong)


def main(argv: Sequence[str] | None = None) -> int:
    """Run; returns the exit code."""
    parser = argparse.ArgumentParser(description="write the pages of the rules")
    parser.add_argument("--check", action="store_true", help="write nothing, exit 1 if a page is stale")
    parser.add_argument("--rules", default=os.path.join(ROOT, "rules"), metavar="DIR")
    parser.add_argument("--out", default=os.path.join(ROOT, "docs", "rules"), metavar="DIR")
    args = parser.parse_args(argv)
    wanted, problems = pages(args.rules)
    if problems:
        print("\n".join(problems), file=sys.stderr)
        return 2
    wrong = stale(args.out, wanted)
    if args.check:
        for name in wrong:
            print(f"{os.path.join(args.out, name)} is not what the rules say: run python scripts/rule_pages.py")
        return 1 if wrong else 0
    os.makedirs(args.out, exist_ok=True)
    for name in wrong:
        path = os.path.join(args.out, name)
        if name in wanted:
            with open(path, "w", encoding="utf-8") as file:
                file.write(wanted[name])
        else:
            os.unlink(path)
    print(f"{len(wanted)} pages, {len(wrong)} written or removed")
    return 0


if __name__ == "__main__":
    sys.exit(main())

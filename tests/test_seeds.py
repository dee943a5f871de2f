"""Every widespread claim is answered, and map, rules and page agree."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
RULE = "id: XX001\nname: a\nstatus: {status}\nseeds:\n- S0-001\n- X-003\ntests:\n  hit: []\n"


@pytest.fixture(scope="module")
def seeds() -> ModuleType:
    """scripts/seeds.py as a module."""
    spec = importlib.util.spec_from_file_location("seeds", ROOT / "scripts" / "seeds.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def small(seeds: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Two claims and a rule that names one of them."""
    monkeypatch.setattr(seeds, "SERIES", {"S0": 2})
    (tmp_path / "xx").mkdir()
    (tmp_path / "xx" / "XX001.yaml").write_text(RULE.format(status="stable"))
    (tmp_path / "seed_claims.yaml").write_text(
        "claims:\n"
        "- {id: S0-001, kind: static_code, verdict: refuted, says: a, why: b, rules: [XX001], pending: code checks}\n"
        "- {id: S0-002, kind: doc, verdict: holds, says: a, why: b, note: c}\n"
    )
    return tmp_path


def told(seeds: ModuleType, folder: Path) -> list[str]:
    found: list[str] = seeds.troubles(seeds.load(str(folder / "seed_claims.yaml")), seeds.rule_files(str(folder)))
    return found


def test_map_rules_and_page_agree(seeds: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert seeds.main(["--check"]) == 0, capsys.readouterr().out


def test_every_claim_is_there_and_says_what_answers_it(seeds: ModuleType) -> None:
    claims: list[dict[str, Any]] = seeds.load(str(ROOT / "rules" / "seed_claims.yaml"))
    assert len(claims) == len({c["id"] for c in claims}) == 334
    assert all(c.get("rules") or c.get("note") for c in claims)
    assert [c["id"] for c in claims if c.get("pending")] == []


def test_refuted_claims_of_configurations_have_a_rule(seeds: ModuleType) -> None:
    claims = seeds.load(str(ROOT / "rules" / "seed_claims.yaml"))
    wanted = [c["id"] for c in claims if c["kind"] in ("static_config", "hccl") and c["verdict"] == "refuted"]
    assert not [c for c in claims if c["id"] in wanted and not c.get("rules")]


def test_small_map_is_fine(seeds: ModuleType, small: Path) -> None:
    assert told(seeds, small) == []


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("rules: [XX001]", "rules: [XX002]", "S0-001: no rule XX002"),
        ("id: S0-002", "id: S0-001", "S0-001: stands twice"),
        ("id: S0-002", "id: S0-009", "S0-009: no such claim"),
        ("verdict: holds", "verdict: maybe", "S0-002: unknown verdict maybe"),
        ("kind: doc", "kind: tale", "S0-002: unknown kind tale"),
        ("note: c", "rules: []", "S0-002: neither rules nor a note nor pending"),
        ("note: c", "pending: training health", "S0-002: a claim of kind doc is not pending: training health"),
        ("note: c", "rules: [XX001]", "XX001: does not name S0-002 in its seeds"),
        ("rules: [XX001], pending: code checks", "note: c", "S0-001: does not name XX001, which names it"),
        ("says: a, why: b, note", "says: a, note", "S0-002: why is missing"),
        ("note: c", "notes: c, note: d", "S0-002: unknown field notes"),
    ],
)
def test_what_does_not_agree_is_said(seeds: ModuleType, small: Path, old: str, new: str, says: str) -> None:
    path = small / "seed_claims.yaml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    assert says in told(seeds, small)


def test_a_rule_that_is_not_used_answers_nothing(seeds: ModuleType, small: Path) -> None:
    (small / "xx" / "XX001.yaml").write_text(RULE.format(status="draft"))
    assert told(seeds, small) == ["S0-001: XX001 is draft"]


def test_both_sides_learn_from_each_other(seeds: ModuleType, small: Path) -> None:
    path = small / "seed_claims.yaml"
    path.write_text(path.read_text().replace("note: c", "rules: [XX001]").replace("rules: [XX001], pending", "pending"))
    assert seeds.main(["--rules", str(small), "--page", str(small / "page.md")]) == 0
    assert "seeds: [S0-001, S0-002, X-003]\ntests:" in (small / "xx" / "XX001.yaml").read_text()
    assert seeds.load(str(path))[0]["rules"] == ["XX001"]
    assert seeds.load(str(path))[0]["pending"] == "code checks", "a rule over something else is no code check"
    code = RULE.format(status="stable").replace("tests:", "match:\n  code: {call: a}\ntests:")
    (small / "xx" / "XX001.yaml").write_text(code)
    seeds.main(["--rules", str(small), "--page", str(small / "page.md")])
    assert "pending" not in seeds.load(str(path))[0]
    assert seeds.main(["--rules", str(small), "--page", str(small / "page.md"), "--check"]) == 0
    (small / "page.md").write_text("old")
    assert seeds.main(["--rules", str(small), "--page", str(small / "page.md"), "--check"]) == 1


def test_a_map_that_cannot_be_read_ends_with_2(seeds: ModuleType, tmp_path: Path) -> None:
    assert seeds.main(["--rules", str(tmp_path), "--check"]) == 2
    (tmp_path / "seed_claims.yaml").write_text("claims: 3\n")
    assert seeds.main(["--rules", str(tmp_path), "--check"]) == 2
    (tmp_path / "seed_claims.yaml").write_text("claims: [\n")
    assert seeds.main(["--rules", str(tmp_path), "--check"]) == 2

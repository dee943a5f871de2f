"""The page: complete, harmless, readable without the doctor."""

import re
from html.parser import HTMLParser

import pytest

from doctor import engine
from doctor.cli import run
from doctor.model import Diagnosis, Evidence, Finding, InputSeen, Place, Report, Verdict
from doctor.render.html import page, svg

VOID = {"meta"}


class Tags(HTMLParser):
    """Checks that tags are closed in order, and gathers them."""

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.attributes, self.words = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def read(text):
    tags = Tags()
    tags.feed(text)
    tags.close()
    assert not tags.open
    return tags


def report_with(text, name="worker_0.log"):
    evidence = Evidence(name, 7, text, before=("a",), after=("b",))
    finding = Finding("RUN000", Verdict.FAIL, evidence=(evidence,), title={"zh": "题", "en": text})
    diagnosis = Diagnosis(
        "RUN000", "run.failed_unrecognised", "error", "guess", {"zh": "题", "en": text}, {"zh": text, "en": text},
        {"zh": text, "en": text}, Place(rank=0), (0,), (evidence,), 0, consequences=(0,),
    )  # fmt: skip
    return Report({"kind": "inputs", "inputs": [name]}, "error", (diagnosis,), (finding,),
                  (InputSeen(name, ("text",), 10, 1),))  # fmt: skip


@pytest.mark.parametrize("lang", ["zh", "en"])
def test_the_demo_becomes_a_whole_page_with_the_same_diagnoses(tmp_path, lang):
    path = tmp_path / "report.html"
    code = run(["demo", "--format", "html", "--lang", lang, "--output", str(path)])
    text = path.read_text(encoding="utf-8")
    report = engine.diagnose(["fixtures/demo"])
    tags = read(text)
    assert code == 1
    assert tags.seen.count("section") >= len(report.diagnoses)
    words = " ".join(tags.words)
    for diagnosis in report.diagnoses:
        assert diagnosis.rule in words
        assert diagnosis.title[lang][:20] in words


HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(1)> \"quoted\" & 'single' \x1b[31mred\x1b[0m "
    "\u202eevil\u200b ]]> --> </pre></section> http://u:hunter22@h password=hunter22"
)


def test_text_from_a_log_is_shown_and_does_nothing():
    tags = read(page(report_with(HOSTILE, name="<b>.log"), "en"))
    assert not {"script", "img", "iframe", "a", "b.log"} & set(tags.seen)
    assert not [name for name, _ in tags.attributes if name.startswith("on") or name in ("src", "href")]
    words = "".join(tags.words)
    assert "<script>alert(1)</script>" in words
    assert "hunter22" not in words
    assert not re.search("[\x00-\x08\x0b-\x1f\u202e\u200b]", words)


def test_the_page_asks_for_nothing_from_elsewhere():
    text = page(report_with("x"), "zh")
    assert "default-src 'none'" in text
    assert not re.search(r"https?:|url\(|@import|<script|<link", text)


def test_a_plot_breaks_where_the_value_is_no_number_and_marks_the_step():
    points = [[n, 3.0 - n / 10] for n in range(10)] + [[10, None]] + [[n, 2.0] for n in range(11, 15)]
    text = svg(points, [(10, "nan @ 10")], "loss")
    assert text.count("<polyline") == 2
    assert text.count("×") == 1
    assert text.count("stroke-dasharray") == 1
    read(text)


def test_a_plot_of_one_value_is_no_plot():
    assert svg([[1, 2.0]]) == ""
    assert svg([[1, None], [2, None]]) == ""


def test_lanes_show_each_rank_with_its_state():
    lanes = [
        {"rank": n, "source": f"w{n}.log", "host": "", "state": "failed" if n == 3 else "waited", "start": 10.0,
         "first_failure": 50.0 if n == 3 else None, "last": 60.0, "last_step": 5, "waits_for": [], "finding": None}
        for n in range(8)
    ]  # fmt: skip
    text = page(report_with("x")._replace(run={"lanes": lanes}), "en")
    assert text.count("<g><title>") == 8
    read(text)

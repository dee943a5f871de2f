"""doctor.render.safe: nothing from a log steers the terminal, hides text, or gives a secret away."""

import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.render.safe import printable, redact, safe, width

ESCAPES = {
    "colour": "\x1b[31mred\x1b[0m",
    "title by OSC": "\x1b]0;owned\x07",
    "link by OSC": "\x1b]8;;http://evil\x1b\\text\x1b]8;;\x1b\\",
    "clipboard by OSC": "\x1b]52;c;aGk=\x07",
    "C1 CSI": "\x9b31m",
    "C1 OSC": "\x9d0;owned\x9c",
    "clear screen": "\x1b[2J\x1b[H",
    "bell and backspace": "\x07a\x08b",
    "delete": "\x7f",
    "bidi override": "user\u202etxt.exe",
    "bidi isolate": "a\u2066b\u2069c",
    "right-to-left mark": "a\u200fb",
    "arabic letter mark": "a\u061cb",
    "zero width space": "pass\u200bword",
    "zero width joiner": "a\u200db",
    "word joiner": "a\u2060b",
    "byte order mark": "\ufeffa",
    "soft hyphen": "a\xadb",
    "line separator": "a\u2028b",
    "tag characters": "a\U000e0041b",
    "nul": "a\0b",
    "carriage return": "good\rbad",
}


@pytest.mark.parametrize("name", ESCAPES)
def test_controls_are_shown_and_not_obeyed(name):
    shown = printable(ESCAPES[name])
    assert shown != ESCAPES[name]
    assert not [c for c in shown if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp") and c not in "\t\n"]


@given(st.text())
def test_what_is_shown_holds_no_control_or_format_character(text):
    shown = safe(text)
    assert not [c for c in shown if unicodedata.category(c) in ("Cc", "Zl", "Zp") or c == "\x1b"]
    assert printable(shown) == shown


@given(st.text(st.characters(blacklist_categories=("Cc", "Cf", "Cs", "Zl", "Zp", "Co", "Cn"))))
def test_ordinary_text_is_shown_as_it_is(text):
    assert printable(text) == text


def test_chinese_boxes_and_bars_are_shown_as_they_are():
    text = "集合通信超时：100%|██████████| 5/5 ✖ é …"
    assert printable(text) == text


def test_tabs_and_newlines_become_blanks_on_one_line():
    assert safe("a\tb\nc") == "a    b c"


def test_chinese_is_two_columns_wide_and_combining_marks_none():
    assert width("超时ab") == 6
    assert width("e\u0301") == 1


KEY = "0123456789abcdefABCD"
SECRETS = {
    "hugging face token": f"hf_{KEY}xyz",
    "github token": f"ghp_{KEY}0123456789abcdef",
    "github fine-grained token": f"github_pat_{KEY}_{KEY}",
    "gitlab token": f"glpat-{KEY}",
    "openai-like key": f"sk-{KEY}",
    "aws key id": "AKIA0123456789ABCDEF",
    "slack token": "xoxb-123456789012-abcdef",
    "json web token": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.c2lnbmF0dXJlc2lnbmF0dXJl",
}


@pytest.mark.parametrize("name", SECRETS)
def test_tokens_with_a_telling_shape_are_hidden(name):
    shown = redact(f"[ERROR] login with {SECRETS[name]} failed for user a")
    assert SECRETS[name] not in shown and SECRETS[name][-12:] not in shown
    assert shown.startswith("[ERROR] login with ***") and shown.endswith(" failed for user a")


@pytest.mark.parametrize(
    ("line", "secret"),
    [
        ("git clone https://user:s3cr3tpw@gitee.com/a/b.git", "s3cr3tpw"),
        ("redis://:hunter22@10.0.0.1:6379", "hunter22"),
        ("export MYSQL_PASSWORD=correct-horse", "correct-horse"),
        ('{"password": "correct-horse", "user": "a"}', "correct-horse"),
        ("passwd: correct-horse", "correct-horse"),
        ("OBS_SECRET_ACCESS_KEY='wJalrXUtnFEMI'", "wJalrXUtnFEMI"),
        ("AccessKeyId=LTAI5t0123456789", "LTAI5t0123456789"),
        ("WANDB_API_KEY=0123456789abcdef", "0123456789abcdef"),
        ("api-key: 0123456789abcdef", "0123456789abcdef"),
        ("Authorization: Bearer abc.def-ghi", "abc.def-ghi"),
        ("'authorization': 'Basic dXNlcjpwYXNz'", "dXNlcjpwYXNz"),
        ("auth_token=0123456789abcdef", "0123456789abcdef"),
        ("MODELSCOPE_API_TOKEN=0123456789abcdef", "0123456789abcdef"),
        ("GITEE_TOKEN=0123456789abcdef", "0123456789abcdef"),
        ("--token 0123456789abcdef0123456789abcdef", "0123456789abcdef0123456789abcdef"),
        ("GET https://obs.example.com/a?AccessKeyId=abc12345&Signature=zyx98765wvu", "zyx98765wvu"),
        ("GET https://api.example.com/v1?token=0123456789abcdef", "0123456789abcdef"),
    ],
)
def test_values_of_names_that_hold_secrets_are_hidden(line, secret):
    shown = redact(line)
    assert secret not in shown
    assert "***" in shown


@pytest.mark.parametrize(
    "line",
    [
        "max_tokens=5, num_tokens: 4096, tokens_per_sec=1234.5",
        "loading tokenizer: /data/llama/tokenizer.model",
        "pad_token_id=151643, eos_token=</s>, bos_token: <s>, unk_token=<unk>",
        "tokenizer_config.json: token type ids (1, 4096)",
        "KeyError: 'model.layers.0.attention.wq.weight'",
        "key=value, keys: ['a', 'b'], monkey: 12345",
        "password=None, api_key: null",
        "http://192.0.2.1:8080/v1/models",
        "https://www.hiascend.com/document/detail/zh/CANNCommunityEdition/80RC1/index.html",
        "the passage of 12345 tokens",
        "key_value_heads: 8, key_dtype=float16, query_key_norm=True",
        "sk-learn is not installed",
        "PWD=/home/user/project",
        "hccl.authentication: off",
    ],
)
def test_what_is_no_secret_is_left_alone(line):
    assert redact(line) == line


def test_all_secrets_of_a_line_are_hidden_and_the_names_kept():
    shown = redact("password=aaaabbbb api_key=ccccdddd user=eeeeffff")
    assert "aaaabbbb" not in shown and "ccccdddd" not in shown
    assert "password=" in shown and "api_key=" in shown and "user=eeeeffff" in shown


@given(st.text())
def test_redacting_twice_changes_nothing_more(text):
    once = redact(text)
    assert redact(once) == once


@pytest.mark.parametrize(
    "text",
    [
        "a" * 200_000 + "password",
        "password=" * 20_000,
        "https://" * 20_000,
        "eyJ" + "a." * 50_000,
        "x_key" * 20_000,
        "authorization:" + " " * 100_000,
        "-" * 100_000 + "secret",
        "a://" + "b" * 100_000,
    ],
)
def test_redaction_takes_linear_time(text):
    began = time.process_time()
    redact(text)
    assert time.process_time() - began < 2.0

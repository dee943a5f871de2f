"""A pasted npu-smi output is told by what it says, or by the command above it."""

import time
from pathlib import Path

import pytest

from doctor.hosts.base import MemoryHost
from doctor.model import Fact
from doctor.probes import npu_smi
from doctor.probes.npu_table import parse_info
from doctor.probes.pasted_npu import from_text, key_of, parts

SAMPLES = Path(__file__).parents[2] / "fixtures" / "hosts" / "samples"
INFO = "run npu-smi info"


def sample(name):
    return (SAMPLES / f"npu-smi_{name}.txt").read_text()


@pytest.mark.parametrize("name", sorted(path.stem[8:] for path in SAMPLES.glob("npu-smi_info__*.txt")))
def test_every_table_is_an_answer_to_npu_smi_info(name):
    found = from_text(sample(name))
    assert list(found) == [INFO] and found[INFO] == sample(name).rstrip()


# sample, key
ONES = [
    ("-v__any", "run npu-smi -v"),
    ("error__910A__23.0.5__invalid-card-id", f"{INFO} -t health"),
    ("error__any__command-not-found", INFO),
    ("error__any__dcmi-init-8005-with-log-line", INFO),
    ("error__any__dcmi-init-8020-in-use", INFO),
    ("error__any__no-card", INFO),
    ("error__any__permission-denied", INFO),
    ("error__any__root-only", INFO),
    ("error__any__type-not-supported", f"{INFO} -t topo"),
    ("error__container__is-a-directory", INFO),
    ("error__container__libc_sec-missing", INFO),
    ("error__vm-or-container__refused", INFO),
    ("info-l__910B3__server", f"{INFO} -l"),
    ("info-l__A3__two-npus", f"{INFO} -l"),
    ("info-m__310__minid", f"{INFO} -m"),
    ("info-m__950__doc-example", f"{INFO} -m"),
    ("info-m__A3__five-columns", f"{INFO} -m"),
    ("info-t-board-i__910B3__24.1.0__firmware-NOK", f"{INFO} -t board -i 0"),
    ("info-t-common__910B1__with-mcu-block", f"{INFO} -t common -i 1"),
    ("info-t-current-fault-event__950__doc-example", f"{INFO} -t current-fault-event"),
    ("info-t-ecc__910B3__double-bit-errors", f"{INFO} -t ecc -i 2"),
    ("info-t-hccs-bw__910B3", f"{INFO} -t hccs-bw"),
    ("info-t-hccs__910B3__nok-link2", f"{INFO} -t hccs"),
    ("info-t-health__310__old-form", f"{INFO} -t health"),
    ("info-t-health__910A__23.0.5__alarm-three-codes", f"{INFO} -t health"),
    ("info-t-health__950__doc-example", f"{INFO} -t health -i 0 -c 0"),
    ("info-t-memory__910B3", f"{INFO} -t memory -i 0"),
    ("info-t-pcie-err__910B3__errors", f"{INFO} -t pcie-err"),
    ("info-t-phyid-remap__910B3", f"{INFO} -t phyid-remap"),
    ("info-t-power__910B3", f"{INFO} -t power -i 0"),
    ("info-t-proc-mem__910B3__two-processes", f"{INFO} -t proc-mem -i 0"),
    ("info-t-spod-info__910B3__not-supported", f"{INFO} -t spod-info"),
    ("info-t-spod-info__A3__ok", f"{INFO} -t spod-info"),
    ("info-t-temp__910B3", f"{INFO} -t temp -i 0"),
    ("info-t-topo__910A-server__smp-groups", f"{INFO} -t topo"),
    ("info-t-topo__A3__container-2-dies", f"{INFO} -t topo"),
    ("info-t-usages__910B1__23.0.rc2", f"{INFO} -t usages -i 0"),
]


@pytest.mark.parametrize(("name", "key"), ONES)
def test_an_output_without_its_command_is_told_by_its_words(name, key):
    assert list(from_text(sample(name))) == [key]


def test_what_the_doctor_never_asks_is_no_answer():
    assert from_text(sample("set-t-reset__950__doc-example")) == {}
    assert from_text(sample("error__any__unknown-command")) == {}


def test_several_outputs_of_a_session_are_kept_apart_by_their_commands():
    text = (
        "[root@node1 ~]# npu-smi info -t health -i 3 -c 0\n" + sample("info-t-health__910B3__alarm-hbm-ecc")
        + "[root@node1 ~]# npu-smi info\n" + sample("info__910B3__24.1.0__alarm-npu3")
        + "[root@node1 ~]# cat /etc/hccn.conf\naddress_0=192.0.2.1\n"
        + "[root@node1 ~]# /usr/local/sbin/npu-smi info -t ecc -i 2 -c 0\n"
        + sample("info-t-ecc__910B3__double-bit-errors")
    )  # fmt: skip
    found = from_text(text)
    assert list(found) == [f"{INFO} -t health -i 3 -c 0", INFO, f"{INFO} -t ecc -i 2"]
    assert found[INFO] == sample("info__910B3__24.1.0__alarm-npu3").rstrip()
    for part in parts(text):
        assert text.splitlines()[part.line - 1] == part.text.splitlines()[0]


def test_the_same_query_of_chips_that_are_not_named_keeps_both_answers():
    text = sample("info-t-hccs__910B3__ok") + sample("info-t-hccs__910B3__nok-link2")
    facts = {f.name: f for f in npu_smi.read_smi(MemoryHost(from_text(text), absent=True), {})}
    assert isinstance(facts["npu.hccs"], Fact)
    assert [row["health"] for row in facts["npu.hccs"].value] == ["OK", "NOK"]


ALARM = sample("info__910B3__24.1.0__alarm-npu3")


@pytest.mark.parametrize(
    "text",
    [
        "```\n$ npu-smi info\n" + ALARM + "```\nname | value\n",
        "".join("    " + line for line in ALARM.splitlines(True)),
        ALARM.replace("\n", "\r\n"),
        "Every 1.0s: npu-smi info      node1: Mon Nov 3 10:00:00 2025\n\n" + ALARM,
        "# docker exec -it c1 npu-smi info\n" + ALARM,
        "\n".join(" ".join(line.split()) for line in ALARM.splitlines() if not line.startswith("+")),
        ALARM.replace(" ", "\u00a0"),
    ],
    ids=["fence", "indented", "crlf", "watch", "docker", "squeezed", "web page"],
)
def test_tables_as_people_paste_them_are_whole(text):
    table = parse_info(from_text(text)[INFO])
    assert len(table["chips"]) == 8 and [c["label"] for c in table["chips"] if c["health"] != "OK"] == ["3"]


def test_what_a_pipe_left_of_a_table_is_no_answer():
    assert from_text("$ npu-smi info | grep Alarm\n| 3     910B3   | Alarm  | 95.0   41   0 / 0 |\n") == {}


def test_prose_about_a_command_is_no_command():
    assert from_text("npu-smi info shows the health of every card\nuse npu-smi info -t health to see codes\n") == {}


@pytest.mark.parametrize(
    ("words", "key"),
    [
        ("info", INFO),
        ("info -m", f"{INFO} -m"),
        ("info -t topo", f"{INFO} -t topo"),
        ("info -t health -c 1 -i 2", f"{INFO} -t health -i 2 -c 1"),
        ("info -i 2 -t board -c 0", f"{INFO} -t board -i 2"),
        ("info -t health -i x", ""),
        ("info watch -i 0", ""),
        ("info -t", ""),
        ("set -t reset -i 0", ""),
    ],
)
def test_a_command_line_gives_the_key_that_the_probe_asks(words, key):
    assert key_of(words) == key


@pytest.mark.parametrize(
    "text",
    ["a" * 5_000_000, "| npu-smi 1 Version: 1 |\n" * 200_000, "NPU ID : 0\n" * 400_000, ":" * 5_000_000,
     "Health Status : OK\n" * 250_000, "npu-smi info " * 300_000, "# npu-smi info\n" * 300_000],
    ids=["letters", "titles", "ids", "colons", "health", "words", "commands"],
)  # fmt: skip
def test_megabytes_take_seconds_at_most(text):
    began = time.process_time()
    from_text(text)
    assert time.process_time() - began < 8

"""npu-smi output of every known layout gives the values that the sample's source states, and junk gives nothing."""

import json
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.hosts.base import MemoryHost, run_key
from doctor.model import Evidence, Fact, Raw, Unknown
from doctor.probes import npu_queries as queries
from doctor.probes import npu_smi
from doctor.probes.npu_table import is_table, parse_info

SAMPLES = Path(__file__).parents[2] / "fixtures" / "hosts" / "samples"


def sample(name):
    return (SAMPLES / f"npu-smi_{name}.txt").read_text()


TABLES = """
sample                                       layout   chips  not-OK               name         chip  MB           pids
910A__20.2.2.spc001__ok-no-hugepages-column  910-old  3      -                    910A         0     0/32768      0
910A__21.0.2__ok-sparse-npu-ids              910-old  2      -                    910A         4     0/32768      0
910A__21.0.4__ok-hugepages                   910      2      -                    910A         0     1/32768      0
910A__23.0.5__warning-shifted-column         910      2      0:Warning            910A         7     0/32768      0
910A__23.0.rc1.b070__truncated-rows          910      2      0:Warning,1:Warning  910A         0     -            0
910A__23.0.rc1.b070__warning-all-cards       910      4      all:Warning          910A         2     30750/32768  0
910A__23.0.rc3__busy-8p-training             910      8      -                    910A         7     30710/32768  8
910B1__23.0.rc2__ok-idle-8p                  910      8      -                    910B1        0     4175/65536   0
910B3__24.1.0__alarm-npu3                    910      8      3:Alarm              910B3        3     3401/65536   0
910B3__24.1.0__card-lost-7of8                910      7      -                    910B3        5     3401/65536   0
910B3__24.1.0__container-one-of-eight        910      1      -                    910B3        4     3403/65536   0
910B3__24.1.rc1.b030__ok-idle-8p             910      8      -                    910B3        0     3318/65536   0
910B3__25.2.0__critical-npu5-hot             910      8      5:Critical           910B3        5     3401/65536   0
910B3__25.2.0__hbm-full-stale-process        910      8      -                    910B3        1     61880/65536  2
910B3__25.2.0__incomplete-driver-warning     910      2      -                    910B3        0     3401/65536   0
910B3__25.2.0__unknown-npu6-not-started      910      8      6:UNKNOWN            910B3        6     0/0          0
910B3__25.2.1__container-blank-process-name  910      8      -                    910B3        2     41120/65536  1
910B3__25.5.0__first-row-missing-npu6        910      7      -                    910B3        5     3401/65536   0
910B4-1__25.2.0__ok-single                   910      1      -                    910B4-1      0     2836/65536   0
910B4__24.1.1__busy-hbm-no-space             910      2      -                    910B4        0     26838/32768  2
910ProB__24.1.0__ok-idle-8p                  910      8      -                    910ProB      0     18/32768     0
A3-Ascend910__24.1.rc3.7__ok-idle-16die      A3       16     -                    Ascend910    7/1   3189/65536   0
A3-Ascend910__25.2.3__busy-many-processes    A3       16     -                    Ascend910    0/0   53444/65536  14
A3-Ascend910__25.2.3__warning-one-die        A3       4      1/1:Warning          Ascend910    1/1   2886/65536   0
A3-Ascend910__25.3.rc1.b020__ok-one-card     A3       2      -                    Ascend910    0/1   2885/65536   0
A3-Ascend910__26.0.rc2__ok-wide-table        A3       2      -                    Ascend910    0/0   3419/65536   0
950__doc-example__ok-single                  950      1      -                    Ascend950PR  0     4439/86016   0
310P-soc__generic__bus-id-NA                 310P     1      -                    310P1        0     957/10810    0
310P3__22.0.2__ok-narrow                     310P     1      -                    310P3        0     932/21534    0
310P3__22.0.4__ok-npu-id-2144                310P     1      -                    310P3        2144  1807/21527   0
310P3__25.2.0__ok-duo-two-chips              310P     2      -                    310P3        2/1   1412/43693   0
310__21.0.3.1__ok-two-chips                  310      2      -                    310          1/1   2621/8192    0
"""
ROWS = [row.split() for row in TABLES.strip().splitlines()[1:]]
NAMES = [f"info__{row[0]}" for row in ROWS]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_table_gives_its_chips_health_and_processes(row):
    name, layout, chips, ill, model, label, memory, processes = row
    table = parse_info(sample(f"info__{name}"))
    words = {c["label"]: c["health"] for c in table["chips"] if c["health"] != "OK"}
    if ill.startswith("all:"):
        ill = ",".join(f"{c['label']}:{ill[4:]}" for c in table["chips"])
    assert (table["layout"], len(table["chips"]), len(table["processes"])) == (layout, int(chips), int(processes))
    assert words == ({} if ill == "-" else dict(word.split(":") for word in ill.split(",")))
    assert {c["name"] for c in table["chips"]} == {model}
    used = next(c["memory"] for c in table["chips"] if c["label"] == label)
    assert used == (None if memory == "-" else tuple(map(int, memory.split("/"))))
    driver = name.split("__")[1]
    if driver[0].isdigit():
        assert table["driver"] == driver


@pytest.mark.parametrize(
    ("name", "tool", "driver"),
    [
        ("info__910A__20.2.2.spc001__ok-no-hugepages-column", "1.8.21", "20.2.2.spc001"),
        ("info__310P3__22.0.2__ok-narrow", "22.0.0", "22.0.2"),
        ("info__310P3__22.0.4__ok-npu-id-2144", "22.0.2", "22.0.4"),
        ("info__950__doc-example__ok-single", "26.0.0", "26.0.0"),
    ],
)
def test_the_version_of_the_driver_is_the_second_one(name, tool, driver):
    table = parse_info(sample(name))
    assert (table["tool"], table["driver"]) == (tool, driver)


def chip_of(name, label):
    return next(c for c in parse_info(sample(name))["chips"] if c["label"] == label)


# name, chip, field, value: what the list of samples points out
FIELDS = [
    ("info__910A__20.2.2.spc001__ok-no-hugepages-column", "0", "hugepages", None),
    ("info__910A__21.0.4__ok-hugepages", "1", "hugepages", (15, 15)),
    ("info__910A__23.0.rc3__busy-8p-training", "3", "hugepages", (1123, 1123)),
    ("info__910A__23.0.rc1.b070__truncated-rows", "1", "bus", "0000:81:00.0"),
    ("info__910A__23.0.rc1.b070__truncated-rows", "1", "hbm", None),
    ("info__910B1__23.0.rc2__ok-idle-8p", "0", "ddr", (0, 0)),
    ("info__910B3__25.2.0__critical-npu5-hot", "5", "temperature", 104),
    ("info__A3-Ascend910__24.1.rc3.7__ok-idle-16die", "6/1", "phy", 13),
    ("info__A3-Ascend910__24.1.rc3.7__ok-idle-16die", "6/1", "power", None),
    ("info__A3-Ascend910__25.2.3__warning-one-die", "1/1", "phy", 3),
    ("info__A3-Ascend910__25.2.3__busy-many-processes", "0/0", "aicore", 17),
    ("info__310P3__22.0.4__ok-npu-id-2144", "2144", "power", None),
    ("info__310P3__25.2.0__ok-duo-two-chips", "2/0", "bus", "0000:01:00.0"),
    ("info__310P3__25.2.0__ok-duo-two-chips", "2/1", "bus", "0000:01:00.0"),
    ("info__310P3__25.2.0__ok-duo-two-chips", "2/1", "logic", 1),
    ("info__310P-soc__generic__bus-id-NA", "0", "bus", None),
    ("info__310__21.0.3.1__ok-two-chips", "1/0", "hugepages", None),
    ("info__950__doc-example__ok-single", "0", "bus", "0000:91:00.0"),
]


@pytest.mark.parametrize(("name", "label", "field", "value"), FIELDS)
def test_a_chip_has_the_figures_that_are_printed_and_no_others(name, label, field, value):
    assert chip_of(name, label)[field] == value


def test_processes_without_a_name_and_one_pid_on_several_dies_are_kept():
    (one,) = parse_info(sample("info__910B3__25.2.1__container-blank-process-name"))["processes"]
    assert (one["npu"], one["chip"], one["pid"], one["name"], one["memory"]) == (2, 0, 1333001, "", 37709)
    many = parse_info(sample("info__A3-Ascend910__25.2.3__busy-many-processes"))["processes"]
    assert len({p["pid"] for p in many}) < len(many)
    assert {p["name"] for p in many if p["npu"] == 0} == {""}


def test_a_second_row_without_a_first_one_is_no_part_of_the_chip_above():
    table = parse_info(sample("info__910B3__25.5.0__first-row-missing-npu6"))
    ((source, line, text),) = table["unreadable"]
    assert "0000:41:00.0" in text and (source, line) == ("npu-smi info", 25)
    assert chip_of("info__910B3__25.5.0__first-row-missing-npu6", "5")["bus"] == "0000:02:00.0"


def test_the_warning_below_the_tables_is_seen():
    assert parse_info(sample("info__910B3__25.2.0__incomplete-driver-warning"))["warning"][2].startswith(
        "[WARNING]The driver"
    )
    assert parse_info(sample("info__910B3__24.1.0__alarm-npu3"))["warning"] is None


def test_an_invented_table_is_a_table_of_no_known_layout():
    text = sample("info__fabricated__llm-written-example")
    assert is_table(text) and parse_info(text) is None


def test_a_table_that_ends_in_its_header_is_unknown_and_no_layout():
    text = "\n".join(sample(IDLE).splitlines()[:4])
    assert not is_table(text)
    assert facts_of(MemoryHost({INFO: text}, absent=True))["npu.smi"].why == "not_understood"


def test_quoted_and_indented_tables_are_read_too():
    text = "\n".join("> " + line for line in sample("info__910B3__24.1.0__alarm-npu3").splitlines())
    assert len(parse_info(text)["chips"]) == 8


def test_the_fifth_column_of_soft_slicing_is_the_pid_inside():
    text = sample("info__910B4-1__25.2.0__ok-single").replace(
        "| No running processes found in NPU 0",
        "| 0 0 | 4242 | python | 300 | 17 |\n| No running processes found in NPU 0",
    )
    (process,) = parse_info(text)["processes"]
    assert (process["pid"], process["inner_pid"], process["memory"]) == (4242, 17, 300)


# sample, kind, return code, name in it
FAILURES = [
    ("error__910A__23.0.5__invalid-card-id", "bad_id", None, ""),
    ("error__any__command-not-found", "not_found", None, ""),
    ("error__any__dcmi-init-8005-with-log-line", "init", -8005, ""),
    ("error__any__dcmi-init-8005", "init", -8005, ""),
    ("error__any__dcmi-init-8020-in-use", "in_use", -8020, ""),
    ("error__any__no-card", "no_card", None, ""),
    ("error__any__permission-denied", "permission", None, ""),
    ("error__any__root-only", "root_only", None, ""),
    ("error__any__type-not-supported", "not_supported", None, ""),
    ("error__any__unknown-command", "unknown_command", None, ""),
    ("error__container__is-a-directory", "directory", None, ""),
    ("error__container__libc_sec-missing", "library", None, "libc_sec.so"),
    ("error__vm-or-container__refused", "not_here", None, ""),
    ("info-t-spod-info__910B3__not-supported", "not_supported", None, ""),
]


@pytest.mark.parametrize(("name", "kind", "ret", "what"), FAILURES)
def test_a_failure_text_is_known_by_its_kind(name, kind, ret, what):
    found = queries.failure(sample(name))
    assert (found.kind, found.ret, found.what) == (kind, ret, what)


@pytest.mark.parametrize(
    ("text", "kind", "ret"),
    [
        ("npu get board type failed. ret is -8009", "board", -8009),
        ("Failed to execute npu-smi info. ret is -8012.", "failed", -8012),
        ('Failed to query "ecc" info.', "query", None),
        ("Failed to get card number.", "no_card", None),
        ("This command must input card id.", "no_id", None),
        ("bash: /usr/local/bin/npu-smi: No such file or directory", "no_file", None),
        ("bash: npu-smi：未找到命令", "not_found", None),
    ],
)
def test_failure_texts_of_the_source_are_known_too(text, kind, ret):
    found = queries.failure(text)
    assert (found.kind, found.ret) == (kind, ret)


@pytest.mark.parametrize("name", NAMES)
def test_no_table_is_taken_for_a_failure(name):
    assert queries.failure(sample(name)) is None


def test_lists_of_npus():
    assert [n["npu"] for n in queries.parse_list(sample("info-l__910B3__server"))["npus"]] == list(range(8))
    assert {n["chips"] for n in queries.parse_list(sample("info-l__A3__two-npus"))["npus"]} == {2}
    card = queries.parse_list(sample("info-l__310P-card__with-product-name"))
    assert card == {"count": 1, "npus": [{"npu": 5, "chips": 1, "product": "Atlas 300I Pro"}]}
    assert queries.parse_list(sample("info-l__950__doc-example"))["npus"][0]["chips"] is None
    assert queries.parse_version(sample("-v__any")) == "24.1.0"


@pytest.mark.parametrize(
    ("name", "rows", "last"),
    [
        ("info-m__310__minid", 2, (1, 1, 1, None, "MiniD")),
        ("info-m__910A__23.0.5", 8, (7, 0, 7, None, "Ascend 910A")),
        ("info-m__910B3__with-mcu-rows", 8, (7, 0, 7, None, "Ascend 910B3")),
        ("info-m__950__doc-example", 1, (0, 0, None, 0, "Ascend950PR")),
        ("info-m__A3__five-columns", 16, (7, 1, 15, 15, "Ascend910")),
    ],
)
def test_the_map_of_ids_leaves_controllers_out(name, rows, last):
    found = queries.parse_map(sample(name))
    assert len(found) == rows
    assert tuple(found[-1][key] for key in ("npu", "chip", "logic", "phy", "name")) == last


@pytest.mark.parametrize(
    ("name", "word", "codes"),
    [
        ("310__old-form", "OK", []),
        ("910A__23.0.5__ok", "OK", []),
        ("910A__23.0.5__alarm-three-codes", "Alarm", ["A4025021", "8C03A000", "8C084E00"]),
        ("910B3__alarm-hbm-ecc", "Alarm", ["80E18402"]),
        ("910B3__warning-link-down", "Warning", ["81078603"]),
        ("950__doc-example", "OK", []),
        ("sub-query-failed", "Warning", ["8C2FA001"]),
    ],
)
def test_health_gives_the_word_and_every_code(name, word, codes):
    name = f"info-t-health__{name}" if not name.startswith("sub") else "info-t-health__sub-query-failed"
    (row,) = queries.parse_health(sample(name), "npu-smi info -t health -i 3 -c 0", 3, 0)
    assert (row["health"], [c["code"] for c in row["codes"]]) == (word, codes)
    assert row["npu"] == (0 if "950" in name else 3)


def test_each_code_has_its_own_text():
    (row,) = queries.parse_health(sample("info-t-health__910A__23.0.5__alarm-three-codes"), "x")
    assert [c["text"].split(",")[0] for c in row["codes"]] == [
        "ascend_monitor adda heart beat lost error", "node type=process-manager", "node type=adda",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "driver", "firmware", "compatibility", "chip"),
    [
        ("i-c__910A__23.0.5", "", "7.1.0.7.220", "", 0),
        ("i__910A__23.0.5", "23.0.5", "7.1.0.7.220", "OK", None),
        ("i__910B3__24.1.0", "24.1.0", "7.5.0.1.129", "OK", None),
        ("i__910B3__24.1.0__firmware-NOK", "24.1.0", "7.1.0.11.220", "NOK", None),
        ("i__910B3__24.1.0__non-root", "24.1.0", "7.5.0.1.129", "NOT SUPPORT", None),
    ],
)
def test_the_board_gives_driver_firmware_and_their_compatibility(name, driver, firmware, compatibility, chip):
    (row,) = queries.parse_board(sample(f"info-t-board-{name}"), "x")
    assert (row["driver"], row["firmware"], row["compatibility"], row["chip"]) == (
        driver,
        firmware,
        compatibility,
        chip,
    )


def test_the_controllers_block_does_not_overwrite_the_chips_values():
    (row,) = queries.parse_common(sample("info-t-common__910B1__with-mcu-block"), "x")
    assert (row["npu"], row["chip"], row["temperature"], row["current"], row["frequency"]) == (1, 0, 46, 800, 1800)
    (old,) = queries.parse_common(sample("info-t-common__910A"), "x")
    assert (old["cores"], old["frequency"], old["current"], old["power"]) == (30, 900, 900, 71.7)


def test_ecc_counts():
    rows = queries.parse_ecc(sample("info-t-ecc__910A__23.0.5__clean"), "x")
    assert {row["memory"] for row in rows} == {"HBM", "DDR"}
    assert not any(row[key] for row in rows for key in ("single", "double", "isolated"))
    (bad,) = queries.parse_ecc(sample("info-t-ecc__910B3__double-bit-errors"), "x")
    assert (bad["npu"], bad["chip"], bad["double"], bad["isolated"], bad["pending"]) == (2, 0, 3, 61, 3)


def test_blocks_of_two_chips_are_kept_apart_where_ids_end_a_block_and_where_they_begin_it():
    count = "\tHBM Double Bit Error Count : "
    ends = f"\tNPU ID : 4\n\tChip Count : 2\n\n{count}1\n\tChip ID : 0\n{count}2\n\tChip ID : 1\n"
    assert [(r["chip"], r["double"]) for r in queries.parse_ecc(ends, "x")] == [(0, 1), (1, 2)]
    begins = "\tNPU ID : 4\n\tChip ID : 0\n\tAicore Freq(MHZ) : 1\n\tChip ID : 1\n\tAicore Freq(MHZ) : 2\n"
    assert [(r["chip"], r["frequency"]) for r in queries.parse_common(begins, "x")] == [(0, 1), (1, 2)]


def test_figures_processes_and_ids_of_the_other_sub_commands():
    (usages,) = queries.parse_figures(sample("info-t-usages__910A__23.0.5"))
    assert (usages["values"]["HBM Capacity(MB)"], usages["values"]["DDR Usage Rate(%)"]) == (31129, 6)
    (newer,) = queries.parse_figures(sample("info-t-usages__910B1__23.0.rc2"))
    assert (newer["npu"], newer["chip"], newer["values"]["HBM Usage Rate(%)"]) == (0, 0, 4)
    assert queries.parse_figures(sample("info-t-memory__910B3"))[0]["values"]["HBM Temperature(C)"] == 41
    assert queries.parse_figures(sample("info-t-temp__910B3"))[0]["values"]["NPU Temperature(C)"] == 46
    assert queries.parse_figures(sample("info-t-power__910B3"))[0]["values"]["NPU Real-time Power(W)"] == 93.4
    assert queries.parse_proc_mem(sample("info-t-proc-mem__910B3__none")) == []
    assert [p["pid"] for p in queries.parse_proc_mem(sample("info-t-proc-mem__910B3__two-processes"))] == [30110, 30112]
    assert queries.parse_phyid_remap(sample("info-t-phyid-remap__910B3")) == {"phy": 4, "logic": 4, "npu": 4, "chip": 0}
    (fault,) = queries.parse_faults(sample("info-t-current-fault-event__950__doc-example"), "x", 0)
    assert (fault["code"], fault["severity"]) == ("81AF8000", 2)


def test_links():
    (good,) = queries.parse_hccs(sample("info-t-hccs__910B3__ok"), "x", 0, 0)
    assert (good["health"], good["lanes"], good["speed"]) == ("OK", [4] * 7, [224] * 7)
    (bad,) = queries.parse_hccs(sample("info-t-hccs__910B3__nok-link2"), "x", 0, 0)
    assert (bad["health"], bad["errors"].index(5312), bad["retries"][2], bad["first_error_lane"]) == ("NOK", 2, 5312, 2)
    band = queries.parse_hccs_bandwidth(sample("info-t-hccs-bw__910B3"))
    assert len(band) == 8 and band["total"] == (127.75, 127.68)
    (pcie,) = queries.parse_pcie_errors(sample("info-t-pcie-err__910B3__errors"), "x")
    assert list(pcie["counts"].values()) == [0, 7, 3, 0, 19] and pcie["counts"]["Lcrc Error Count"] == 3
    (spod,) = queries.parse_spod(sample("info-t-spod-info__A3__ok"), "x", 0, 1)
    assert (spod["sdid"], spod["size"], spod["pod"], spod["server"]) == (16777216, 384, 0, 4)


@pytest.mark.parametrize(
    ("name", "count", "by", "pair", "affinity"),
    [
        ("910A-server__smp-groups", 8, "npu", ("NPU3", "NPU4", "SYS"), "0-23"),
        ("910B3__24.1.rc1__full-hccs", 8, "npu", ("NPU0", "NPU7", "HCCS"), "144-167"),
        ("910B3__one-pair-not-hccs", 8, "npu", ("NPU2", "NPU6", "SYS"), "144-167"),
        ("950__pairs-ub", 8, "npu", ("NPU0", "NPU1", "UB"), "0-63,128-191"),
        ("A2-box16-or-pcie__pxb-phb", 4, "npu", ("NPU0", "NPU1", "PXB"), "144-167"),
        ("A3__container-2-dies", 2, "phy", ("Phy-ID12", "Phy-ID13", "SIO"), None),
        ("A3__host-16-dies", 16, "phy", ("Phy-ID0", "Phy-ID15", "HCCS_SW"), None),
    ],
)
def test_the_topology_is_a_square_of_words(name, count, by, pair, affinity):
    topo = queries.parse_topo(sample(f"info-t-topo__{name}"))
    a, b, word = pair
    assert (len(topo["names"]), topo["by"], topo["links"][a][b]) == (count, by, word)
    assert topo["affinity"].get(topo["names"][0]) == affinity
    assert all(len(row) == count for row in topo["links"].values())


def test_rows_and_columns_of_network_cards_are_left_out():
    text = "\tNPU0 NPU1 NIC0 CPU Affinity\nNPU0 X HCCS PIX 0-23\nNPU1 HCCS X SYS 0-23\nNIC0 PIX SYS X\n\nLegend:\n"
    topo = queries.parse_topo(text)
    assert topo["names"] == ["NPU0", "NPU1"] and topo["affinity"] == {"NPU0": "0-23", "NPU1": "0-23"}


# ------------------------------------------------------------------ the probe


class Live:
    """A host that is live and counts what it is asked."""

    name, live = "live", True

    def __init__(self, answers, seconds=0.0):
        self.answers, self.seconds, self.asked = answers, seconds, []

    def ask(self, what):
        return Raw(f"ask {what}", "missing")

    def run(self, *argv, limit=10.0):
        key = run_key(argv)
        self.asked.append(key)
        found = self.answers.get(key, "")
        return found._replace(key=key) if isinstance(found, Raw) else Raw(key, "ok", found, "", 0, self.seconds)


def facts_of(host, known=()):
    found = {fact.name: fact for fact in npu_smi.read_smi(host, dict(known))}
    assert set(found) == set(npu_smi.GIVES)
    json.dumps({name: fact.value for name, fact in found.items() if isinstance(fact, Fact)}, ensure_ascii=False)
    return found


PCI = {"npu.pci": Fact("npu.pci", {"count": 8, "devices": [], "family": "A2"}, Evidence("lspci", 0, ""))}
NO_PCI = {"npu.pci": Fact("npu.pci", {"count": 0, "devices": [], "family": ""}, Evidence("lspci", 0, ""))}
INFO = "run npu-smi info"
IDLE = "info__910B3__24.1.rc1.b030__ok-idle-8p"


def test_a_host_without_npu_is_a_state_and_no_gap():
    found = facts_of(MemoryHost({}, absent=True), NO_PCI)
    assert {(f.why, f.applies) for f in found.values()} == {("no_npu", False)}


def test_a_missing_tool_is_a_fact_where_there_are_npus_and_unknown_where_nobody_knows():
    found = facts_of(MemoryHost({}, absent=True), PCI)
    assert found["npu.smi"].value["state"] == "missing"
    assert facts_of(MemoryHost({}, absent=True))["npu.smi"].why == "no_tool"
    assert facts_of(MemoryHost({}))["npu.table"].why == "not_recorded"


def test_asking_ends_with_the_first_call_that_hangs():
    host = Live(
        {
            INFO: sample(IDLE),
            f"{INFO} -t ecc -i 0": Raw("", "timeout", seconds=10.0),
        }
    )
    found = facts_of(host, PCI)
    assert host.asked[-1] == f"{INFO} -t ecc -i 0"
    assert found["npu.ecc"].why == "timeout" and found["npu.common"].why == "timeout"
    assert isinstance(found["npu.table"], Fact)


def test_nothing_more_is_asked_when_the_driver_cannot_be_reached():
    host = Live({INFO: Raw("", "ok", sample("error__any__dcmi-init-8005"), code=187)})
    found = facts_of(host, PCI)
    assert host.asked == [INFO]
    assert found["npu.smi"].value["problem"]["ret"] == -8005
    assert isinstance(found["npu.table"], Unknown) and found["npu.table"].why == "npu_smi_failed"


@pytest.mark.parametrize("name", [IDLE, "info__A3-Ascend910__24.1.rc3.7__ok-idle-16die"])
def test_the_number_of_calls_is_bounded_and_one_product_is_asked_once_what_it_lacks(name):
    host = Live({INFO: sample(name)})
    facts_of(host, PCI)
    assert len(host.asked) <= npu_smi.CALLS
    no = "This device does not support querying hccs.\n"
    host = Live({INFO: sample(name), f"{INFO} -t hccs -i 0 -c 0": no})
    assert facts_of(host, PCI)["npu.hccs"].applies is False
    assert [key for key in host.asked if "hccs" in key] == [f"{INFO} -t hccs -i 0 -c 0"]


def test_a_slow_tool_is_left_after_the_deadline():
    host = Live({INFO: sample(IDLE)}, seconds=9.0)
    found = facts_of(host, PCI)
    assert len(host.asked) == 7
    assert found["npu.common"].why == "not_asked"


def test_only_ill_chips_are_asked_for_codes():
    host = Live(
        {
            INFO: sample("info__910B3__24.1.0__alarm-npu3"),
            f"{INFO} -t health -i 3 -c 0": sample("info-t-health__910B3__alarm-hbm-ecc"),
        }
    )
    found = facts_of(host, PCI)
    assert [key for key in host.asked if "health" in key] == [f"{INFO} -t health -i 3 -c 0"]
    (row,) = found["npu.health"].value
    assert (row["label"], row["device"], row["codes"][0]["code"]) == ("3", 3, "80E18402")
    well = facts_of(Live({INFO: sample(IDLE)}), PCI)
    assert well["npu.health"].value == []


def test_a_table_cut_short_by_a_signal_is_no_count():
    text = sample(IDLE)[:2000]
    found = facts_of(MemoryHost({INFO: Raw(INFO, "killed", text, code=-9)}, absent=True), PCI)
    assert found["npu.smi"].value["state"] == "failed" and found["npu.smi"].value["problem"]["kind"] == "crashed"


def test_chips_that_other_lists_have_are_named():
    answers = {INFO: sample("info__910B3__24.1.0__card-lost-7of8"), f"{INFO} -l": sample("info-l__910B3__server")}
    expected = facts_of(MemoryHost(answers, absent=True))["npu.expected"].value
    assert (expected["count"], expected["by"], expected["table"], expected["missing"]) == (8, "list", 7, ["4"])
    nodes = Fact("npu.nodes", {"devices": [{"number": n, "path": f"/dev/davinci{n}"} for n in range(8)]})
    expected = facts_of(MemoryHost({INFO: answers[INFO]}, absent=True), {"npu.nodes": nodes})["npu.expected"].value
    assert (expected["count"], expected["by"], expected["missing"]) == (8, "nodes", ["4"])


def test_the_number_that_the_user_says_counts_where_nothing_shows_the_lost_chip():
    host = MemoryHost(
        {INFO: sample("info__910B3__24.1.0__card-lost-7of8"), "ask expected": '{"devices": 8}'}, absent=True
    )
    expected = facts_of(host)["npu.expected"].value
    assert (expected["count"], expected["by"], expected["table"]) == (8, "said", 7)


def test_texts_without_device_files_are_no_proof_of_a_host_without_npu():
    nodes = {"npu.nodes": Fact("npu.nodes", {"devices": []})}
    answers = {f"{INFO} -t health": sample("info-t-health__910B3__alarm-hbm-ecc")}
    assert isinstance(facts_of(MemoryHost(answers, absent=True), nodes)["npu.health"], Fact)
    missing = Live({INFO: Raw("", "missing")})
    assert facts_of(missing, nodes)["npu.smi"].applies is False


def test_a_container_is_measured_by_its_own_device_files():
    inside = Fact("host.container", {"inside": True})
    nodes = Fact("npu.nodes", {"devices": [{"number": 4, "path": "/dev/davinci4"}]})
    host = MemoryHost({INFO: sample("info__910B3__24.1.0__container-one-of-eight")}, absent=True)
    expected = facts_of(host, {**PCI, "host.container": inside, "npu.nodes": nodes})["npu.expected"].value
    assert (expected["count"], expected["table"], expected["missing"]) == (1, 1, [])


def test_evidence_points_at_the_command_and_its_line():
    found = facts_of(MemoryHost({INFO: sample("info__910B3__24.1.0__alarm-npu3")}, absent=True))
    chip = found["npu.table"].value[3]
    assert chip["seen"][:2] == ("npu-smi info", 16) and "Alarm" in chip["seen"][2]


# ------------------------------------------------------------------ junk

LINES = st.text(alphabet="|+-=:/ \t0123456789abNPUXOKWarning.\n", max_size=400)


@settings(max_examples=150, deadline=None)
@given(st.one_of(LINES, st.text(max_size=300)), st.integers(0, 4000))
def test_junk_and_cut_texts_raise_nothing(text, cut):
    whole = sample("info__A3-Ascend910__25.2.3__busy-many-processes")
    for one in (text, whole[:cut] + text, text + whole[cut:]):
        keys = ("", " -m", " -l", " -t topo", " -t health", " -t ecc", " -t hccs", " -t spod-info", " -t common")
        facts_of(MemoryHost({f"{INFO}{key}": one for key in keys}, absent=True))
        queries.parse_figures(one)
        queries.parse_proc_mem(one)
        queries.parse_hccs_bandwidth(one)
        queries.parse_phyid_remap(one)


@pytest.mark.parametrize(
    "text",
    ["|" * 5_000_000, "| npu-smi 1 Version: 1 |\n" + "| 1 1 | OK | 1/" * 350_000, "1" * 5_000_000, ": :\n" * 1_250_000,
     "| npu-smi 1 Version: 1 |\n| a | Bus-Id | b |\n" + "| 0 910 | OK | 1 2 |\n| 0 | NA | 0 1 / 2 |\n" * 100_000],
    ids=["bars", "one row", "digits", "colons", "chips"],
)  # fmt: skip
def test_five_megabytes_of_junk_take_seconds_at_most(text):
    began = time.process_time()
    parse_info(text)
    queries.parse_blocks(text)
    queries.parse_topo(text)
    queries.parse_map(text)
    queries.failure(text)
    assert time.process_time() - began < 8

"""What is said of the NPUs: each case fails, passes and is unknown where it should be."""

from pathlib import Path

import pytest

from doctor.checks.environment import npu, npu_codes, npu_links, npu_memory
from doctor.hosts.base import MemoryHost
from doctor.model import Answer, Evidence, Fact, Raw, Unknown, Verdict
from doctor.probes import npu_smi

SAMPLES = Path(__file__).parents[3] / "fixtures" / "hosts" / "samples"
INFO = "run npu-smi info"
IDLE = "info__910B3__24.1.rc1.b030__ok-idle-8p"
A3 = "info__A3-Ascend910__24.1.rc3.7__ok-idle-16die"
NOT = Unknown("x", "not_recorded")


def sample(name):
    return (SAMPLES / f"npu-smi_{name}.txt").read_text()


def facts(answers, **known):
    """The facts of a host that answers so; values that begin with info or error name samples."""
    raws = {}
    for rest, value in answers.items():
        key = f"{INFO}{rest}"
        named = isinstance(value, str) and value.startswith(("info", "error"))
        raws[key] = value._replace(key=key) if isinstance(value, Raw) else sample(value) if named else value
    given = {name.replace("_", ".", 1): fact for name, fact in known.items()}
    return {fact.name: fact for fact in npu_smi.read_smi(MemoryHost(raws, absent=True), given)}


def said(answers):
    """(verdict, args) of one or several answers."""
    rows = [answers] if isinstance(answers, Answer) else answers
    return [(row.verdict.value, row.args) for row in rows]


def verdict(answers):
    rows = [answers] if isinstance(answers, Answer) else answers
    return {row.verdict for row in rows}


FAIL, PASS, UNKNOWN, NA = {Verdict.FAIL}, {Verdict.PASS}, {Verdict.UNKNOWN}, {Verdict.NOT_APPLICABLE}

TOOL_CHECKS = [
    npu.tool_answers, npu.driver_reachable, npu.held_elsewhere, npu.driver_libraries, npu.tool_is_file,
    npu.tool_allowed, npu.tool_found, npu.tool_in_time,
]  # fmt: skip


@pytest.mark.parametrize(
    ("raw", "check"),
    [
        (Raw("", "ok", "npu get board type failed. ret is -8009", code=183), npu.tool_answers),
        (Raw("", "ok", "dcmi module initialize failed. ret is -8012", code=180), npu.tool_answers),
        (Raw("", "ok", "", code=1), npu.tool_answers),
        (Raw("", "ok", "Segmentation fault", code=139), npu.tool_answers),
        (Raw("", "killed", "", code=-11), npu.tool_answers),
        ("error__any__dcmi-init-8005", npu.driver_reachable),
        ("error__any__dcmi-init-8020-in-use", npu.held_elsewhere),
        ("error__container__libc_sec-missing", npu.driver_libraries),
        ("error__container__is-a-directory", npu.tool_is_file),
        ("error__any__permission-denied", npu.tool_allowed),
        (Raw("", "denied", err="npu-smi: Permission denied", code=126), npu.tool_allowed),
        ("error__any__command-not-found", npu.tool_found),
        (Raw("", "timeout", seconds=30.0), npu.tool_in_time),
    ],
)
def test_each_way_to_fail_is_one_rule_and_no_other(raw, check):
    found = facts({"": raw})
    failing = [one for one in TOOL_CHECKS if verdict(one(found["npu.smi"])) == FAIL]
    assert failing == [check]
    assert all(verdict(one(facts({"": IDLE})["npu.smi"])) == PASS for one in TOOL_CHECKS)


def test_a_refusal_is_no_failure_of_the_machine():
    root = npu.tool_answers(facts({"": "error__any__root-only"})["npu.smi"])
    assert (root.verdict, root.why) == (Verdict.UNKNOWN, "needs_root")
    host = npu.tool_answers(facts({"": "error__vm-or-container__refused"})["npu.smi"])
    assert (host.verdict, host.why) == (Verdict.UNKNOWN, "in_container")


def test_a_sub_command_that_hangs_is_named():
    found = facts({"": IDLE, " -t ecc -i 0": Raw("", "timeout", seconds=10.0)})
    (row,) = said(npu.tool_in_time(found["npu.smi"]))
    assert row == ("fail", {"seconds": "10", "command": "npu-smi info -t ecc -i 0", "device": "0", "npu": 0, "chip": 0})


def test_queries_that_fail_count_once_for_each_chip():
    no = 'Failed to query "ecc" info.\n'
    answers = {"": IDLE, " -t ecc -i 2": no, " -t common -i 2": no.replace("ecc", "common")}
    found = facts(answers)
    assert [args["device"] for _, args in said(npu.queries_answered(found["npu.smi"]))] == ["2"]
    assert verdict(npu.queries_answered(facts({"": IDLE})["npu.smi"])) == PASS
    found = facts({" -t health": "error__910A__23.0.5__invalid-card-id"})
    assert verdict(npu.card_known(found["npu.smi"])) == FAIL


def test_layout_and_driver_warning():
    invented = facts({"": "info__fabricated__llm-written-example"})
    assert verdict(npu.layout_known(invented["npu.smi"])) == FAIL
    assert isinstance(invented["npu.table"], Unknown) and invented["npu.table"].why == "not_understood"
    assert verdict(npu.layout_known(facts({"": A3})["npu.smi"])) == PASS
    assert (
        verdict(npu.driver_complete(facts({"": "info__910B3__25.2.0__incomplete-driver-warning"})["npu.smi"])) == FAIL
    )
    assert verdict(npu.driver_complete(facts({"": IDLE})["npu.smi"])) == PASS


# ------------------------------------------------------------------ there


def pci(count):
    return Fact("npu.pci", {"count": count, "devices": [], "family": "A2"}, Evidence("lspci", 0, ""))


def test_a_driver_without_a_device_fails_and_a_host_without_both_has_no_npu():
    files = Fact("npu.driver_files", {"info": {"UserName": "HwHiAiUser"}, "files": {}}, Evidence("info", 0, ""))
    none = Fact("npu.driver_files", {"info": None, "files": {"version": None}}, None)
    inside = Fact("host.container", {"inside": True})
    assert verdict(npu.present(pci(0), files, NOT, NOT)) == FAIL
    assert verdict(npu.present(pci(0), none, NOT, NOT)) == NA
    assert verdict(npu.present(pci(0), files, NOT, inside)) == NA
    assert verdict(npu.present(pci(8), files, NOT, NOT)) == PASS


def count(found, **known):
    return npu.count(found["npu.table"], found["npu.expected"], found["npu.smi"], known.get("pci", NOT),
                     known.get("container", NOT))  # fmt: skip


def test_a_chip_that_another_list_has_is_missing_for_certain():
    lost = facts({"": "info__910B3__24.1.0__card-lost-7of8"}, npu_pci=pci(8))
    answer = count(lost, pci=pci(8))
    assert (answer.verdict, answer.confidence, answer.args["expected"], answer.args["shown"]) == (
        Verdict.FAIL,
        "certain",
        8,
        7,
    )
    assert verdict(count(facts({"": IDLE}, npu_pci=pci(8)))) == PASS
    assert verdict(count(facts({}))) == UNKNOWN


def test_a_gap_in_the_ids_is_a_guess_and_only_outside_of_containers():
    lost = facts({"": "info__910B3__24.1.0__card-lost-7of8"})
    answer = count(lost)
    assert (answer.severity, answer.confidence, answer.args["missing"]) == ("warning", "guess", "4")
    assert verdict(count(lost, container=Fact("host.container", {"inside": True}))) == PASS


@pytest.mark.parametrize(
    "name",
    ["info__910A__21.0.2__ok-sparse-npu-ids", "info__910B3__24.1.0__container-one-of-eight", A3, IDLE,
     "info__310P3__25.2.0__ok-duo-two-chips", "info__A3-Ascend910__25.2.3__warning-one-die",
     "info__910A__23.0.5__warning-shifted-column", "info__910B3__25.5.0__first-row-missing-npu6"],
)  # fmt: skip
def test_few_or_sparse_ids_are_no_loss(name):
    assert verdict(count(facts({"": name}))) == PASS


def test_half_a_table_is_no_count():
    cut = Raw("", "killed", sample(IDLE)[:2000], code=-9)
    assert verdict(count(facts({"": cut}, npu_pci=pci(8)))) == UNKNOWN


def test_no_card_is_a_loss_only_where_the_bus_has_some():
    found = facts({"": "error__any__no-card"}, npu_pci=pci(8))
    assert count(found, pci=pci(8)).args == {"shown": 0, "expected": 8, "by": "PCI"}
    assert verdict(count(facts({"": "error__any__no-card"}, npu_pci=pci(0)), pci=pci(0))) == NA


def test_a_chip_that_cannot_be_read_is_told_by_its_bus():
    found = facts({"": "info__910B3__25.5.0__first-row-missing-npu6", " -l": "info-l__910B3__server"})
    assert said(npu.readable(found["npu.smi"], found["npu.expected"])) == [
        ("fail", {"device": "6", "bus": "0000:41:00.0"})
    ]
    assert verdict(npu.readable(facts({"": IDLE})["npu.smi"], NOT)) == PASS


# ------------------------------------------------------------------ well


@pytest.mark.parametrize(
    ("name", "device", "word", "severity"),
    [
        ("info__910B3__24.1.0__alarm-npu3", "3", "Alarm", "error"),
        ("info__910B3__25.2.0__critical-npu5-hot", "5", "Critical", "error"),
        ("info__910B3__25.2.0__unknown-npu6-not-started", "6", "UNKNOWN", "error"),
        ("info__910A__23.0.5__warning-shifted-column", "0", "Warning", "warning"),
        ("info__A3-Ascend910__25.2.3__warning-one-die", "1/1", "Warning", "warning"),
    ],
)
def test_only_ok_is_well(name, device, word, severity):
    found = facts({"": name})
    (answer,) = npu.health(found["npu.table"], found["npu.health"])
    assert (answer.args["device"], answer.args["health"], answer.severity) == (device, word, severity)
    assert answer.evidence[0].source == "npu-smi info" and word in answer.evidence[0].text


def test_the_place_of_a_die_is_its_physical_id():
    found = facts({"": "info__A3-Ascend910__25.2.3__warning-one-die"})
    (answer,) = npu.health(found["npu.table"], found["npu.health"])
    assert answer.place.device == 3


def test_health_of_a_paste_without_a_table_and_of_nothing():
    found = facts({" -t health": "info-t-health__910B3__alarm-hbm-ecc"})
    (answer,) = npu.health(found["npu.table"], found["npu.health"])
    assert answer.args == {"health": "Alarm", "codes": "80E18402", "npu": "<NPU ID>", "chip": "<Chip ID>"}
    assert verdict(npu.health(NOT, NOT)) == UNKNOWN
    assert verdict(npu.health(Unknown("x", "no_npu", applies=False), NOT)) == NA
    odd = facts({"": sample(IDLE).replace("| OK   ", "| Normal")})
    assert verdict(npu.health(odd["npu.table"], odd["npu.health"])) == UNKNOWN


def test_the_class_of_a_code_gives_its_severity():
    found = facts({" -t health": "info-t-health__910A__23.0.5__alarm-three-codes"})
    rows = npu.fault_codes(found["npu.health"])
    assert [(r.args["code"], r.args["class"], r.severity) for r in rows] == [
        ("A4025021", "NotHandleFault", "advice"), ("8C03A000", "RestartNPU", "error"),
        ("8C084E00", "FreeRestartNPU", "error"),
    ]  # fmt: skip
    unlisted = facts({" -t health": "\tHealth Status : Alarm\n\tError Code : 80FFFFFF\n"})
    (row,) = npu.fault_codes(unlisted["npu.health"])
    assert row.args["class"] == "unlisted" and row.severity == "warning"
    assert verdict(npu.fault_codes(facts({" -t health": "info-t-health__910A__23.0.5__ok"})["npu.health"])) == PASS


def test_classes_are_those_of_the_catalogue():
    from doctor import codes

    catalogue = codes.load(str(Path(__file__).parents[3] / "rules" / "codes"))
    named = {
        c.code[2:]: c.source.rpartition("class ")[2].split()[0] for c in catalogue.values() if "class " in c.source
    }
    assert named == npu_codes.CLASS_OF


def test_ecc_is_an_error_at_the_limit_a_warning_below_and_history_is_nothing():
    def judged(text):
        return npu_memory.ecc(facts({" -t ecc": text})["npu.ecc"])

    (full,) = judged("info-t-ecc__910B3__double-bit-errors")
    assert (full.severity, full.args["total"], full.args["device"]) == ("error", 64, "2")
    block = "\tNPU ID : 1\n\tHBM Double Bit Error Count : {}\n\tHBM Double Bit Isolated Pages Count : {}\n"
    (some,) = judged(block.format(1, 2))
    assert some.severity == "warning"
    assert verdict(judged(block.format(0, 63))) == PASS
    assert verdict(judged(block.format(0, 64))) == FAIL
    assert verdict(judged("info-t-ecc__910A__23.0.5__clean")) == PASS


def held(name):
    found = facts({"": name})
    rows = npu_memory.held(found["npu.table"], found["npu.processes"])
    return [] if isinstance(rows, Answer) else [(r.args["device"], r.severity, r.args.get("pids", "")) for r in rows]


def test_memory_held_is_a_warning_when_idle_and_advice_when_at_work():
    stale = "info__910B3__25.2.0__hbm-full-stale-process"
    assert held(stale) == [("0", None, "77101 (python3.11)"), ("1", None, "77102 (python3.11)")]
    assert {severity for _, severity, _ in held("info__910A__23.0.rc3__busy-8p-training")} == {"advice"}
    assert {severity for _, severity, _ in held("info__A3-Ascend910__25.2.3__busy-many-processes")} == {"advice"}
    assert held("info__910A__23.0.rc1.b070__warning-all-cards") == [("2", None, "")]
    for idle in (IDLE, A3, "info__910ProB__24.1.0__ok-idle-8p", "info__310P3__22.0.2__ok-narrow"):
        assert held(idle) == []


def test_mixed_chips_and_figures_that_are_all_zero():
    mixed = facts({"": sample(IDLE).replace("7     910B3 ", "7     910B4 ")})
    assert said(npu.alike(mixed["npu.table"], NOT)) == [("fail", {"what": "name", "values": "910B3, 910B4"})]
    assert verdict(npu.alike(facts({"": IDLE})["npu.table"], NOT)) == PASS
    assert verdict(npu.figures_there(facts({"": IDLE})["npu.table"])) == PASS


def test_heat_and_clock():
    hot = facts({"": "info__910B3__25.2.0__critical-npu5-hot"})
    assert [args["device"] for _, args in said(npu.temperature(hot["npu.table"]))] == ["5"]
    assert verdict(npu.temperature(facts({"": IDLE})["npu.table"])) == PASS
    assert verdict(npu.temperature(facts({"": "info__910A__23.0.rc1.b070__truncated-rows"})["npu.table"])) == UNKNOWN
    assert verdict(npu.frequency(facts({" -t common": "info-t-common__910B1__with-mcu-block"})["npu.common"])) == PASS


# ------------------------------------------------------------------ linked


@pytest.mark.parametrize(
    "name",
    ["910A-server__smp-groups", "910B3__24.1.rc1__full-hccs", "950__pairs-ub", "A2-box16-or-pcie__pxb-phb",
     "A3__container-2-dies", "A3__host-16-dies"],
)  # fmt: skip
def test_healthy_pictures_pass(name):
    assert verdict(npu_links.topology(facts({" -t topo": f"info-t-topo__{name}"})["npu.topo"])) == PASS


def test_odd_pairs_are_named_and_a_picture_of_nothing_is_unknown():
    text = sample("info-t-topo__910B3__one-pair-not-hccs")
    answer = npu_links.topology(facts({" -t topo": text})["npu.topo"])
    assert answer.args == {"pairs": "NPU2–NPU6 SYS", "number": 1, "usual": "HCCS"}
    lopsided = sample("info-t-topo__910B3__24.1.rc1__full-hccs").replace(
        "NPU5       HCCS       HCCS", "NPU5       SYS        HCCS"
    )
    assert npu_links.topology(facts({" -t topo": lopsided})["npu.topo"]).args["number"] == 1
    mixture = (
        "\tNPU0 NPU1 NPU2 NPU3\nNPU0 X HCCS SYS UB\nNPU1 HCCS X SIO NA\nNPU2 SYS SIO X HCCS_SW\nNPU3 UB NA HCCS_SW X\n"
    )
    assert verdict(npu_links.topology(facts({" -t topo": mixture})["npu.topo"])) == UNKNOWN


def test_hccs_pcie_and_super_pod():
    (bad,) = npu_links.hccs(facts({" -t hccs": "info-t-hccs__910B3__nok-link2"})["npu.hccs"])
    assert (bad.args["health"], bad.args["links"]) == ("NOK", "2")
    assert verdict(npu_links.hccs(facts({" -t hccs": "info-t-hccs__910B3__ok"})["npu.hccs"])) == PASS
    (counts,) = npu_links.pcie(facts({" -t pcie-err": "info-t-pcie-err__910B3__errors"})["npu.pcie_err"])
    assert counts.args["counts"] == "RX Error 7, Lcrc Error 3"
    spod = "\tSDID : {}\n\tSuper Pod Size : 384\n\tSuper Pod ID : {}\n\tServer Index : 4\n"
    keys = (" -t spod-info -i 0 -c 0", " -t spod-info -i 0 -c 1")

    def pod(*values):
        return npu_links.super_pod(facts({"": A3} | dict(zip(keys, values, strict=False)))["npu.spod"])

    assert verdict(pod(spod.format(1, 0), spod.format(2, 0))) == PASS
    assert [args["what"] for _, args in said(pod(spod.format(1, 0), spod.format(2, 1)))] == ["pod"]
    assert [args["what"] for _, args in said(pod(spod.format(1, 0), spod.format(1, 0)))] == ["SDID"]
    assert verdict(pod()) == UNKNOWN
    assert verdict(npu_links.super_pod(facts({"": IDLE})["npu.spod"])) == NA

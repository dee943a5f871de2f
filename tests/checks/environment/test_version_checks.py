"""Every case of the version chain as fail, pass and unknown (or not applicable), through its rule."""

import pytest

from doctor import checkup
from doctor.hosts import compose
from doctor.hosts.base import MemoryHost
from doctor.rulebase import load

BASE = load()
SPECS = {spec.rule.id: spec for spec in checkup.specs(BASE)}
ENV = {"HOME": "/root", "PATH": "/usr/bin"}
LATEST = "/usr/local/Ascend/ascend-toolkit/latest"
ROOT = "/usr/local/Ascend/ascend-toolkit/8.2.RC1"
DRIVER = "file /usr/local/Ascend/driver/version.info"
FIRMWARE = "file /usr/local/Ascend/firmware/version.info"
NNAL = "file /usr/local/Ascend/nnal/atb/latest/version.info"
IDLE = "sample:npu-smi_info__910B3__24.1.rc1.b030__ok-idle-8p.txt"
NONE = {"state": "not_recorded"}
HANGS = {"run npu-smi info": {"state": "timeout"}} | {
    f"run npu-smi info -t board -i {n}{chip}": NONE for n in range(8) for chip in ("", " -c 0")
}
NOT_READ = {"ask python": {"state": "timeout"}}
NINE = "file /usr/local/Ascend/cann-9.0.0/share/info"
SHARED = "look /usr/local/Ascend/cann-9.0.0/share/info/*"
OPS = ("ops_math", "ops_nn", "ops_cv", "ops_transformer")
CPU = {"base": "cpu"}
A2 = {"base": "a2-8p"}
A3 = {"base": "a3-16d"}


def python(version="3.11.4", mindspore="2.7.0", own=None, packages=None, **more):
    """What a training Python answers."""
    tag = "cp" + "".join(version.split(".")[:2])
    found = {
        "state": "ok", "version": version, "tag": tag, "machine": "aarch64", "platform": "linux",
        "executable": "/ms/python", "libc": ["glibc", "2.34"], "packages": {}, "again": [],
        "imports": {"te": f"{LATEST}/python/site-packages/te"},
        "leftovers": [], "gcc": {"path": "/usr/bin/gcc", "version": "10.3.1"},
        "libstdcxx": {"path": "/lib/x", "glibcxx": "3.4.30"},
    }  # fmt: skip
    if mindspore:
        found["packages"]["mindspore"] = {"version": mindspore, "requires": []}
        found["mindspore"] = {
            "dir": "/ms/mindspore", "version": mindspore, "ascend": ["libmindspore_ascend.so.2"], "built_with": {},
            "elf": {"file": f"_c_expression.cpython-{tag[2:]}-aarch64-linux-gnu.so", "machine": "aarch64"},
            **(own or {}),
        }  # fmt: skip
    for name, one in (packages or {}).items():
        found["packages"][name] = {"version": one, "requires": []} if isinstance(one, str) else one
    return {"ask python": {**found, **more}}


def te(path, version=""):
    return python(te={"dir": path, "real": path, "version": version})


CASES = [
    # cann_not_sourced
    ("VER501", {**A2, "ask env": ENV}, "fail error"),
    ("VER501", {**A2, "ask env": ENV, **python(mindspore="2.2.14")}, "fail advice"),
    ("VER501", A2, "pass"),
    ("VER501", {**A2, "ask env": NONE}, "unknown"),
    ("VER501", CPU, "not_applicable"),
    # cann_absent
    ("VER502", {"run npu-smi info": IDLE, "ask env": ENV}, "fail error"),
    ("VER502", A2, "pass"),
    ("VER502", None, "unknown"),
    ("VER502", CPU, "not_applicable"),
    # cann_env_stale
    ("VER503", {**A2, "ask env": {**ENV, "ASCEND_HOME_PATH": "/opt/gone"}}, "fail error"),
    ("VER503", {**A2, f"file {ROOT}/compiler/version.info": None}, "fail error"),
    ("VER503", A2, "pass"),
    ("VER503", {**A2, "ask env": NONE}, "unknown"),
    ("VER503", {**A2, "ask env": ENV}, "not_applicable"),
    # cann_outside_list
    ("VER504", {**A2, **python(mindspore="2.7.2")}, "fail warning"),
    ("VER504", {**A2, **python(mindspore="2.4.0")}, "fail advice"),
    ("VER504", A2, "pass"),
    ("VER504", {**A2, **python(mindspore="9.9.9")}, "unknown"),
    ("VER504", {**A2, **python(mindspore="")}, "not_applicable"),
    # cann_too_new_layout
    ("VER505", {"base": "ver-cann-8.5-with-mindspore-2.7.0"}, "fail error"),
    ("VER505", A2, "pass"),
    ("VER505", {**A2, f"look {LATEST}/*": NONE, f"look {LATEST}/opp_kernel": NONE,
                f"file {ROOT}/opp_kernel/version.info": None}, "unknown"),
    ("VER505", {**A2, **python(mindspore="2.9.0")}, "not_applicable"),
    # ops_missing
    ("VER506", {"base": "ver-kernels-missing"}, "fail error"),
    ("VER506", {**A2, f"file {ROOT}/opp_kernel/version.info": "version_dir=8.1.RC1"}, "fail error"),
    ("VER506", A2, "pass"),
    ("VER506", A3, "pass"),
    ("VER506", {**A3, **{f"{NINE}/{name}/version.info": None for name in OPS}}, "pass"),
    ("VER506", {**A3, SHARED: [{"path": f"{NINE[5:]}/runtime", "kind": "dir"}]}, "fail error"),
    ("VER506", {**A3, SHARED: NONE, **{f"{NINE}/{name}/version.info": None for name in OPS}}, "fail error"),
    ("VER506", {**A3, SHARED: NONE, **{f"{NINE}/{n}/version.info": None for n in (*OPS, "runtime")}}, "unknown"),
    ("VER506", CPU, "not_applicable"),
    # custom_op_mismatch
    ("VER507", {**A2, **python(mindspore="2.9.0", own={"built_with": {"a": "9.0.0"}})}, "fail advice"),
    ("VER507", A2, "pass"),
    ("VER507", {**A2, **python()}, "unknown"),
    ("VER507", {"base": "ver-cann-outside-list"}, "not_applicable"),
    # driver_too_old
    ("VER508", {"base": "ver-driver-too-old"}, "fail error"),
    ("VER508", {**A2, DRIVER: "Version=23.0.7\n"}, "fail warning"),
    ("VER508", {**A3, DRIVER: "Version=25.2.0\n"}, "fail warning"),
    ("VER508", A2, "pass"),
    ("VER508", {**A2, DRIVER: "Version=25.3.rc1\n"}, "pass"),
    ("VER508", {**A2, DRIVER: None, **HANGS}, "unknown"),
    ("VER508", CPU, "not_applicable"),
    # driver_newer
    ("VER509", {**A2, DRIVER: "Version=25.3.rc1\n"}, "fail advice"),
    ("VER509", A2, "pass"),
    ("VER509", {"base": "ver-driver-too-old"}, "pass"),
    ("VER509", CPU, "not_applicable"),
    # driver_unknown
    ("VER510", {"ask pci": {"total": 9, "devices": [{"bus": "0000:c1:00.0", "device": "d802", "class": "120000"}]}},
     "fail error"),
    ("VER510", {**A2, DRIVER: None, **HANGS}, "fail error"),
    ("VER510", {"base": "a2-container", DRIVER: None, **HANGS}, "fail warning"),
    ("VER510", {**A2, DRIVER: {"state": "denied"}, **HANGS}, "unknown"),
    ("VER510", A2, "pass"),
    ("VER510", {**A2, DRIVER: None}, "pass"),
    ("VER510", CPU, "not_applicable"),
    # firmware_mismatch
    ("VER511", {"base": "ver-firmware-nok"}, "fail error"),
    ("VER511", {DRIVER: "sample:driver_version.info__23.0.7.info",
                FIRMWARE: "Version=6.4.0.4.220\n"}, "fail error"),
    ("VER511", A2, "pass"),
    ("VER511", {DRIVER: "sample:driver_version.info__23.0.7.info",
                FIRMWARE: "sample:firmware_version.info__7.1.0.11.220.info"}, "pass"),
    ("VER511", {DRIVER: "sample:driver_version.info__23.0.7.info"}, "unknown"),
    # te_missing
    ("VER512", {**A2, **python(imports={})}, "fail error"),
    ("VER512", A2, "pass"),
    ("VER512", {**A2, **NOT_READ}, "unknown"),
    ("VER512", {"base": "ver-cann-not-sourced"}, "not_applicable"),
    ("VER512", CPU, "not_applicable"),
    # te_stale
    ("VER513", {**A2, **te("/ms/site-packages/te", "7.6.0.1.220")}, "fail warning"),
    ("VER513", {**A2, **te("/ms/site-packages/te")}, "fail advice"),
    ("VER513", {**A2, **te("/ms/site-packages/te", "8.2.0.0.201")}, "pass"),
    ("VER513", A2, "pass"),
    ("VER513", {**A2, **NOT_READ}, "unknown"),
    ("VER513", {**A2, **python()}, "not_applicable"),
    # several_cann, several_cann_mixed
    ("VER514", {"base": "ver-two-cann"}, "fail advice"),
    ("VER514", A2, "pass"),
    ("VER514", CPU, "not_applicable"),
    ("VER515", {"base": "ver-cann-mixed"}, "fail error"),
    ("VER515", {"base": "ver-two-cann"}, "pass"),
    ("VER515", {**A2, "ask env": NONE}, "unknown"),
    ("VER515", {**A2, "ask env": ENV}, "not_applicable"),
    # cpu_wheel_only, wrong_arch_wheel
    ("VER516", {**A2, **python(own={"ascend": []})}, "fail error"),
    ("VER516", A2, "pass"),
    ("VER516", {**A2, **NOT_READ}, "unknown"),
    ("VER516", {**CPU, **python(own={"ascend": []})}, "not_applicable"),
    ("VER517", {"base": "ver-aarch64-wheel-on-x86"}, "fail error"),
    ("VER517", {**A2, **python(platform="darwin", machine="arm64")}, "fail error"),
    ("VER517", A2, "pass"),
    ("VER517", {**A2, **python(machine=None)}, "unknown"),
    ("VER517", {**A2, **python(mindspore="")}, "not_applicable"),
    # python_unsupported, python_not_advised
    ("VER518", {**A2, **python(version="3.12.1", own={"elf": {"file": "_c_expression.cpython-311-aarch64-linux-gnu.so",
                                                              "machine": "aarch64"}})}, "fail error"),
    ("VER518", {"base": "ver-python-unsupported"}, "fail error"),
    ("VER518", A2, "pass"),
    ("VER518", {**A2, **NOT_READ}, "unknown"),
    ("VER518", {**A2, **python(mindspore="")}, "not_applicable"),
    ("VER519", {**A2, **python(version="3.10.2", packages={"mindformers": "1.6.0"})}, "fail advice"),
    ("VER519", A2, "pass"),
    ("VER519", {**A2, **NOT_READ}, "unknown"),
    # numpy_too_new, protobuf_conflict
    ("VER520", {**A2, **python(packages={"numpy": "2.1.0"})}, "fail warning"),
    ("VER520", {"base": "ver-numpy-2-with-2.10"}, "fail warning"),
    ("VER520", {**A2, **python(packages={"numpy": "1.26.4"})}, "fail advice"),
    ("VER520", A2, "pass"),
    ("VER520", CPU, "pass"),
    ("VER520", {**A2, **NOT_READ}, "unknown"),
    ("VER520", {**A2, **python()}, "not_applicable"),
    ("VER521", {**A2, **python(mindspore="2.10.0", packages={"protobuf": "3.20.3"})}, "fail warning"),
    ("VER521", {**A3, **python(mindspore="2.10.0", packages={"protobuf": "7.34.1"})}, "fail advice"),
    ("VER521", A2, "pass"),
    ("VER521", {**A2, **NOT_READ}, "unknown"),
    ("VER521", {**A2, **python()}, "not_applicable"),
    # glibcxx_too_old, glibc_too_old, gcc_old
    ("VER522", {**A2, **python(mindspore="2.10.0", libstdcxx={"glibcxx": "3.4.24"})}, "fail error"),
    ("VER522", A2, "pass"),
    ("VER522", {**A2, **NOT_READ}, "unknown"),
    ("VER523", {**A2, **python(libc=["glibc", "2.12"])}, "fail error"),
    ("VER523", A2, "pass"),
    ("VER523", {**A2, **NOT_READ}, "unknown"),
    ("VER524", {**A2, **python(gcc={"path": "/usr/bin/gcc", "version": "4.8.5"})}, "fail warning"),
    ("VER524", A2, "pass"),
    ("VER524", {**A2, **python(gcc={"path": "/usr/bin/gcc", "version": "7"})}, "unknown"),
    ("VER524", {**A2, **python(gcc=None)}, "not_applicable"),
    # mindformers_pair, mindformers_uninstallable
    ("VER526", {"base": "ver-mindformers-pair"}, "fail error"),
    ("VER526", {**A2, **python(mindspore="2.7.1", packages={"mindformers": "1.6.0"})}, "fail warning"),
    ("VER526", {**A2, **python(mindspore="2.5.0", packages={"mindformers": "1.3.2"})}, "fail warning"),
    ("VER526", A2, "pass"),
    ("VER526", {**A2, **python(packages={"mindformers": "7.7.7"})}, "unknown"),
    ("VER526", {**A2, **python()}, "not_applicable"),
    ("VER527", {**A2, **python(mindspore="2.10.0", packages={"mindformers": "2.0.0"})}, "fail advice"),
    ("VER527", {**A2, **python(packages={"mindformers": "2.0.0", "hyper-parallel": "1.0.0"})}, "pass"),
    ("VER527", A2, "pass"),
    ("VER527", {**A2, **NOT_READ}, "unknown"),
    ("VER527", CPU, "not_applicable"),
    # chip_unsupported
    ("VER528", {**A2, "run npu-smi info": "sample:npu-smi_info__910ProB__24.1.0__ok-idle-8p.txt"}, "fail warning"),
    ("VER528", A2, "pass"),
    ("VER528", A3, "pass"),
    ("VER528", {**A2, **HANGS}, "unknown"),
    # torch_npu, MindSpore absent or twice, old marks, NNAL
    ("VER529", {**A2, **python(packages={"torch": "2.6.0", "torch-npu": "2.5.1"})}, "fail warning"),
    ("VER529", {**A2, **python(packages={"torch": "2.5.1+cpu", "torch-npu": "2.5.1.post1"})}, "pass"),
    ("VER529", {**A2, **python(packages={"torch": "master", "torch-npu": "2.5.1.post1"})}, "unknown"),
    ("VER529", A2, "not_applicable"),
    ("VER530", {**A2, **python(mindspore="")}, "fail warning"),
    ("VER530", {**CPU, **python(mindspore="")}, "fail advice"),
    ("VER530", A2, "pass"),
    ("VER530", {**A2, **NOT_READ}, "unknown"),
    ("VER530", {"ask python": {"state": "missing"}}, "unknown"),
    ("VER531", {**A2, "ask env": {**ENV, "ASCEND_HOME": "/usr/local/Ascend"}}, "fail advice"),
    ("VER531", A2, "pass"),
    ("VER531", {**A2, "ask env": NONE}, "unknown"),
    ("VER532", {**A2, NNAL: "Ascend-cann-atb : 8.0.0\n"}, "fail advice"),
    ("VER532", A2, "pass"),
    ("VER532", CPU, "not_applicable"),
    ("VER533", {**A2, **python(packages={"mindspore-cpu": "2.3.0"})}, "fail warning"),
    ("VER533", {**A2, **python(again=[["mindspore", "2.5.0", "/x"]])}, "fail warning"),
    ("VER533", A2, "pass"),
    ("VER533", {**A2, **NOT_READ}, "unknown"),
    ("VER533", {**A2, **python(mindspore="")}, "not_applicable"),
    ("VER534", A2, "not_applicable"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "host", "said"), CASES)
def test_a_case_of_the_version_chain(rule, host, said):
    findings = checkup.judge_alone(SPECS[rule], MemoryHost({}) if host is None else compose.example(host))
    first = findings[0]
    assert f"{first.verdict.value} {first.severity if first.verdict.value == 'fail' else ''}".strip() == said, first
    for finding in findings:
        assert all(isinstance(value, str) for value in finding.args.values())
        if finding.verdict.value in ("unknown", "not_applicable"):
            assert finding.why["zh"] and finding.why["en"] and "{" not in finding.why["en"]


def test_every_rule_of_the_chain_has_a_case():
    ours = {rule for rule in SPECS if rule.startswith("VER5")}
    assert {rule for rule, _, _ in CASES} == ours
    for rule in ours - {"VER534"}:
        said = {verdict.split()[0] for one, _, verdict in CASES if one == rule}
        assert {"fail", "pass"} <= said and said & {"unknown", "not_applicable"}, rule


def test_the_word_of_the_installed_mindspore_is_shown_with_its_line():
    own = {"accepted": {"versions": ["8.5"], "source": "/ms/_check_version.py", "line": 272}}
    host = compose.example({**A2, **python(mindspore="2.7.2", own=own)})
    (finding,) = checkup.judge_alone(SPECS["VER504"], host)
    assert any(e.source == "/ms/_check_version.py" and e.line == 272 for e in finding.evidence)
    assert any(e.source.endswith("compiler/version.info") and e.line == 1 for e in finding.evidence)
    assert finding.args["plan"] == "MindSpore 2.7.2 -> 2.7.0" and finding.args["other1"] == "CANN 8.2.RC1 -> 8.5.0"
    assert finding.args["step1"] == "/ms/python -m pip install mindspore==2.7.0"


def test_cann_that_is_not_sourced_heads_what_follows_from_it():
    report = checkup.check(compose.example({"base": "ver-cann-not-sourced"}), checkup.Options(only=("VER",)), BASE)
    assert [d.rule for d in report.diagnoses if d.severity == "error"] == ["VER501"]

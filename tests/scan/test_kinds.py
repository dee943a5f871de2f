# ruff: noqa: E501  (a log line is as long as it is)
"""Kinds of input: one text per kind, mixed pastes, odd bytes, and the promises every answer keeps."""

import subprocess
import sys
import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.scan.kinds import KINDS, LOG_KINDS, Segment, clean, segments

CPP = "[WARNING] DISTRIBUTED(412,7f3adccd2c0,python):2025-03-02-11:30:59.790.375 [mindspore/ccsrc/cluster/rpc/tcp/tcp_comm.cc:485] Connect] Connection refused."
CPP_ERROR = "[ERROR] DEVICE(412,ffffb37b1010,python):2025-03-02-11:31:00.001.002 [mindspore/ccsrc/runtime/device.cc:57] Init] Malloc device memory failed."
PY = "[ERROR] ME(412:281473590168608,MainProcess):2025-03-02-11:31:01.400.00 [mindspore/train/model.py:365] Training stopped."
VLOG = "[V20000] RUNTIME_FRAMEWORK(412,7f58a9c56b80,python):2025-03-02-11:31:02.010.063 [mindspore/ccsrc/runtime/x.cc:82] Func] text"
SCHED = "[WARNING] DISTRIBUTED(300,7f8e6c8d2c0,python):2025-03-02-11:30:10.100.200 [mindspore/ccsrc/cluster/topology/meta_server_node.cc:188] UpdateTopoState] The number of registered nodes: 1"
LAUNCH = "Start worker process with rank id:3, log file:msrun_log/worker_3.log. Environment variable [RANK_ID=3] is exported. Execute command: python train.py"
LAUNCH_ERROR = "[ERROR] ME(90:281473590168608,MainProcess):2025-03-02-11:33:58.400.00 [mindspore/parallel/cluster/process_entity/_api.py:365] Worker process 412 exit with exception. Error code: 1."
PLOG = "[ERROR] HCCL(17528,python3):2025-03-18-10:33:52.113.403 [hccl_socket_manager.cc:797] [18744][Wait][LinkEstablish]wait socket establish timeout"
PLOG_EVENT = "[EVENT] RUNTIME(17528,python3):2025-03-18-10:33:52.200.000[api_impl.cc:12]17528 SetDevice: end"
DEVICE = "[ERROR] TSCH(-1,null):2025-03-18-10:33:51.000.001 [task_process.c:90][0] task timeout, stream_id=2"
TRACEBACK = """Traceback (most recent call last):
  File "train.py", line 17, in <module>
    loss = 0.5 * net(x)
           ^^^^^^^^^^^^
ValueError: For 'MatMul', the input dimensions must be equal."""
MF = "2025-04-07 15:34:27,308 - mindformers[mindformers/core/callback/callback.py:529] - INFO - "
NPU_SMI = """+------------------------------------------------------------------------------------------------+
| npu-smi 24.1.0                   Version: 24.1.0                                               |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 3     910B3               | OK            | 92.0        38                0    / 0             |
| 0                         | 0000:C1:00.0  | 0           0    / 0          3401 / 65536         |
+===========================+===============+====================================================+"""
PIP = """Package            Version
------------------ -----------
absl-py            2.1.0
mindspore          2.3.0
numpy              1.26.4
some-tool          0.4.1"""
VERSIONS = """MindSpore version: 2.3.0
CANN version: 8.0.RC1
Python version: 3.9.18
OS: openEuler 22.03"""
HCCN = """link status: UP
net health status: Success
ipaddr:192.0.2.10
netmask:255.255.255.0"""
RANK_TABLE = """{
    "version": "1.0",
    "server_count": "1",
    "server_list": [
        {
            "server_id": "198.51.100.10",
            "device": [
                {"device_id": "0", "device_ip": "192.0.2.10", "rank_id": "0"},
            ],
        }
    ],
    "status": "completed"
}"""
YAML = """seed: 0
run_mode: 'train'
runner_config:
  epochs: 2
  batch_size: 4
parallel_config:
  data_parallel: 8
  model_parallel: 1"""
HF_CONFIG = """{
  "architectures": ["LlamaForCausalLM"],
  "hidden_size": 4096,
  "num_attention_heads": 32
}"""
INI = "[train]\nbatch_size = 8\nlearning_rate = 0.0001"
CODE = '''"""Training script.

ValueError: this docstring may say anything, also "step 3, loss: 2.0".
"""
import mindspore as ms
from mindspore import nn

class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(4, 2)
        loss = 0.0

    def construct(self, x):
        if x is None:
            return x
        return self.dense(x)

net = Net()
device = "npu"
print(net)'''
SHELL = "$ msrun --worker_num=8 --local_worker_num=8 train.py\n$ ls /data\ntrain.mindrecord"
DOCKER = "docker run -it --name test \\\n    --device=/dev/davinci0 \\\n    example/image:1 /bin/bash"
ENV = "ASCEND_HOME_PATH=/usr/local/Ascend/ascend-toolkit/latest\nHCCL_CONNECT_TIMEOUT=600\nPATH=/usr/bin:/bin"
EXPORT = "export HCCL_CONNECT_TIMEOUT=600\nexport ASCEND_RT_VISIBLE_DEVICES=0,1"
PROFILE = "Device_id,Op Name,OP Type,Task ID,Task Duration(us)\n0,MatMul-op1,MatMul,5,12.3\n0,Add-op2,Add,6,1.1"
DMESG = "[123456.789012] Out of memory: Killed process 8123 (python)\nNov 29 10:52:43 node0 kernel: [drv_soft_fault] Heartbeat lost"
VLLM = "INFO 04-09 21:56:46 [worker.py:82] Loading weights took 0.51 seconds\n(Worker_TP0 pid=1070) ERROR 04-30 23:38:48 [executor.py:932] The argument is invalid."
PROSE = "I want to train a model with eight cards and it does not start.\nWhat can be done about it?"


def kinds(text: str | bytes, name: str = "", complete: bool = True) -> list[str]:
    """The kinds in order; every answer is also checked for what all answers promise."""
    data = text if isinstance(text, bytes) else text.encode()
    found = segments(name, data, complete=complete)
    check(data, found)
    return [segment.kind for segment in found]


def check(data: bytes, found: tuple[Segment, ...]) -> None:
    assert found
    assert found[0].first_line == 1
    assert found[0].start == 0
    assert found[-1].end == len(data)
    for segment in found:
        assert segment.kind in KINDS
        assert segment.first_line <= segment.last_line
    for before, after in pairwise(found):
        assert after.first_line == before.last_line + 1
        assert after.start == before.end > before.start
        assert after.kind != before.kind


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("ms_log", CPP),
        ("ms_log", f"{PY}\n{VLOG}\n{CPP_ERROR}"),
        ("ms_log", MF + "Now Running Task is: text_generation"),
        ("ms_log", "[INFO] 2025-04-07 15:34:27,308 [mindformers/trainer/trainer.py:90] train: Start."),
        ("ms_log", "[PROF]compile_graph costs 280.406 msec.\n[MS_RUNTIME_PROF]Device memory size: 64G"),
        ("scheduler_log", f"{SCHED}\n{CPP}"),
        ("launcher_log", f"{LAUNCH}\n{CPP}\n{LAUNCH_ERROR}\n{TRACEBACK}\n{SCHED}"),
        ("plog", f"{PLOG}\n{PLOG_EVENT}"),
        ("device_log", f"{DEVICE}\n{DEVICE}"),
        ("traceback", TRACEBACK),
        ("traceback", "RuntimeError: Sync stream failed"),
        ("traceback", "    self._handle.set_param(param, value)\nRuntimeError: Unsupported device target Ascend."),
        ("traceback", "EI0006: 2024-08-01-18:15:21.270.506 Getting socket times out.\n        Solution: 1. Check the rank."),
        ("npu_smi", NPU_SMI),
        ("npu_smi", "\n".join(NPU_SMI.splitlines()[6:8])),
        ("npu_smi", "bash: npu-smi: command not found"),
        ("npu_smi", "dcmi module initialize failed. ret is -8005"),
        ("npu_smi", "\tNPU ID                         : 0\n\tChip Count                     : 1\n\n\tChip ID   : 0"),
        ("hccn_tool", HCCN),
        ("hccn_tool", "[devid 3]link change records :\n[devid 3]    Mon Mar  4 09:59:10 2024    LINK UP"),
        ("hccn_tool", "device 0 PING 192.0.2.20\nrecv seq=0,time=1.418000ms\n1 packets transmitted, 1 received, 0.00% packet loss"),
        ("versions", PIP),
        ("versions", VERSIONS),
        ("versions", "MindSpore版本：2.3\n驱动版本：24.1.rc1\nCANN版本：8.0.RC1"),
        ("versions", "torch==2.1.0\ntransformers==4.44.0\nrich==13.7.0"),
        ("versions", "package_name=Ascend-cann-toolkit\nversion=8.1.RC1\narch=aarch64"),
        ("rank_table", RANK_TABLE),
        ("rank_table", RANK_TABLE.replace("\n", " ")),
        ("rank_table", RANK_TABLE[: len(RANK_TABLE) // 2]),
        ("rank_table", RANK_TABLE.replace('"1.0",', '"1.0",  # version\n// comment')),
        ("config", YAML),
        ("config", HF_CONFIG),
        ("config", INI),
        ("hccn_tool", "address_0=192.0.2.10\nnetmask_0=255.255.255.0"),
        ("python", CODE),
        ("shell", SHELL),
        ("shell", DOCKER),
        ("shell", "#!/bin/bash\nexport A_B=1\nfor i in 1 2; do\n  echo $i\ndone\npython train.py --x 1"),
        ("shell", "crw-rw---- 1 root root 236,   0 Jan  1 00:00 /dev/davinci0"),
        ("environment", ENV),
        ("environment", EXPORT),
        ("profile_csv", PROFILE),
        ("dmesg", DMESG),
        ("python_log", VLLM),
        ("python_log", "[2024-05-30 13:24:58,287] [INFO] [real_accelerator.py:191:get_accelerator] Setting ds_accelerator to npu"),
        ("python_log", "[INFO|trainer.py:601] 2024-05-08 02:41:08,095 >> Using auto half precision backend"),
        ("python_log", "[rank1]:[W611 13:31:09.562926627 compiler_depend.ts:57] Warning: something"),
        ("python_log", "[ERROR] 2025-04-08-18:07:20 (PID:1292363, Device:1, RankID:1) ERR01100 OPS call acl api failed"),
        ("text", PROSE),
        ("text", "[2. 2.]"),
        ("empty", ""),
        ("empty", " \n\t\r\n\n"),
        ("empty", b"\0" * 4096),
        ("binary", bytes(range(256)) * 8),
        ("binary", b"\x7fELF\x02\x01\x01" + b"\0" * 64),
        ("binary", b"\x40\x01\0\0\0\0\0\0" + b'{"__metadata__":{"format":"pt"}}' + b"\0\x3c" * 200),
    ],
)  # fmt: skip
def test_one_kind(kind: str, text: str | bytes) -> None:
    assert kinds(text) == [kind]


@pytest.mark.parametrize(
    "line",
    [
        "epoch: 1 step: 4, loss is 0.5289374589920044",
        "epoch: 0, step: 10, loss is 1.66",
        "Train epoch time: 1494.795 ms, per step time: 373.699 ms",
        "Epoch:[  1/  2], step:[   10/  100], loss:[9.123/9.456], time:1234.567 ms, lr:1e-05, overflow cond: False, loss_scale: 65536.0",
        MF + "{ Epoch:[  1/  2], step:[   10/  100], loss: 9.123, per_step_time: 1234ms, lr: 1e-05, overflow cond: False, loss_scale: 65536.0",
        MF + "   0.0% |                 | 0.12096 samples/s/p  1 day, 5:50:52 }",
        MF + "Epoch:[  1/  2], step:[    3/   19] global_norm: 10.5798",
        MF + "opt_global_step: 0, skip_data_grad_norm_threshold: 3.0, is_skip: [ True]",
        "Epoch 0, Step 100, Loss: 3.21",
        "epoch: 1, batch: 20, loss: nan",
        "Epoch 38/300, Step 4/4, loss: 0.2778",
        "step: 15, loss: inf, overflow cond: True, loss_scale: 1.0",
        "iter 10: loss 3.2101, time 123.45ms, mfu 12.34%",
        "step 250: train loss 2.4567, val loss 2.5012",
        "[2022-11-23 09:46:28,799] [    INFO] - global step 2000, loss: 8.075826, lm_loss: 7.379850",
        "{'loss': 2.1, 'grad_norm': 1.25, 'learning_rate': 5e-05, 'epoch': 0.01}",
        "{'eval_loss': 3.84, 'eval_runtime': 2.3863, 'epoch': 3.76}",
        " iteration 5426/ 250000 | consumed samples: 100 | elapsed time per iteration (ms): 4247.9 | loss scale: 1.0 | grad norm: nan |",
        "[2025-06-22 14:47:00] iteration       10/    5000 | consumed samples: 640 | lm loss: 1.053084E+01 | loss scale: 1.0 |",
        "[loss_scaler.py:183:update_scale] [deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 32, reducing to 16",
        "\rTraining:   0%|   | 0/100 [00:00<?]\rTraining:  20%|##        | 20/100 [00:02<00:08,  9.9it/s, loss=4.500]",
        " 12%|█▏        | 320/2724 [11:49:53<88:41:03, 132.80s/it]",
        "step:1/6200 train_loss:10.9184 train_time:74701ms step_avg:nanms",
        "s:3 trl:10.7157 lr:0.000003 norm:13.12",
        "loss: 468785216.0  [ 10/190]",
        '{"step": 3, "loss": 2.31, "lr": 0.0001}',
        "[default7]: iteration    31215/  115311 | consumed samples:     47770544 | lm loss: 2.0 |",
        "step,loss,lr\n1,3.4,0.1\n2,3.3,0.1",
    ],
)  # fmt: skip
def test_training_lines(line: str) -> None:
    assert kinds(line) == ["training"]


@pytest.mark.parametrize(
    "prefix",
    [
        "[rank1]: ",
        "[1,3]<stderr>:",
        "(WorkerDict pid=1234) ",
        "(WorkerDict pid=1234, ip=192.0.2.1) ",
        "msrun_log/worker_3.log:118:",
        "msrun_log/worker_3.log-117-",
        "118:",
        "node0: ",
        "2025-11-29T10:52:43.010063Z stdout F ",
        "\x1b[31m",
        "> ",
        "> > ",
    ],
)
def test_prefixes_are_looked_through(prefix: str) -> None:
    assert clean(prefix + CPP) == CPP
    assert kinds(f"{prefix}{CPP}\n{prefix}{CPP_ERROR}") == ["ms_log"]
    assert kinds(f"{prefix}{PLOG}") == ["plog"]


def test_json_lines_are_unwrapped() -> None:
    line = '{{"log":"{}\\n","stream":"stderr","time":"2025-01-01T00:00:00Z"}}'
    assert kinds("\n".join(line.format(text) for text in (CPP, CPP_ERROR))) == ["ms_log"]
    assert kinds('{"level":"info","ts":1.5,"msg":"server started"}') == ["python_log"]


SESSION = f"""root@node-1:/workspace# npu-smi info
{NPU_SMI}
root@node-1:/workspace# pip list
{PIP}
root@node-1:/workspace# python train.py
{TRACEBACK}
root@node-1:/workspace# tail -n 2 worker_0.log
{CPP}
{CPP_ERROR}
"""


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        ("shell npu_smi shell versions shell traceback shell ms_log", SESSION),
        ("shell npu_smi shell versions", f"[root@node ~]$ npu-smi info\n{NPU_SMI}\n[root@node ~]$ pip list\n{PIP}"),
        ("shell hccn_tool shell", "(base) user@host:~$ hccn_tool -i 0 -ip -g\nipaddr:192.0.2.10\n(base) user@host:~$ ls\nlog"),
        ("versions traceback", f"{VERSIONS}\n\n{TRACEBACK}"),
        ("versions npu_smi shell ms_log", f'host driver: 24.1.rc3\nMindSpore: 2.3.0\n{NPU_SMI}\n# python -c "import x"\n{CPP_ERROR}'),
        ("environment shell traceback", f"{EXPORT}\nvllm serve /models/m -tp 2 --dtype bfloat16\nRuntimeError: NPU out of memory."),
        ("traceback ms_log", f"{TRACEBACK}\n{CPP}\n{PY}"),
        ("ms_log traceback", f"{CPP}\n{TRACEBACK}"),
        ("text ms_log text", f"我在训练模型的时候遇到了下面这个问题。\n```\n{CPP}\n```\n请问应该怎么解决？\n"),
        ("text versions traceback", f"## Environment\n{VERSIONS}\n## Log\n{TRACEBACK}".replace("## Log\n", "")),
        ("python traceback", f"```python\n{CODE}\n```\n\n```\n{TRACEBACK}\n```"),
        ("config ms_log", f"```yaml\n{YAML}\n```\n```\n{CPP}\n{PY}\n```"),
        ("rank_table plog", f"{RANK_TABLE}\n\n{PLOG}"),
        ("shell versions shell traceback", f">>> import mindspore\n{VERSIONS}\n>>> mindspore.run_check()\n{TRACEBACK}"),
        ("shell npu_smi", "root@0a1b:/# npu-smi info\nDrvMngGetConsoleLogLevel failed. (g_conLogLevel=3)\ndcmi model initialized failed"),
        ("dmesg plog", f"{DMESG}\n{PLOG}"),
        ("training traceback", "step 1 loss: 3.2\nstep 2 loss: nan\n" + TRACEBACK),
        ("shell environment shell", "$ env\nlang=C\nHCCL_X=1\nMODEL_DIR=/data/m\n$ pwd\n/root"),
        ("launcher_log scheduler_log", f"{LAUNCH}\n{LAUNCH_ERROR}\n==> msrun_log/scheduler.log <==\n{SCHED}"),
    ],
)  # fmt: skip
def test_mixed_pastes(expected: str, text: str) -> None:
    assert kinds(text) == expected.split()
    assert kinds(text.replace("\n", "\r\n")) == expected.split()


def test_a_report_of_pytest_is_no_source() -> None:
    text = (
        "____ ERROR collecting tests/test_basic.py ____\n"
        "ImportError while importing test module '/app/tests/test_basic.py'.\nTraceback:\n"
        "/opt/venv/lib/python3.12/importlib/__init__.py:90: in import_module\n"
        "    return _bootstrap._gcd_import(name[level:], package, level)\n"
        "tests/test_basic.py:12: in <module>\n    from sklearn.datasets import make_blobs\n"
        "/opt/venv/lib/python3.12/site-packages/sklearn/__init__.py:97: in <module>\n"
        "    from .utils._show_versions import show_versions\n"
        "E   ImportError: libgomp.so.1: cannot allocate memory in static TLS block\n"
    )
    assert "python" not in {s.kind for s in segments("<paste>", text.encode(), complete=True)}


def test_lines_and_offsets_point_into_the_data() -> None:
    data = f"{VERSIONS}\n\n{TRACEBACK}\n".encode()
    versions, traceback = segments("", data, complete=True)
    assert (versions.first_line, versions.last_line) == (1, 5)
    assert data[traceback.start :].startswith(b"Traceback")
    assert traceback == Segment("traceback", 6, 10, data.index(b"Traceback"), len(data))


def test_one_log_stays_one_log() -> None:
    step = "epoch: 1 step: {}, loss is 2.5"
    mixed = "\n".join(
        [CPP, *(step.format(i) for i in range(9)), TRACEBACK, PY, step.format(10), "MindSpore version: 2.3.0", CPP]
    )
    assert kinds(mixed) == ["ms_log"]
    assert kinds(f"{CPP}\n{PLOG}\n{CPP}") == ["ms_log"]
    assert kinds("\n".join([CPP] * 3 + ["AddMemBlock] continued", "", "also text"] + [PY])) == ["ms_log"]


def test_pairs_of_a_message_are_not_a_config() -> None:
    pairs = "input: float16\nweight: float32\nbias: none"
    assert kinds(f"{TRACEBACK}\n{pairs}") == ["traceback"]
    assert kinds(f"{CPP}\n\n{pairs}\n{PY}") == ["ms_log"]
    assert kinds(f"{CPP}\n\n{VERSIONS}") == ["ms_log", "versions"]


def test_source_that_quotes_logs_is_source() -> None:
    quoting = CODE + "".join(f"\nline_{i} = (\n    '{CPP}'\n)" for i in range(5))
    assert kinds(quoting) == ["python"]


def test_the_name_only_breaks_ties() -> None:
    assert kinds(CPP, "scheduler.log") == ["scheduler_log"]
    assert kinds(CPP, "worker_0.log") == ["ms_log"]
    assert kinds(PLOG, "device-0/device-412_2025.log") == ["device_log"]
    assert kinds("device: Ascend910B\nmindspore: 2.2.10\nmodel: x", "run.yaml") == ["config"]
    assert kinds("import mindformers", "script.py") == ["python"]
    assert kinds(f"{YAML}\n\nsome more words of no known form\n\nversion: 2.0", "run.yaml") == ["config"]
    assert kinds(f"{CODE}\nsome words\n\n\nsome more words", "train.py") == ["python"]
    assert kinds(CPP, "config.yaml") == ["ms_log"]
    assert kinds(TRACEBACK, "train.py") == ["traceback"]


def test_encodings() -> None:
    text = f"MindSpore版本：2.3\n驱动版本：24.1\n\n{TRACEBACK}\n"
    for encoding in ("utf-8", "utf-8-sig", "gb18030", "utf-16"):
        assert kinds(text.encode(encoding)) == ["versions", "traceback"], encoding
    big = b"\xfe\xff" + text.encode("utf-16-be")
    assert kinds(big) == ["versions", "traceback"]
    assert segments("", big, complete=True)[1].first_line == 4
    mixed = (
        "训练开始 step 1 loss: 3.2\n".encode("gbk")
        + "训练开始 step 2 loss: 3.1\n".encode()
        + b"\xff\xfe bad\0 step 3 loss: 3.0\n"
    )
    assert kinds(mixed) == ["training"]


def test_nuls_holes_and_long_lines() -> None:
    assert kinds(b"\0" * 3000 + f"\n{CPP}\n{PY}\n".encode()) == ["ms_log"]
    assert kinds(f"{CPP}\0\n{PY}".encode()) == ["ms_log"]
    assert kinds(b"\0" * 3000, complete=False) == ["text"]
    assert kinds(f"{CPP}{'x' * (1 << 20)}\n{PY}") == ["ms_log"]
    assert kinds((CPP + "\n" + PY)[30:-5] + "\n" + CPP[:60]) == ["ms_log"]


HOW_TO = (
    "# Serving\n\nAn engine.\n\n## Install\n\npip install engine\n\n## Limits\n\n- out of memory: use a smaller batch\n"
)


@pytest.mark.parametrize(
    ("name", "text", "is_page"),
    [
        ("docs/README.md", "# X\n\nQ: 端口号冲突怎么办?\n", True),
        ("README_CN.md", HOW_TO, True),
        ("faq.rst", "FAQ\n=====\n\nToo many open files: raise the limit\n", True),
        ("serving.md", HOW_TO, True),
        ("serving.md", HOW_TO.replace("## Limits", "## 报错日志"), False),  # someone's report
        ("notes.md", "out of memory on rank 3\n", False),
        ("readme.txt", "out of memory on rank 3\n", False),
        ("", HOW_TO, False),
    ],
)
def test_pages_of_documentation_are_told_from_reports(name: str, text: str, is_page: bool) -> None:
    found = [s.kind for s in segments(name, text.encode(), complete=True)]
    assert (found == ["document"]) == is_page


def test_log_kinds() -> None:
    assert set(KINDS) - LOG_KINDS == {
        "rank_table",
        "config",
        "python",
        "profile_csv",
        "profile_json",
        "document",
        "empty",
        "binary",
    }
    assert len(set(KINDS)) == len(KINDS) == 23


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=2000), st.booleans())
def test_any_bytes(data: bytes, complete: bool) -> None:
    kinds(data, "x.log", complete)


PIECES = [CPP, PY, PLOG, TRACEBACK, NPU_SMI, PIP, VERSIONS, RANK_TABLE, YAML, CODE, SHELL, ENV, PROFILE, DMESG, VLLM, PROSE, "```", "", "\r", '"""', "{", "    x"]  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.sampled_from(PIECES) | st.text(max_size=40), max_size=12),
    st.sampled_from(["utf-8", "utf-16", "gb18030"]),
)
def test_any_mixture(parts: list[str], encoding: str) -> None:
    kinds("\n".join(parts).encode(encoding, "replace"))


@pytest.mark.parametrize(
    "unit",
    [
        CPP + "\n",
        "step 1 loss: 2.5\n",
        "a.",
        "1",
        "(",
        "loss ",
        "a@b:",
        '"a": {',
        "a, ",
        "[a ",
        "A" * 2000 + "\n",
        "| a ",
        "\n",
    ],
)
def test_time_grows_with_size_only(unit: str) -> None:
    data = (unit * (1 + 65536 // len(unit)))[:65536].encode()
    segments("", data, complete=False)
    best = min(_seconds(data) for _ in range(3))
    assert best < 0.05  # a few ms on an idle core; a quadratic pattern takes far longer


def _seconds(data: bytes) -> float:
    start = time.perf_counter()
    segments("", data, complete=False)
    return time.perf_counter() - start


def test_import_is_cheap() -> None:
    code = "import sys; import doctor.scan.kinds; print({'json','dataclasses','yaml','pathlib','tempfile'} & set(sys.modules))"
    answer = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert answer.stdout.strip() == "set()"

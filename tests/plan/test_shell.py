"""Commands of scripts that old advice recommends."""

import pytest

from doctor.plan import detect, shell


def found(text):
    return {name: [what for what, _ in rows] for name, rows in shell.scan("#!/bin/bash\n" + text).found.items()}


@pytest.mark.parametrize(
    ("text", "name", "what"),
    [
        ("for i in 0 1; do npu-smi set -t reset -i $i; done", "reset", "npu-smi set -t reset"),
        ("sudo chmod 666 /dev/davinci*", "opened", "/dev/davinci*"),
        ("chmod a+rw /dev/devmm_svm", "opened", "/dev/devmm_svm"),
        ("npu-smi dmesg | tail", "smi_words", "npu-smi dmesg"),
        ("lsmod | grep himix_dcg", "modules", "himix_dcg"),
        ("export PYTHONPATH=/x/fwkacllib/python:$PYTHONPATH", "old_paths", "PYTHONPATH"),
        ("HCCL_WHITELIST_DISABLE=0 msrun --worker_num=8 a.py", "whitelist", "HCCL_WHITELIST_DISABLE=0"),
        ('export GLOG_v="1"', "verbose", "GLOG_v=1"),
        ("pip3 install 'mindspore==2.3.1'", "absent_pins", "mindspore==2.3.1"),
        ("export RANK_TABLE_FILE=/a.json\npython a.py", "table_start", "RANK_TABLE_FILE"),
        ("nohup python -m mindformers.launch --config a.yaml &", "launch_module", "mindformers.launch"),
        ("python run_mindformer.py --config a.yaml --mode train", "launch_options", "--mode train"),
        ("python tools/hccl_tools.py --topo", "table_options", "--topo"),
        ("msprof --training-trace=on", "msprof_options", "--training_trace"),
        (
            "sudo docker run --privileged --device /dev/davinci6 -v /usr/local/Ascend:/a img",
            "docker_all",
            "/dev/davinci6",
        ),
        (
            "podman run --device=/dev/davinci0:/dev/davinci0 --device /dev/davinci_manager --device /dev/devmm_svm img",
            "docker_lacks",
            "/dev/hisi_hdc",
        ),
        (
            "docker run --device /dev/davinci0 --device /dev/davinci_manager --device /dev/devmm_svm "
            "--device=/dev/hisi_hdc -v /data:/data img",
            "docker_driver",
            "/usr/local/Ascend/driver",
        ),
    ],
)
def test_old_advice_is_found(text, name, what):
    assert found(text) == {name: [what]}


@pytest.mark.parametrize(
    "text",
    [
        "# npu-smi set -t reset -i 0", 'echo "chmod 666 /dev/davinci0"', "chmod 600 /dev/davinci0", "npu-smi info -l",
        "npu-smi $WORD", "export HCCL_WHITELIST_DISABLE=1", "export GLOG_v=2", "pip install mindspore==2.10.0",
        "pip install mindspore==2.3.1 --find-links /wheels", "msrun --rank_table_file=a.json a.py",
        'bash msrun_launcher.sh "run_mindformer.py --config a.yaml --mode 0" 8', "msprof --task-time=on python a.py",
        "export RANK_TABLE_FILE=/a.json\nmsrun --worker_num=8 a.py", "grep fwkacllib /etc/profile",
        "docker run --runtime=ascend --device /dev/davinci0 img",
        "docker run -e ASCEND_VISIBLE_DEVICES=0 --privileged --device /dev/davinci0 img",
        "docker run --device /dev/davinci0 ${MORE_DEVICES} img", "docker run -v /data:/data img",
        "docker ps --filter device=/dev/davinci0",
    ],
)  # fmt: skip
def test_sound_scripts_are_quiet(text):
    assert found(text) == {}


def test_places_are_kept_and_the_plan_of_a_training_command_holds_them_too():
    plan = detect.read("a.sh", "#!/bin/bash\n\nnpu-smi set -t reset -i 0\nnpu-smi set -t reset -i 1\n")
    value = plan.values["shell.reset"]
    assert (value.value, value.line, [line for line, _ in value.spots]) == (["npu-smi set -t reset"], 3, [3, 4])
    train = "export GLOG_v=0\ntorchrun a.py --num-layers 2 --hidden-size 64 --micro-batch-size 1\n"
    plan = detect.read("b.sh", "#!/bin/bash\n" + train)
    assert plan.kind == "megatron"
    assert plan.get("shell.verbose") == ["GLOG_v=0"]
    assert detect.read("c.sh", "#!/bin/bash\nls -l\n") is None


def test_long_scripts_and_junk_are_bounded():
    notes = shell.scan("npu-smi dmesg\n" * 500).found
    assert len(notes["smi_words"]) == shell.MOST
    for junk in ("'", '"$(', "a=(", "\x00" * 50, "npu-smi", "chmod", "pip install", "msprof", "${x", "((((" * 500):
        shell.scan(junk)

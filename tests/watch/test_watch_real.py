"""A real training with MindSpore on the CPU, followed while it runs."""

import os
import subprocess
import sys

import pytest
from run_helpers import alarms, plain_report

from doctor import engine
from doctor.watch import Options
from doctor.watch.watcher import Watcher, until_of

TRAIN = """
import numpy as np, mindspore as ms
from mindspore import nn, dataset as ds
from mindspore.train import LossMonitor, Model
ms.set_context(mode=ms.PYNATIVE_MODE)
rng = np.random.default_rng(1)
x = rng.normal(size=(320, 8)).astype(np.float32)
y = (x @ rng.normal(size=(8, 1)) + 1).astype(np.float32)
data = ds.NumpySlicesDataset({"x": x, "y": y}, shuffle=False).batch(4)
net = nn.Dense(8, 1)
Model(net, nn.MSELoss(), nn.SGD(net.trainable_params(), RATE)).train(2, data, callbacks=[LossMonitor(1)])
print("the training is finished", flush=True)
"""


@pytest.fixture(scope="module")
def trainer():
    """An interpreter that has MindSpore: DOCTOR_SMOKE_PYTHON, else this one."""
    python = os.environ.get("DOCTOR_SMOKE_PYTHON") or sys.executable
    code = "import importlib.metadata as m; print(m.version('mindspore'))"
    if subprocess.run([python, "-c", code], capture_output=True, check=False).returncode:
        pytest.skip(f"{python} has no MindSpore: name one in DOCTOR_SMOKE_PYTHON")
    return python


@pytest.mark.smoke
@pytest.mark.slow
@pytest.mark.parametrize(("rate", "healthy"), [("0.05", True), ("3.0", False)])
def test_a_real_training_is_followed_step_by_step(run, trainer, rate, healthy):
    log = run.folder / "worker_0.log"
    env = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": ""}
    with open(log, "wb") as out:
        command = [trainer, "-c", TRAIN.replace("RATE", rate)]
        with subprocess.Popen(command, stdout=out, stderr=out, env=env, cwd=run.folder) as process:
            end = until_of(["the training is finished|loss is NAN or INF"])
            watcher = Watcher([str(run.folder)], Options(until=end, max_seconds=100))
            events, seen = [], set()
            while not watcher.ended:
                events += watcher.poll()
                seen |= {lane.step for lane in watcher.state().lanes}
            process.wait(60)
    assert watcher.ended == "until" and len(seen) > 3, log.read_text()[-2000:]
    lane = watcher.state().lanes[0]
    told = [event.alarm for event in alarms(events)]
    if healthy:
        assert (lane.rows, lane.epoch, lane.step) == (160, 2, 80)
        assert not [a for a in told if a.severity != "advice"]
    else:
        assert lane.rows < 160
        assert any(a.severity == "error" and not a.old and a.rule.startswith("NUM") for a in told)
    report = watcher.final()
    assert plain_report(report) == plain_report(engine.diagnose([str(run.folder)]))
    assert watcher.exit_code(report, "error") == (0 if healthy else 1)

"""Stands for the worker: tells events as it does, then does what SMOKE_FAKE says."""

import json
import os
import signal
import subprocess
import sys
import time

with open(sys.argv[1], encoding="utf-8") as file:
    job = json.load(file)
what = os.environ.get("SMOKE_FAKE", "")
channel = int(job["events"][3:]) if job["events"].startswith("fd:") else None


def say(event, stage, **values):
    line = json.dumps({"event": event, "rank": 0, "stage": stage, "t": 0.1, **values}) + "\n"
    os.write(channel, line.encode())


if what == "silent":
    sys.exit(7)
say("started", "start", pid=os.getpid())
say("stage", "import")
print("[WARNING] a line of the framework", flush=True)
if what == "hang":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"], start_new_session=True)
    say("stage", "compile")
    time.sleep(300)
if what == "killed":
    say("stage", "train")
    os.kill(os.getpid(), signal.SIGKILL)
if what == "full":
    line = {"event": "error", "rank": 0, "stage": "save", "t": 1, "type": "OSError",
            "message": "[Errno 28] No space left on device"}  # fmt: skip
    print("DOCTOR-SMOKE-EVENT " + json.dumps(line), file=sys.stderr, flush=True)
    sys.exit(1)
if what == "raises":
    say("error", "compile", type="TypeError", message="x2 should be same as x1")
    print("Traceback (most recent call last):", '  File "a.py", line 1, in <module>', sep="\n", file=sys.stderr)
    print("TypeError: For 'MatMul', the type of 'x2' should be same as 'x1', but got 'x1' with type Tensor[Float16] "
          "and 'x2' with type Tensor[Float32].", file=sys.stderr)  # fmt: skip
    sys.exit(1)
if what == "floods":
    for n in range(3000):
        print("x" * 1000, n)
    os.write(channel, b"no json\n\xff\xfe\n" + b'{"event": "measure"}\n')
if what == "writes":
    open("left.txt", "w").close()
for n in range(1, 41):
    say("step", "train", n=n, loss=6.0 / n, seconds=0.01, length=128)
say("done", "end")

"""A tool of an NPU host that is none: it answers by its own name and arguments from ``replay.json`` beside it.

Standard library only, started with ``-I -S``. ``replay.json`` maps a command line (as by shlex.join) to a text, to
null (exit 127, as a shell does) or to

    {"out": text, "err": text, "code": 0,          what it prints and how it ends
     "delay": seconds,                              waits before the first byte
     "hang": true,                                  never ends, ignores SIGTERM; "child": true: so does a child
     "garbage": bytes,                              that many bytes of every value instead of a text
     "half": true,                                  prints the first half, then dies of SIGKILL
     "signal": 11,                                  prints all, then dies of that signal
     "orphan": true,                                leaves a child behind that keeps the pipes open
     "endless": true}                               prints ``out`` again and again until nobody reads

A command line that is not listed is answered as npu-smi does. Every call is added to ``calls.log``, one JSON list a
line.
"""

import json
import os
import shlex
import signal
import sys
import time


def main():
    here = os.path.dirname(os.path.abspath(sys.argv[0]))
    argv = [os.path.basename(sys.argv[0]), *sys.argv[1:]]
    with open(os.path.join(here, "calls.log"), "a", encoding="utf-8") as log:
        log.write(json.dumps(argv) + "\n")
    with open(os.path.join(here, "replay.json"), encoding="utf-8") as file:
        replay = json.load(file)
    line = shlex.join(argv)
    if line not in replay:
        print("Command or option is not found.")
        return 1
    answer = replay[line]
    if answer is None:
        print(f"{argv[0]}: command not found", file=sys.stderr)
        return 127
    if isinstance(answer, str):
        answer = {"out": answer}
    return play(answer)


def play(answer):
    time.sleep(answer.get("delay", 0))
    if answer.get("hang"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if answer.get("child") and os.fork() == 0:
            # a grandchild that keeps the pipes open after its parent has gone
            time.sleep(600)
        while True:
            time.sleep(60)
    out, err = answer.get("out", "").encode(), answer.get("err", "").encode()
    if "garbage" in answer:
        out = (bytes(range(256)) * (answer["garbage"] // 256 + 1))[: answer["garbage"]]
    while answer.get("endless"):
        put(1, out or b"y\n")
    put(2, err)
    if answer.get("orphan") and os.fork() == 0:
        time.sleep(600)
    put(1, out[: len(out) // 2] if answer.get("half") else out)
    if answer.get("half"):
        os.kill(os.getpid(), signal.SIGKILL)
    if "signal" in answer:
        os.kill(os.getpid(), answer["signal"])
    return answer.get("code") or 0


def put(stream, data):
    while data:
        data = data[os.write(stream, data) :]


if __name__ == "__main__":
    sys.exit(main())

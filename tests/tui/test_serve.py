"""The screen in a browser: only with the key, only from the own page, only on this machine."""

import http.client
import re
import signal
import socket
import subprocess
import sys

import pytest

from doctor.tui import serve

pytest.importorskip("textual_serve")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.fixture(scope="module")
def served():
    """(port, key) of a server that really runs."""
    port = free_port()
    child = subprocess.Popen(
        [sys.executable, "-m", "doctor", "serve", "--port", str(port), "--lang", "en"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    said = "".join(child.stdout.readline() for _ in range(3))
    key = re.search(r"key=([\w-]+)", said)[1]
    for _ in range(200):
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                break
        signal.sigtimedwait([], 0.05)
    yield port, key
    child.send_signal(signal.SIGINT)
    assert child.wait(20) == 0


def get(port, path, **headers):
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    link.request("GET", path, headers=headers)
    answer = link.getresponse()
    return answer.status, dict(answer.getheaders()), answer.read().decode("utf-8", "replace")


def test_the_page_is_given_for_the_key_alone(served):
    port, key = served
    assert get(port, "/")[0] == 403
    assert get(port, "/?key=" + "x" * len(key))[0] == 403
    assert get(port, "/static/js/textual.js")[0] == 403
    status, headers, _ = get(port, f"/?key={key}")
    cookie = headers["Set-Cookie"]
    assert status == 303 and headers["Location"] == "/" and "HttpOnly" in cookie and "SameSite=Strict" in cookie
    status, headers, page = get(port, "/", Cookie=cookie.partition(";")[0])
    assert status == 200 and "MindSpore Doctor" in page and key not in page
    assert "googleapis" not in headers["Content-Security-Policy"] and "'self'" in headers["Content-Security-Policy"]


def test_other_pages_and_other_host_names_are_refused(served):
    port, key = served
    cookie = {"Cookie": f"{serve.COOKIE}={key}"}
    assert get(port, "/", **cookie)[0] == 200
    assert get(port, "/", **cookie, Host=f"evil.example:{port}")[0] == 403
    assert get(port, "/", **cookie, Origin="http://evil.example")[0] == 403
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
               "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}  # fmt: skip
    assert get(port, "/ws", **upgrade)[0] == 403
    assert get(port, "/ws", **upgrade, **cookie, Origin="http://evil.example")[0] == 403


@pytest.mark.slow
async def test_the_screen_comes_through_the_socket(served):
    import aiohttp

    port, key = served
    async with aiohttp.ClientSession(cookies={serve.COOKIE: key}) as session:
        url = f"http://127.0.0.1:{port}/ws?width=100&height=30"
        async with session.ws_connect(url, headers={"Cookie": f"{serve.COOKIE}={key}"}) as link:
            seen = b""
            while b"MindSpore Doctor" not in seen:
                message = await link.receive(timeout=60)
                assert message.type in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT), message
                seen += message.data if isinstance(message.data, bytes) else message.data.encode()
                seen = re.sub(rb"\x1b\[[0-9;]*m", b"", seen)


def test_another_address_needs_a_word(process):
    done = process("serve", "--host", "0.0.0.0", "--port", "1")
    assert done.code == 2 and "ssh -L" in done.err and not done.out
    assert process("serve", "--port", "70000").code == 2


def test_without_the_package_one_line_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "textual_serve.server", None)
    assert serve.serve("127.0.0.1", 8765, "en") == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "pip install" in said and "--no-index" in said


def test_a_port_that_is_taken_is_said(capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert serve.serve("127.0.0.1", taken.getsockname()[1], "en") == 2
    assert "cannot listen on port" in capsys.readouterr().err

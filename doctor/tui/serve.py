"""``doctor serve``: the screen in a browser, over textual-serve, for a machine that one reaches by ``ssh -L`` only.

Whoever reaches the page has the rights of the user who started it. So it listens on 127.0.0.1; every request must show
a key that was made for this start and stands in the address that is printed (other users of the machine reach
127.0.0.1 too); requests with another Host or Origin are refused, or a page from anywhere could open a connection
through the browser. There is no encryption: that is ssh's part.
"""

from __future__ import annotations

import hmac
import secrets
import shlex
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from doctor.i18n import tr

if TYPE_CHECKING:
    from aiohttp import web

LOCAL = ("127.0.0.1", "localhost", "::1")
COOKIE = "doctor_key"
POLICY = (
    "default-src 'self' data:; style-src 'self' 'unsafe-inline'; script-src 'self' 'unsafe-inline'; connect-src 'self'"
)
"""Nothing is fetched from elsewhere: the page of textual-serve names a font of another server."""

Handler = Callable[["web.Request"], Awaitable["web.StreamResponse"]]


def is_local(host: str) -> bool:
    """Whether an address is of this machine alone."""
    return host in LOCAL


def serve(host: str, port: int, lang: str, *, remote: bool = False) -> int:
    """Serve until Ctrl-C; returns the exit code. ``remote``: another address than this machine's own was agreed to."""
    if not is_local(host) and not remote:
        print("doctor: " + tr(lang, "serve.remote", host=host), file=sys.stderr)
        return 2
    try:
        import textual_serve.server  # noqa: F401
    except ImportError:
        print("doctor: " + tr(lang, "serve.missing"), file=sys.stderr)
        return 2
    server, key = made(host, port, lang)
    shown = f"[{host}]" if ":" in host else host
    print(tr(lang, "serve.address", url=f"http://{shown}:{port}/?key={key}", port=port), flush=True)
    if not is_local(host):
        print(tr(lang, "serve.warning"), file=sys.stderr, flush=True)
    try:
        server.serve()
    except OSError as error:
        print("doctor: " + tr(lang, "serve.port", port=port, why=error.strerror or ""), file=sys.stderr)
        return 2
    return 0


def made(host: str, port: int, lang: str) -> tuple[Any, str]:
    """(the server, the key that it asks for)."""
    from textual_serve.server import Server

    key = secrets.token_urlsafe(24)

    class Guarded(Server):  # type: ignore[misc, unused-ignore]
        """textual-serve behind the key."""

        def initialize_logging(self) -> None:
            """None: a log of requests would show the key."""

        async def on_startup(self, app: web.Application) -> None:
            """Prints nothing; what is to be said was said."""

        async def _make_app(self) -> web.Application:
            app = await super()._make_app()
            app.middlewares.append(guard(key, port, host))
            return app

    command = shlex.join([sys.executable, "-m", "doctor", "tui", "--lang", lang])
    shown = f"[{host}]" if ":" in host else host
    return Guarded(command, host=host, port=port, title="MindSpore Doctor", public_url=f"http://{shown}:{port}"), key


def guard(key: str, port: int, host: str) -> Any:
    """What stands before every answer: Host and Origin must be the own ones, and the key must be there."""
    from aiohttp import web

    names = {f"{one}:{port}" for one in (host, f"[{host}]", "127.0.0.1", "localhost", "[::1]")}

    def same(one: str) -> bool:
        return hmac.compare_digest(one.encode(), key.encode())

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        origin = request.headers.get("Origin")
        if request.headers.get("Host", "") not in names:
            raise web.HTTPForbidden(text="another host name")
        if origin is not None and origin.partition("://")[2] not in names:
            raise web.HTTPForbidden(text="another origin")
        if request.path == "/" and same(request.query.get("key", "")):
            # the key goes out of the address line into a cookie that no other site's page can make the browser send
            answer = web.HTTPSeeOther("/")
            answer.set_cookie(COOKIE, key, httponly=True, samesite="Strict", path="/")
            raise answer
        if not same(request.cookies.get(COOKIE, "")):
            raise web.HTTPForbidden(text="open the address that doctor serve printed, with its key")
        return await handler(request)

    @web.middleware
    async def sealed(request: web.Request, handler: Handler) -> web.StreamResponse:
        answer = await check(request, handler)
        if not answer.prepared:
            answer.headers["Content-Security-Policy"] = f"{POLICY} ws://{request.host}"
            answer.headers["X-Frame-Options"] = "DENY"
            answer.headers["Referrer-Policy"] = "no-referrer"
            answer.headers["Cache-Control"] = "no-store"
        return answer

    return sealed

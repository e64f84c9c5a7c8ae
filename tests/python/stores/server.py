"""A small S3-compatible server, which is also a web server, and makes mistakes when asked to.

Buckets are folders of `objects`: `s3://bench/a.parquet` is `objects["bench/a.parquet"]`, read by
`GET /bench/a.parquet`.
Requests below `/web/` need no signature, as a plain web server's; all others do.
"""

from __future__ import annotations

import hashlib
import threading
import time
import urllib.parse
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, ClassVar
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from collections.abc import Callable

KEY, SECRET, TOKEN = "AKIATESTKEY", "hush-hush-secret", "hush-hush-token"

#: Objects that a listing gives at once.
PAGE = 3

#: The modification time of all objects: equal, as after a fast copy.
CHANGED = 1_700_000_000


@dataclass
class Request:
    """The requests and the answers."""

    method: str
    path: str
    query: dict[str, str]
    #: The first and last byte; None: the whole object.
    range: tuple[int, int] | None
    headers: dict[str, str]
    status: int = 0
    #: Bytes of the body sent.
    sent: int = 0


@dataclass
class Store:
    """The objects, the received requests, and injected faults."""

    objects: dict[str, bytes] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    #: Called before each response; returns a status, or `hang`, `short`, `lie`, `whole`; None for a correct response.
    fault: Callable[[Request], Any] = field(default=lambda _: None)
    if_match: bool = True
    #: Seconds that an answer takes at least.
    delay: float = 0
    running: int = 0
    #: Requests that were in flight at once.
    most: int = 0
    tags: bool = True
    address: str = ""
    #: Ends requests that hang.
    released: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def gets(self) -> list[Request]:
        """Requests for content."""
        return [request for request in self.requests if request.method == "GET" and not request.query]

    @property
    def sent(self) -> int:
        """Bytes of content that were sent."""
        return sum(request.sent for request in self.gets)

    def settings(self, **others: Any) -> dict[str, Any]:
        """The URL of the server."""
        named = {"s3_endpoint": self.address, "s3_use_ssl": "off", "s3_region": "test-1"}
        return named | {"s3_access_key_id": KEY, "s3_secret_access_key": SECRET} | others


def tag_of(content: bytes) -> str:
    return f'"{hashlib.md5(content).hexdigest()}"'


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16
    store: ClassVar[Store]

    def log_message(self, *_: Any) -> None:
        """Says nothing."""

    def do_HEAD(self) -> None:
        self.counted()

    def do_GET(self) -> None:
        self.counted()

    def do_PROPFIND(self) -> None:
        self.counted()

    def counted(self) -> None:
        with self.store.lock:
            self.store.running += 1
            self.store.most = max(self.store.most, self.store.running)
        try:
            time.sleep(self.store.delay)
            self.answer()
        finally:
            with self.store.lock:
                self.store.running -= 1

    def answer(self) -> None:
        path, _, query = self.path.partition("?")
        request = Request(
            self.command,
            urllib.parse.unquote(path).lstrip("/"),
            dict(urllib.parse.parse_qsl(query, keep_blank_values=True)),
            None,
            {name.lower(): value for name, value in self.headers.items()},
        )
        content = self.store.objects.get(request.path, b"")
        asked = request.headers.get("range")
        if asked is not None:
            first, last = asked.removeprefix("bytes=").split("-")
            start = int(first) if first else len(content) - int(last)
            end = int(last) + 1 if first and last else len(content)
            request.range = (start, min(end, len(content)) - 1)
        with self.store.lock:
            self.store.requests.append(request)
            fault = self.store.fault(request)
        if fault == "hang":
            self.store.released.wait(30)
            self.close_connection = True
            return
        if isinstance(fault, int):
            self.give(request, fault, b"<Error><Code>Injected</Code><Echo>hush-hush</Echo></Error>")
        elif not request.path.startswith("web/") and not self.is_signed(request):
            self.give(request, 403, b"<Error><Code>AccessDenied</Code></Error>")
        elif request.method == "PROPFIND":
            self.give(request, 405, b"")
        elif request.query.get("list-type") == "2":
            self.give(request, 200, self.listing(request))
        else:
            self.give_object(request, fault)

    def is_signed(self, request: Request) -> bool:
        signed = request.headers.get("authorization", "")
        named = signed.startswith(f"AWS4-HMAC-SHA256 Credential={KEY}/") and "/test-1/s3/aws4_request" in signed
        return named and "Signature=" in signed

    def listing(self, request: Request) -> bytes:
        bucket, prefix = request.path.rstrip("/"), request.query.get("prefix", "")
        after = request.query.get("continuation-token", "")
        keys = sorted(path.removeprefix(f"{bucket}/") for path in self.store.objects if path.startswith(f"{bucket}/"))
        keys = [key for key in keys if key.startswith(prefix) and key > after]
        items = ""
        for key in keys[:PAGE]:
            content = self.store.objects[f"{bucket}/{key}"]
            items += (
                f"<Contents><Key>{escape(key)}</Key><Size>{len(content)}</Size><ETag>{escape(tag_of(content))}</ETag>"
                f"<LastModified>2023-11-14T22:13:20.000Z</LastModified></Contents>"
            )
        more = len(keys) > PAGE
        if more:
            items += f"<NextContinuationToken>{escape(keys[PAGE - 1])}</NextContinuationToken>"
        head = f"<Name>{bucket}</Name><IsTruncated>{str(more).lower()}</IsTruncated>"
        return f"<?xml version='1.0'?><ListBucketResult>{head}{items}</ListBucketResult>".encode()

    def give_object(self, request: Request, fault: Any) -> None:
        content = self.store.objects.get(request.path)
        if content is None:
            self.give(request, 404, b"<Error><Code>NoSuchKey</Code></Error>")
            return
        tag = tag_of(content)
        wanted = request.headers.get("if-match")
        if self.store.if_match and wanted is not None and wanted != tag:
            self.give(request, 412, b"<Error><Code>PreconditionFailed</Code></Error>")
            return
        headers = {"ETag": tag} if self.store.tags else {}
        headers["Last-Modified"] = formatdate(CHANGED, usegmt=True)
        if request.range is None or fault == "whole":
            self.give(request, 200, content, headers)
            return
        start, end = request.range
        body = content[start : end + 1]
        headers["Content-Range"] = f"bytes {start}-{end}/{len(content)}"
        announced = len(body)
        if fault in ("short", "lie"):
            body = body[: len(body) // 2]
        if fault == "lie":
            announced = len(body)
        self.give(request, 206, body, headers, announced)
        if fault == "short":
            self.wfile.flush()
            self.close_connection = True

    def give(
        self,
        request: Request,
        status: int,
        body: bytes,
        headers: dict[str, str] | None = None,
        announced: int | None = None,
    ) -> None:
        request.status = status
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if announced is None else announced))
        self.end_headers()
        if self.command != "HEAD":
            request.sent = len(body)
            self.wfile.write(body)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_: Any) -> None:
        """Clients may go away."""


def serve() -> tuple[Store, Server]:
    """A server that runs until its `shutdown`."""
    store = Store()
    server = Server(("127.0.0.1", 0), type("Own", (Handler,), {"store": store}))
    store.address = f"127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    return store, server

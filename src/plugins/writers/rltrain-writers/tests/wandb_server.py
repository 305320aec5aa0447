"""A server that answers wandb's client just enough for a run, and can fall silent."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PROJECT = {"id": "p", "name": "rltrain", "entity": {"id": "e", "name": "me"}}
"""Any project."""


class Server(ThreadingHTTPServer):
    """Keeps what it is sent."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.uri = f"http://127.0.0.1:{self.server_address[1]}"
        self.bodies: list[bytes] = []
        self.history: list[dict[str, Any]] = []
        self.silent = threading.Event()
        self.closing = threading.Event()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that are gone."""

    def answer(self, path: str, body: bytes) -> Any:
        self.bodies.append(body)
        given = json.loads(body) if body.startswith(b"{") else {}
        rows = given.get("files", {}).get("wandb-history.jsonl", {}).get("content", [])
        self.history += map(json.loads, rows)
        variables, query = given.get("variables", {}), given.get("query", "")
        if "upsertBucket" in query:
            bucket = {"id": "b", "name": variables["name"], "project": PROJECT}
            return {"data": {"upsertBucket": {"bucket": bucket, "inserted": True}}}
        if "createRunFiles" in query:
            files = [{"name": name, "uploadUrl": f"{self.uri}/up"} for name in variables["files"]]
            made = {"runID": "b", "uploadHeaders": [], "files": files}
            return {"data": {"createRunFiles": made}}
        return {"data": {}}


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.server.silent.is_set():
            self.server.closing.wait(100)
            return
        answer = json.dumps(self.server.answer(self.path, body)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_PUT = do_POST

    def log_message(self, *arguments: Any) -> None:
        """Print nothing."""


@contextmanager
def serving() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.closing.set()
        server.shutdown()

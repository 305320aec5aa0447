from __future__ import annotations

import http.server
import json
import threading

import pytest

import rltrain
from rltrain.errors import UsageError
from rltrain_devkit import WriterConformance
from rltrain_webhook.options import WebhookOptions


class TestWebhook(WriterConformance):
    writer = "webhook"
    options = {"url": "http://127.0.0.1:9", "finish_timeout": 0.1}  # Where nobody listens.


@pytest.fixture
def server():
    """Serve on a free port; has the events that were posted."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.server.events.append(json.loads(body))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as serving:
        serving.events = []
        thread = threading.Thread(target=serving.serve_forever, args=(0.05,))
        thread.start()
        yield serving
        serving.shutdown()
        thread.join()


def test_a_run_is_posted(server, tmp_path):
    url = f"http://127.0.0.1:{server.server_address[1]}"
    options = {"num_envs": 8, "max_iterations": 2, "device": "cpu", "log_root": str(tmp_path)}
    result = rltrain.train(**options, writers=["webhook"], webhook={"url": url})
    events = [event["event"] for event in server.events]
    assert (events[0], events[-1]) == ("started", "ended")
    assert server.events[0]["run_dir"] == result.run_dir
    rows = [row for event in server.events for row in event.get("rows", ())]
    assert rows[-1]["frames"] == result.frames
    assert len(rows) == 2
    assert server.events[-1]["outcome"] == "finished"


def test_a_wrong_address_is_refused_before_a_rank_starts():
    with pytest.raises(UsageError, match=r"url=example\.com must begin with http"):
        rltrain.train(writers=["webhook"], webhook={"url": "example.com"})
    with pytest.raises(ValueError, match="finish_timeout=0 must be"):
        WebhookOptions(finish_timeout=0)

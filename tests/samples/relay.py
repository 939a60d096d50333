"""An HTTP relay that records each request with its response."""

import http.client
import threading
import urllib.parse
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# These headers differ on each hop.
HOP_HEADERS = {"host", "connection", "keep-alive", "transfer-encoding", "content-length"}


@dataclass
class Exchange:
    method: str
    path: str
    request: bytes
    status: int
    response: bytes


class Relay:
    """Listens on a free port of this machine and forwards to the URL, until the `with` block ends."""

    def __init__(self, target):
        self.target = urllib.parse.urlsplit(target).netloc
        self.exchanges = []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self.handler())
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def handler(self):
        relay = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # Headers and body are two writes, and the second must not wait for an acknowledgement.
            disable_nagle_algorithm = True

            def forward(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                upstream = http.client.HTTPConnection(relay.target, timeout=30)
                upstream.putrequest(self.command, self.path, skip_accept_encoding=True)
                for name, value in self.headers.items():
                    if name.lower() not in HOP_HEADERS:
                        upstream.putheader(name, value)
                if "Content-Length" in self.headers:
                    upstream.putheader("Content-Length", str(len(body)))
                upstream.endheaders(body)
                response = upstream.getresponse()
                content = response.read()
                relay.exchanges.append(
                    Exchange(self.command, self.path, body, response.status, content)
                )
                self.send_response_only(response.status)
                for name, value in response.getheaders():
                    if name.lower() not in HOP_HEADERS:
                        self.send_header(name, value)
                if response.status != 204:
                    self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
                upstream.close()

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = forward

            def log_message(self, *_):
                pass

        return Handler

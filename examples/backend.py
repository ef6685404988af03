#!/usr/bin/env python3
"""Demo backends: HTTP servers on 127.0.0.1 that say who they are and what they were asked.

usage: backend.py NAME=PORT...        for example: backend.py shop=9101 cart=9102
"""

import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def handler(name):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # so that Envoy can keep its connections

        def answer(self):
            self.rfile.read(int(self.headers.get("content-length") or 0))
            scheme = self.headers.get("x-forwarded-proto", "http")
            body = f"{name} answers {self.command} {scheme}://{self.headers.get('host', '')}{self.path}\n".encode()
            self.send_response(200)
            self.send_header("content-type", "text/plain; charset=utf-8")
            self.send_header("content-length", str(len(body)))
            self.send_header("x-backend", name)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = answer

        def log_message(self, *_):
            pass

    return Handler


def main():
    try:
        servers = [
            ThreadingHTTPServer(("127.0.0.1", int(port)), handler(name))
            for name, port in (argument.split("=") for argument in sys.argv[1:])
        ]
    except ValueError:
        sys.exit(__doc__.strip())
    except OSError as error:
        sys.exit(f"backend.py: {error}")
    threads = [threading.Thread(target=server.serve_forever, daemon=True) for server in servers]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Stands in for the image ealen/echo-server: answers 200, with the response headers that the header X-ECHO-HEADER lists.

The list has the form `Name:value, Name:value`; a name may repeat. PORT is the port.
"""
import http.server
import json
import os


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        length = int(self.headers.get("Content-Length") or 0)
        self.rfile.read(length)
        body = json.dumps({"path": self.path, "host": self.headers.get("Host"), "headers": dict(self.headers)}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for entry in (self.headers.get("X-ECHO-HEADER") or "").split(", "):
            name, colon, value = entry.partition(":")
            if colon:
                self.send_header(name.strip(), value.strip())
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = answer


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 128


Server(("", int(os.environ.get("PORT", "3000"))), Handler).serve_forever()

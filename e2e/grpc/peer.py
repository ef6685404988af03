#!/usr/bin/env python3
"""gRPC peers for the tests: real grpcio, generic handlers with bytes, no generated code.

usage: peer.py backend NAME PORT   serves every unary method on 127.0.0.1 with NAME; SIGTERM lets calls under way end
       peer.py server NAME PORT    the same, configured over xDS (GRPC_XDS_BOOTSTRAP)
       peer.py client PORT         makes calls on request at http://127.0.0.1:PORT (GRPC_XDS_BOOTSTRAP):
         /call?target=T[&n=N][&method=M][&timeout=S][&authority=A]   N calls, one after another
         /load/start?target=T&rate=R    R calls a second until /load/stop; /load says how many there were
         /forget?target=T               closes the channel
"""

import collections
import json
import signal
import sys
import threading
import time
from concurrent import futures
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

import grpc

METHOD = "/shop.Cart/Get"


class Named(grpc.GenericRpcHandler):
    """Answers whatever is called with a name."""

    def __init__(self, name):
        self.handler = grpc.unary_unary_rpc_method_handler(lambda request, context: name.encode())

    def service(self, details):
        return self.handler


def serve(name, port, xds):
    server = grpc.server(futures.ThreadPoolExecutor(16), handlers=[Named(name)], xds=xds)
    address = f"127.0.0.1:{port}"
    if xds:
        credentials = grpc.xds_server_credentials(grpc.insecure_server_credentials())
        bound = server.add_secure_port(address, credentials)
    else:
        bound = server.add_insecure_port(address)
    # Over xDS nothing is bound before the listener has come.
    assert xds or bound == int(port), f"port {port} is taken"
    server.start()
    print(f"{name} serves {address}", flush=True)
    signal.sigwait({signal.SIGTERM})
    server.stop(30).wait()


class Client:
    def __init__(self):
        self.lock = threading.Lock()
        self.channels = {}
        self.load = None

    def channel(self, target, authority=None):
        with self.lock:
            if (target, authority) not in self.channels:
                # At most 1 s between attempts, so that a test need not wait for minutes.
                options = [("grpc.max_reconnect_backoff_ms", 1000)]
                if authority:
                    options.append(("grpc.default_authority", authority))
                self.channels[target, authority] = grpc.insecure_channel(target, options)
            return self.channels[target, authority]

    def call(self, target, n=1, method=METHOD, timeout=10, authority=None):
        call = self.channel(target, authority).unary_unary(method)
        tally = Tally()
        for _ in range(int(n)):
            tally.add(call.future(b"", timeout=float(timeout)))
        return tally.wait()

    def load_start(self, target, rate):
        self.load = Load(self.channel(target).unary_unary(METHOD), float(rate))
        return {}

    def load_progress(self):
        return self.load.tally.report()

    def load_stop(self):
        return self.load.stop()

    def forget(self, target):
        with self.lock:
            self.channels.pop((target, None)).close()
        return {}


class Tally:
    """What became of calls."""

    def __init__(self):
        self.changed = threading.Condition()
        self.pending = 0
        self.answers = collections.Counter()
        self.failures = collections.Counter()
        self.start = time.monotonic()

    def add(self, future):
        with self.changed:
            self.pending += 1
        future.add_done_callback(self.done)

    def done(self, future):
        with self.changed:
            self.pending -= 1
            if future.code() == grpc.StatusCode.OK:
                self.answers[future.result().decode()] += 1
            else:
                self.failures[f"{future.code().name}: {future.details()}"] += 1
            self.changed.notify_all()

    def wait(self):
        with self.changed:
            self.changed.wait_for(lambda: self.pending == 0)
        return self.report()

    def report(self):
        with self.changed:
            milliseconds = (time.monotonic() - self.start) * 1000
            return {"answers": self.answers, "failures": self.failures, "milliseconds": milliseconds}


class Load:
    """Calls at a steady rate, whether the earlier ones are answered or not."""

    def __init__(self, call, rate):
        self.call = call
        self.interval = 1 / rate
        self.tally = Tally()
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        due = time.monotonic()
        while not self.stopping.wait(max(0, due - time.monotonic())):
            self.tally.add(self.call.future(b"", timeout=60))
            due += self.interval

    def stop(self):
        self.stopping.set()
        self.thread.join()
        return self.tally.wait()


def control(port):
    client = Client()
    actions = {
        "/ready": dict,
        "/call": client.call,
        "/load": client.load_progress,
        "/load/start": client.load_start,
        "/load/stop": client.load_stop,
        "/forget": client.forget,
    }

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            url = urlsplit(self.path)
            body = json.dumps(actions[url.path](**dict(parse_qsl(url.query)))).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    ThreadingHTTPServer(("127.0.0.1", int(port)), Handler).serve_forever()


if __name__ == "__main__":
    kind, arguments = sys.argv[1], sys.argv[2:]
    if kind == "client":
        control(*arguments)
    else:
        serve(*arguments, xds=kind == "server")

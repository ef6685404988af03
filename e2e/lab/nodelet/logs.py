"""What `kubectl logs` and port-forwards need of the kubelet's API: GET /containerLogs/NAMESPACE/POD/CONTAINER, and `forward`."""
import http.server
import os
import socket
import socketserver
import ssl
from urllib.parse import parse_qs, urlsplit

from api import DIR
from forward import forward


class Logs(http.server.BaseHTTPRequestHandler):
    pods = {}

    def do_GET(self):
        url = urlsplit(self.path)
        kind, *where = url.path.strip("/").split("/")
        pod = next((p for p in list(self.pods.values()) if p.name == "/".join(where[:2])), None)
        if kind == "portForward" and pod:
            # The API server has `port`, or a port in each `ports`.
            query = parse_qs(url.query)
            return forward(self, pod, [int(one) for one in query.get("port", []) + query.get("ports", [])])
        path = f"{pod.root}/{where[2]}.log" if pod and len(where) == 3 else ""
        if kind != "containerLogs" or not os.path.isfile(path):
            return self.send_error(404)
        query = parse_qs(url.query)
        self.send_response(200)
        self.end_headers()
        with open(path, "rb") as f:
            text = f.read()
            if "tailLines" in query:
                lines = text.splitlines(keepends=True)
                text = b"".join(lines[max(len(lines) - int(query["tailLines"][0]), 0):])
            self.wfile.write(text)
            while query.get("follow") == ["true"] and not pod.stop.wait(0.3):
                self.wfile.write(f.read())

    def log_message(self, *args):
        pass


class LogServer(socketserver.ThreadingTCPServer):  # an HTTPServer would look its own address up in DNS first
    address_family = socket.AF_INET6
    allow_reuse_address = daemon_threads = True


def serve_logs(pods):
    Logs.pods = pods
    server = LogServer(("::", 10250), Logs)  # all nodes' addresses
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{DIR}/pki/api.crt", f"{DIR}/pki/api.key")
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    server.serve_forever()

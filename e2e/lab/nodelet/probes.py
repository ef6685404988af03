"""Probes, and the actions that they share with lifecycle hooks."""
import http.client
import socket
import ssl
import subprocess
import time

from images import local_program


class Probe:
    """One probe of a container: when it is due, and what it said so far."""

    def __init__(self, container, spec, eager=0.0):
        self.container, self.spec = container, spec
        self.eager = eager  # the period until the first success, when that is wanted sooner
        self.succeeded = self.failed = 0  # in a row
        self.due = time.monotonic() + (spec.initial_delay_seconds or 0)

    def run(self):
        """Carries it out if it is due; returns whether it was."""
        if time.monotonic() < self.due:
            return False
        ok, self.message = act(self.container, self.spec, self.spec.timeout_seconds or 1)
        self.succeeded, self.failed = (self.succeeded + 1, 0) if ok else (0, self.failed + 1)
        period = self.spec.period_seconds or 10
        self.due = time.monotonic() + (min(period, self.eager) if self.eager and not self.passes else period)
        return True

    @property
    def passes(self):
        return self.succeeded >= (self.spec.success_threshold or 1)

    @property
    def fails(self):
        """Whether it has failed often enough to count; seconds of an eager probe count as its period does."""
        threshold = self.spec.failure_threshold or 3
        if self.eager:
            threshold *= (self.spec.period_seconds or 10) / min(self.spec.period_seconds or 10, self.eager)
        return self.failed >= threshold


def act(container, handler, timeout):
    """Carries out a probe or a lifecycle hook; returns its success and what went wrong."""
    try:
        if handler.http_get:
            status = get(container, handler.http_get, timeout)
            return 200 <= status < 400, f"HTTP probe failed with statuscode: {status}"
        if handler._exec:  # in the process's own mount namespace, for the files the command may look at
            first, *rest = handler._exec.command
            command = [*(local_program(first) or [first]), *rest]
            enter = ["nsenter", "-t", str(container.process.pid), "-m", "-n", *command]
            done = subprocess.run(enter, env=container.environment(), capture_output=True, text=True, timeout=timeout)
            return not done.returncode, (done.stdout + done.stderr).strip()[-500:]
        if handler.tcp_socket:
            where = handler.tcp_socket.host or container.pod.ip, port(container, handler.tcp_socket.port)
            socket.create_connection(where, timeout).close()
        elif getattr(handler, "sleep", None):
            time.sleep(min(handler.sleep.seconds, timeout))
        return True, ""  # a gRPC probe too: it is not carried out
    except (OSError, http.client.HTTPException, subprocess.TimeoutExpired) as e:
        return False, str(e)


def get(container, action, timeout):
    tls = {"context": ssl._create_unverified_context()} if action.scheme == "HTTPS" else {}
    kind = http.client.HTTPSConnection if tls else http.client.HTTPConnection
    connection = kind(action.host or container.pod.ip, port(container, action.port), timeout=timeout, **tls)
    try:
        connection.request("GET", action.path or "/", headers={h.name: h.value for h in action.http_headers or []})
        return connection.getresponse().status
    finally:
        connection.close()


def port(container, port):
    named = (p.container_port for p in container.spec.ports or [] if p.name == port)
    return port if isinstance(port, int) else next(named, 0)

#!/usr/bin/env python3
"""The terminal recording of the front page: docs/diagrams/terminal.svg.

recording.py            runs the commands below with the program, a real Envoy, and the demo backends, and draws their output
recording.py --check    runs them too, and fails if the picture is not up to date

LOCKGATE is the program (target/debug/lockgate), ENVOY the Envoy (.venv/bin/envoy-bin). The ports, times, and hashes of a run are replaced,
so every run draws the same picture. The text is part of the picture.
"""
import html
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PICTURE = os.path.join(ROOT, "docs/diagrams/terminal.svg")
LOCKGATE = os.path.abspath(os.environ.get("LOCKGATE", os.path.join(ROOT, "target/debug/lockgate")))
ENVOY = os.path.abspath(os.environ.get("ENVOY", os.path.join(ROOT, ".venv/bin/envoy-bin")))
COLUMNS, DEADLINE = 108, 60
BACKENDS = {"shop": 9101, "cart": 9102, "welcome": 9103}  # the ports in examples/services.yaml
# The ports of a default installation, and those of this run.
PORTS = {"http": 8080, "https": 8443, "xds": 18000, "admin": 18001, "stats": 8002, "envoy": 9901, **BACKENDS}

SERVE = "lockgate serve --manifests examples 2>lockgate.log &"
CART = "curl http://shop.localhost:8080/cart/items"
STATUS = "curl --silent --output /dev/null --write-out '%{http_code}\\n' http://shop.localhost:8080/cart/items"
SHOP = "curl http://shop.localhost:8080/"
MISTAKE = "sed -i 's/name: cart$/name: carts/' examples/shop.yaml"
WARNING = "grep 'WARN.*carts' lockgate.log"
EXPLAIN = "lockgate explain --manifests examples http://shop.localhost/cart/items"
TYPO = "sed -i 's/pathType: Prefix/pathType: Prefx/' examples/shop.yaml"
CHECK = "lockgate check --level error examples/shop.yaml"


def free_ports(names):
    """A free port for each name, all different."""
    sockets = [socket.socket() for _ in names]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = {name: one.getsockname()[1] for name, one in zip(names, sockets)}
    for one in sockets:
        one.close()
    return ports


def wait_for(what, condition):
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.05)
    sys.exit(f"recording.py: {what} took longer than {DEADLINE} s")


class Run:
    """The running programs, in a directory of their own."""

    def __init__(self, at):
        self.at, self.processes = at, []
        self.ports = free_ports(PORTS)
        shutil.copytree(os.path.join(ROOT, "examples"), os.path.join(at, "examples"), ignore=shutil.ignore_patterns("xds-server"))
        services = os.path.join(at, "examples/services.yaml")
        with open(services, encoding="utf-8") as file:
            text = file.read()
        for name, port in BACKENDS.items():
            text = text.replace(str(port), str(self.ports[name]))
        with open(services, "w", encoding="utf-8") as file:
            file.write(text)

    def launch(self, name, *command):
        with open(os.path.join(self.at, f"{name}.log"), "w", encoding="utf-8") as log:
            self.processes.append(subprocess.Popen(command, cwd=self.at, stdout=log, stderr=log, stdin=subprocess.DEVNULL))

    def start(self):
        ports = {name: str(port) for name, port in self.ports.items()}
        backends = [f"{name}={ports[name]}" for name in BACKENDS]
        xds = f"127.0.0.1:{ports['xds']}"
        self.launch("backend", sys.executable, os.path.join(ROOT, "examples/backend.py"), *backends)
        self.launch("lockgate", LOCKGATE, "serve", "--manifests", "examples", "--xds-address", xds,
                    "--admin-address", f"127.0.0.1:{ports['admin']}", "--http-port", ports["http"],
                    "--https-port", ports["https"], "--stats-port", ports["stats"])
        wait_for("the controller", lambda: self.answers(f"http://127.0.0.1:{ports['admin']}/readyz"))
        bootstrap = subprocess.run([LOCKGATE, "bootstrap", "--xds-address", xds, "--node-id", "demo",
                                    "--envoy-admin-address", f"127.0.0.1:{ports['envoy']}"],
                                   capture_output=True, text=True, check=True).stdout
        with open(os.path.join(self.at, "bootstrap.yaml"), "w", encoding="utf-8") as file:
            file.write(bootstrap)
        self.launch("envoy", ENVOY, "--config-path", "bootstrap.yaml", "--use-dynamic-base-id", "--log-level", "warning")
        wait_for("Envoy", lambda: self.answers(f"http://127.0.0.1:{ports['http']}/"))

    def stop(self):
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()

    @staticmethod
    def answers(url):
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:
                return answer.status == 200
        except OSError:
            return False

    def run(self, command):
        """What a command prints, with the ports of a default installation."""
        real = command.replace("lockgate ", f"'{LOCKGATE}' ", 1) if command.startswith("lockgate ") else command
        real = real.replace("curl ", f"curl --silent --connect-to shop.localhost:8080:127.0.0.1:{self.ports['http']} ", 1)
        done = subprocess.run(["bash", "-c", real], cwd=self.at, capture_output=True, text=True, timeout=DEADLINE, check=False)
        return self.normalized(done.stdout + done.stderr)

    def normalized(self, text):
        for name, port in self.ports.items():
            text = text.replace(f":{port}", f":{PORTS[name]}")
        return text.rstrip("\n").splitlines()

    def warnings(self):
        """What WARNING prints, without the times."""
        wait_for("a warning", lambda: self.run(WARNING))
        return [re.sub(r"^\S+ +", "", line) for line in self.run(WARNING)]


def record(run):
    """The commands and their output."""
    run.start()
    lines = [(SERVE, [])]
    lines.append((CART, run.run(CART)))
    run.run(MISTAKE)
    lines.append((MISTAKE, []))
    wait_for("the change", lambda: run.run(STATUS) == ["503"])
    lines.append((STATUS, run.run(STATUS)))
    lines.append((WARNING, run.warnings()))
    lines.append((SHOP, run.run(SHOP)))
    lines.append((EXPLAIN, run.run(EXPLAIN)))
    run.run(TYPO)
    lines.append((TYPO, []))
    lines.append((CHECK, run.run(CHECK)))
    return lines


def wrapped(line):
    return textwrap.wrap(line, COLUMNS, subsequent_indent="    ", drop_whitespace=True, break_on_hyphens=False) or [""] \
        if len(line) > COLUMNS else [line]


def drawn(scenes):
    """The picture. Commands appear one after the other, if the viewer allows animations."""
    rows, after = [], 0.5
    for command, output in scenes:
        rows += [("$ " + line if at == 0 else line, "c", after) for at, line in enumerate(wrapped(command))]
        after += 0.8
        rows += [(line, "o", after) for one in output for line in wrapped(one)]
        after += 1.0 + 0.12 * len(output)
    height, line_height = 24 + 18 * len(rows), 18
    delays = sorted({delay for _, _, delay in rows})
    style = "".join(f".d{at}{{animation-delay:{delay:.2f}s}}" for at, delay in enumerate(delays))
    texts = "\n".join(
        f'<text x="14" y="{26 + line_height * at}" class="{kind} d{delays.index(delay)}" xml:space="preserve">{html.escape(text, False)}</text>'
        for at, (text, kind, delay) in enumerate(rows) if text)
    transcript = "\n".join(text for text, _, _ in rows).replace("]]>", "]] >")
    return f'''<svg xmlns="http://www.w3.org/2000/svg" width="{COLUMNS * 8 + 28}" height="{height}" viewBox="0 0 {COLUMNS * 8 + 28} {height}" role="img">
<title>A terminal: Lockgate serves examples, explains a mistake, and checks a file</title>
<style>text{{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#c9d1d9}}.c{{fill:#7ee787;font-weight:600}}
@media(prefers-reduced-motion:no-preference){{text{{animation:show .2s both}}}}@keyframes show{{from{{opacity:0}}to{{opacity:1}}}}{style}</style>
<rect width="100%" height="100%" rx="8" fill="#0d1117"/>
{texts}
<metadata><![CDATA[
{transcript}
]]></metadata>
</svg>
'''


def main():
    for program in (LOCKGATE, ENVOY):
        if not os.access(program, os.X_OK):
            sys.exit(f"recording.py: no program {program}: build Lockgate (make build), and download Envoy (scripts/envoy.sh)")
    with tempfile.TemporaryDirectory() as at:
        run = Run(at)
        try:
            picture = drawn(record(run))
        finally:
            run.stop()
    if sys.argv[1:] == ["--check"]:
        with open(PICTURE, encoding="utf-8") as file:
            if file.read() != picture:
                sys.exit("recording.py: docs/diagrams/terminal.svg is not up to date: run scripts/recording.py")
        return
    with open(PICTURE, "w", encoding="utf-8") as file:
        file.write(picture)
    print(re.search(r"CDATA\[\n(.*)\n\]\]", picture, re.S).group(1))


main()

"""The API server, as all parts of the nodelet use it, and what every file needs."""
import os
import re
import shlex
import subprocess
import sys
import threading
import time
from datetime import datetime, timezone

import urllib3
from kubernetes import client, config, watch

BIN, LAB, DIR = os.environ["BIN"], os.environ["LAB"], os.environ["DIR"]
FAMILIES = os.environ.get("FAMILIES", "ipv4")  # ipv4, ipv6 or dual
API_IP, DNS_IP = ("fd00:96::1", "fd00:96::a") if FAMILIES == "ipv6" else ("10.96.0.1", "10.96.0.10")


def of_families(ipv4, ipv6):
    """Those of the two addresses that the lab has, the one of its first family first."""
    return {"ipv4": [ipv4], "ipv6": [ipv6], "dual": [ipv4, ipv6]}[FAMILIES]


os.environ["PATH"] = PATH = f"{BIN}:{BIN}/venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

settings = client.Configuration()
config.load_kube_config(client_configuration=settings)
settings.connection_pool_maxsize = 200  # every pod has a thread, and all share one client
settings.retries = urllib3.Retry(0)
v1 = client.CoreV1Api(client.ApiClient(settings))

# What a call raises when the API server is down, or has no etcd: everybody who calls goes on without it.
UNREACHABLE = (urllib3.exceptions.HTTPError, OSError)
# Seconds to connect, and to wait for an answer.
PATIENCE = (3, 10)


class NotYet(Exception):
    """A container cannot be started yet; args are the reason and the message of its waiting state."""


class Stopped(Exception):
    """The pod was deleted while it was starting."""


def now():
    return datetime.now(timezone.utc).isoformat()


def log(*args):
    print(now(), *args, file=sys.stderr)


def run(command, check=True):
    return subprocess.run(shlex.split(command), check=check, capture_output=True, text=True).stdout


def expand(text, env):
    """Kubernetes' own $(NAME) references; an unknown name stays as it is."""
    return re.sub(r"\$\(([\w.-]+)\)", lambda m: env.get(m[1], m[0]), text)


def event(meta, reason, message, kind="Warning"):
    """An Event on a pod, if the API server takes it: what `kubectl describe` shows."""
    on = client.V1ObjectReference(
        api_version="v1", kind="Pod", namespace=meta.namespace, name=meta.name, uid=meta.uid)
    body = client.CoreV1Event(
        metadata=client.V1ObjectMeta(generate_name=f"{meta.name}."), involved_object=on, reason=reason, message=message,
        type=kind, count=1, first_timestamp=now(), last_timestamp=now(), source=client.V1EventSource(component="nodelet"))

    def create():
        try:
            v1.create_namespaced_event(meta.namespace, body, _request_timeout=PATIENCE)
        except (client.ApiException, *UNREACHABLE):
            pass  # its namespace may be going, and nothing depends on it

    threading.Thread(target=create, daemon=True).start()


def follow(list_all, on_list, on_event):
    """Lists and watches for ever, with a new list whenever a watch ends, so that no event is lost for good."""
    while True:
        try:
            listed = list_all(_request_timeout=(3, 60))
            on_list(listed.items)
            version = listed.metadata.resource_version
            for event in watch.Watch().stream(list_all, resource_version=version, timeout_seconds=300,
                                              _request_timeout=(3, 330)):
                on_event(event["type"], event["object"])
        except Exception as e:
            log(list_all.__name__, repr(e)[:300])
            time.sleep(1)

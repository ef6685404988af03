"""One pod: from its binding to a node to its removal, on a thread of its own."""
import os
import shutil
import signal
import threading
import time

from kubernetes import client

import nodes
from api import (
    DIR, DNS_IP, LAB, PATIENCE, UNREACHABLE, NotYet, Stopped, event, follow, log, now, of_families, run, v1)
from container import Container
from volumes import Volumes

NODE_IPS = nodes.NODES["node-1"]  # the machine, whichever node a pod is on
pods = {}  # uid: Pod


class Pod:
    """One pod, until `stop` is set and its processes have ended."""

    def __init__(self, pod, number):
        self.meta, self.spec, self.restart = pod.metadata, pod.spec, pod.spec.restart_policy
        self.name = f"{self.meta.namespace}/{self.meta.name}"
        self.node = self.spec.node_name
        self.owner = next((owner.uid for owner in self.meta.owner_references or []), self.meta.uid)
        self.ips = of_families(f"10.244.{number // 250}.{number % 250 + 2}", f"fd00:244::{number + 0x100:x}")
        self.ip = self.ips[0]
        self.netns, self.veth, self.root = f"{LAB}-p{number}", f"veth{number}", f"{DIR}/pods/{number}"
        self.started, self.reported, self.since = now(), None, {}
        self.stop, self.grace = threading.Event(), 0
        self.grace_period = self.spec.termination_grace_period_seconds or 0
        self.volumes = Volumes(self, f"{self.root}/volumes")
        # In the order of their start; those that stay are sidecars.
        self.init_containers = [Container(self, c, c.restart_policy == "Always") for c in self.spec.init_containers or []]
        self.sidecars = [c for c in self.init_containers if c.sidecar]
        self.containers = [Container(self, c) for c in self.spec.containers]
        threading.Thread(target=self.live, daemon=True).start()

    def live(self):
        try:
            self.set_up()
            self.supervise()
        except Stopped:
            pass
        except Exception as e:
            log("pod", self.name, repr(e))
        self.stop.wait()  # a pod that ended by itself keeps its log until it is deleted
        self.tear_down()

    def set_up(self):
        os.makedirs(self.volumes.root)
        if not self.node:
            nodes.place(self, lambda: list(pods.values()))
        self.make_network()
        with open(f"{self.root}/pod", "w") as f:
            f.write(f"{self.netns} {self.ip} {self.name}\n")
        for volume in self.spec.volumes or []:
            self.volumes.make(volume)
        for c in self.init_containers:
            self.retry(c.spawn)
            while not self.passed(c):
                if self.stop.wait(0.1):
                    raise Stopped

    def passed(self, container):
        """Whether an init container is done, or a sidecar has started, so that the next one's turn has come."""
        states = {c.name: c.check() for c in self.sidecars if c.process}  # those before it go on, too
        if container.sidecar:
            self.report("Pending", states)
            return container.started
        code = container.process.poll()
        if code:
            event(self.meta, "BackOff", f"init container {container.name} ended, exit code {code}")
            if self.restart == "Never":
                self.report("Failed", states)
                self.stop.wait()
            self.report("Pending", states)
            self.stop.wait(1)
            self.retry(container.spawn)
        return code == 0

    def make_network(self):
        # `ip netns exec NAME` mounts the files of /etc/netns/NAME over the files of /etc.
        os.makedirs(f"/etc/netns/{self.netns}", exist_ok=True)
        with open(f"/etc/netns/{self.netns}/resolv.conf", "w") as f:
            f.write(f"nameserver {DNS_IP}\noptions ndots:5\n"
                    f"search {self.meta.namespace}.svc.cluster.local svc.cluster.local cluster.local\n")
        run(f"ip netns add {self.netns}")
        run(f"ip link add {self.veth} type veth peer name eth0 netns {self.netns}")
        run(f"ip link set {self.veth} master cni0 up")
        # A pod reaches itself by the address of its Service: where br_netfilter is loaded, the bridge would drop the packet.
        run(f"ip link set {self.veth} type bridge_slave hairpin on")
        run(f"ip -n {self.netns} link set lo up")
        # The node forwards between ports of one bridge, and tells pods by IPv6 that they are neighbors. A pod that
        # followed would answer past the node, and so past the address translation of a Service.
        run(f"ip netns exec {self.netns} sysctl -qw net.ipv6.conf.eth0.accept_redirects=0")
        run(f"ip -n {self.netns} link set eth0 up")
        # A /32 (or /128), so that pods reach each other through the node and never over the bridge alone: answers from
        # behind a Service would otherwise miss its address translation where br_netfilter is not loaded.
        for ip, node in zip(self.ips, NODE_IPS):
            family, own = ("-6", f"{ip}/128 dev eth0 nodad") if ":" in ip else ("-4", f"{ip}/32 dev eth0")
            for command in (f"addr add {own}", f"route add {node} dev eth0", f"route add default via {node} dev eth0"):
                run(f"ip -n {self.netns} {family} {command}")
        # As container runtimes have it: who is not root may bind port 80 of a pod.
        run(f"ip netns exec {self.netns} sysctl -qw net.ipv4.ip_unprivileged_port_start=0")

    def retry(self, call, *args):
        """Waits, as the kubelet does, for what a pod refers to: a Secret that a Job makes, say."""
        told = None
        while not self.stop.is_set():
            try:
                return call(*args)
            except NotYet as e:
                if told != e.args:
                    told = e.args
                    event(self.meta, "FailedMount" if e.args[0] == "ContainerCreating" else "Failed", e.args[1])
                waiting = {"waiting": {"reason": e.args[0], "message": e.args[1]}}
                self.report("Pending", {c.name: waiting for c in self.containers})
            except UNREACHABLE as e:
                log("pod", self.name, "waits for the API server:", repr(e)[:200])
            self.stop.wait(0.5)
        raise Stopped

    def field(self, path):
        """The value of a fieldRef."""
        name, _, key = path.removesuffix("']").partition("['")
        if key:
            return (getattr(self.meta, name.removeprefix("metadata.")) or {}).get(key, "")
        return {"metadata.name": self.meta.name, "metadata.namespace": self.meta.namespace, "metadata.uid": self.meta.uid,
                "spec.nodeName": self.node, "spec.serviceAccountName": self.spec.service_account_name or "default",
                "status.podIP": self.ip, "status.podIPs": ",".join(self.ips),
                "status.hostIP": nodes.NODES.get(self.node, NODE_IPS)[0],
                }.get(path, "")

    def states(self):
        return {c.name: c.check() for c in self.sidecars + self.containers}

    def supervise(self):
        while not self.stop.wait(0.3):
            self.volumes.refresh()
            states = self.states()
            if all("terminated" in states[c.name] for c in self.containers):
                failed = any(states[c.name]["terminated"]["exitCode"] for c in self.containers)
                for sidecar in reversed(self.sidecars):
                    sidecar.end(self.grace_period)
                    states[sidecar.name] = sidecar.terminated(0)
                self.report("Failed" if failed else "Succeeded", states)
                return
            self.report("Running", states)

    def unschedulable(self, message):
        if self.reported == message:
            return
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        v1.patch_namespaced_pod_status(
            self.meta.name, self.meta.namespace, {"status": {"conditions": [condition]}}, _request_timeout=PATIENCE)
        event(self.meta, "FailedScheduling", message)
        self.reported = message

    def report(self, phase, states):
        """Writes the pod's status if it changed."""
        ready = phase == "Running" and all(c.ready for c in self.sidecars + self.containers)
        everybody = self.init_containers + self.containers
        news = phase, ready, {c.name: (list(states.get(c.name, {})), c.started, c.ready, c.restarts) for c in everybody}
        if news == self.reported:
            return
        true = {"PodReadyToStartContainers": True, "PodScheduled": True, "Initialized": phase != "Pending",
                "ContainersReady": ready, "Ready": ready}
        for condition, value in true.items():
            if self.since.get(condition, (None,))[0] != value:
                self.since[condition] = value, now()

        def status(c):
            state = states.get(c.name) or {"waiting": {"reason": "PodInitializing"}}
            if c in self.init_containers and not c.sidecar and c.process and c.process.poll() is not None:
                state = c.terminated(c.process.returncode)
            return {"name": c.name, "image": c.spec.image, "imageID": c.spec.image, "state": state,
                    "ready": c.ready or state.get("terminated", {}).get("exitCode") == 0,
                    "started": c.started, "restartCount": max(c.restarts, 0)}

        body = {
            "phase": phase, "podIP": self.ip, "podIPs": [{"ip": ip} for ip in self.ips], "startTime": self.started,
            "hostIP": nodes.NODES[self.node][0], "hostIPs": [{"ip": ip} for ip in nodes.NODES[self.node]],
            "conditions": [{"type": t, "status": str(value), "lastTransitionTime": since}
                           for t, (value, since) in self.since.items()],
            "initContainerStatuses": [status(c) for c in self.init_containers],
            "containerStatuses": [status(c) for c in self.containers]}
        try:
            v1.patch_namespaced_pod_status(
                self.meta.name, self.meta.namespace, {"status": body}, _request_timeout=PATIENCE)
            self.reported = news
        except client.ApiException as e:
            if e.status != 404:
                log("status of", self.name, e.status, e.body)
        except UNREACHABLE as e:
            log("status of", self.name, repr(e)[:200])

    def tear_down(self):
        """Ends the containers together, sidecars after all others, and last after first."""
        def turn(index):
            others = self.containers + self.sidecars[index + 1:]
            return lambda patience: [c.over.wait(patience) for c in others]

        work = [(c, None) for c in self.containers + [c for c in self.init_containers if not c.sidecar]]
        work += [(c, turn(index)) for index, c in enumerate(self.sidecars)]
        threads = [threading.Thread(target=c.end, args=[self.grace, turn]) for c, turn in work]
        for t in threads:
            t.start()
        while any(t.is_alive() for t in threads):
            # Readiness goes on to the end: a pod that is draining is one that may still be serving.
            if self.grace and self.reported and self.reported[0] == "Running":
                for c in self.sidecars + self.containers:
                    if c.process and c.process.poll() is None:
                        c.probe(readiness_alone=True)
                    else:
                        c.ready = False
                self.report("Running", {c.name: c.running() for c in self.sidecars + self.containers})
            for t in threads:
                t.join(0.3 / len(threads))
        for pid in run(f"ip netns pids {self.netns}", check=False).split():
            try:
                os.kill(int(pid), signal.SIGKILL)  # what had left its process group
            except ProcessLookupError:
                pass
        run(f"ip netns del {self.netns}", check=False)
        shutil.rmtree(f"/etc/netns/{self.netns}", ignore_errors=True)
        self.keep_logs()
        self.delete()
        shutil.rmtree(self.root, ignore_errors=True)
        pods.pop(self.meta.uid, None)

    def keep_logs(self):
        os.makedirs(f"{DIR}/ended", exist_ok=True)
        for c in self.init_containers + self.containers:
            if os.path.exists(path := f"{self.root}/{c.name}.log"):
                shutil.copy(path, f"{DIR}/ended/{self.name.replace('/', '.')}.{c.name}.log")

    def delete(self):
        """Tells the API server that the pod has ended, until it takes it."""
        only = client.V1Preconditions(uid=self.meta.uid)  # a StatefulSet may already have made the next of that name
        options = client.V1DeleteOptions(grace_period_seconds=0, preconditions=only)
        while True:
            try:
                v1.delete_namespaced_pod(self.meta.name, self.meta.namespace, body=options, _request_timeout=PATIENCE)
                return
            except client.ApiException as e:
                if e.status in (404, 409):
                    return
                log("deletion of", self.name, e.status, e.body)
            except UNREACHABLE as e:
                log("deletion of", self.name, repr(e)[:200])
            time.sleep(1)


def follow_pods():
    count = 0

    def on_event(kind, pod):
        nonlocal count
        known = pods.get(pod.metadata.uid)
        if kind == "DELETED" or pod.metadata.deletion_timestamp:
            if known and not known.stop.is_set():
                known.grace = 0 if kind == "DELETED" else pod.metadata.deletion_grace_period_seconds or 0
                known.stop.set()
        elif not known and pod.status.phase not in ("Succeeded", "Failed"):
            count += 1
            pods[pod.metadata.uid] = Pod(pod, count)

    def on_list(items):
        for gone in set(pods) - {pod.metadata.uid for pod in items}:
            pods[gone].stop.set()
        for pod in items:
            on_event("ADDED", pod)

    follow(v1.list_pod_for_all_namespaces, on_list, on_event)

"""The lab's nodes, which share one machine and one network namespace, and who goes where."""
import threading

from kubernetes import client

from api import PATIENCE, UNREACHABLE, Stopped, now, of_families, v1

NODES = {"node-1": of_families("10.244.0.1", "fd00:244::1"), "node-2": of_families("10.244.0.2", "fd00:244::2")}
placing = threading.Lock()


def register():
    for node, ips in NODES.items():
        zone = node.replace("node", "zone")
        labels = {"kubernetes.io/hostname": node, "kubernetes.io/os": "linux", "topology.kubernetes.io/zone": zone}
        v1.create_node(client.V1Node(metadata=client.V1ObjectMeta(name=node, labels=labels)))
        amounts = {"cpu": "64", "memory": "64Gi", "pods": "500"}
        ready = {"type": "Ready", "status": "True", "reason": "Lab", "lastHeartbeatTime": now(), "lastTransitionTime": now()}
        v1.patch_node_status(node, {"status": {
            "conditions": [ready], "addresses": [{"type": "InternalIP", "address": ip} for ip in ips], "capacity": amounts,
            "allocatable": amounts, "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}}}})
        # Admission taints a new node as not ready, which keeps DaemonSets away. Nothing taints it again or waits
        # for its heartbeats: the controller that would do so is off.
        v1.patch_node(node, {"spec": {"taints": None}})


def place(pod, others):
    """Binds a pod to a node, and waits for one that takes it; `others` gives all pods."""
    while not pod.stop.is_set():
        try:
            with placing:
                node = choose(pod, others())
                if node:
                    bind(pod, node)
                    pod.node = node
                    return
            pod.unschedulable("0/2 nodes are available: cordoned, or not what the pod asks for")
        except client.ApiException as e:
            if e.status in (404, 409):
                raise Stopped  # deleted meanwhile
        except UNREACHABLE:
            pass
        pod.stop.wait(0.5)
    raise Stopped


def bind(pod, node):
    target = client.V1ObjectReference(kind="Node", api_version="v1", name=node)
    binding = client.V1Binding(metadata=client.V1ObjectMeta(name=pod.meta.name), target=target)
    # _preload_content=False: the client cannot decode the answer to a binding
    v1.create_namespaced_pod_binding(
        pod.meta.name, pod.meta.namespace, binding, _preload_content=False, _request_timeout=PATIENCE)
    # Admission gives the pod the zone of its node as a label.
    pod.meta.labels = v1.read_namespaced_pod(pod.meta.name, pod.meta.namespace, _request_timeout=PATIENCE).metadata.labels


def choose(pod, others):
    """The node with the fewest pods of the same owner, then with the fewest pods."""
    allowed = [n for n in v1.list_node(_request_timeout=PATIENCE).items if takes(n, pod)]
    here = [other for other in others if other is not pod and not other.stop.is_set()]

    def load(node):
        on_node = [other for other in here if other.node == node.metadata.name]
        return sum(other.owner == pod.owner for other in on_node), len(on_node), node.metadata.name

    return min(map(load, allowed))[2] if allowed else None


def takes(node, pod):
    """Whether a node may have a pod: cordoned or not, its nodeSelector, and the affinity that names a DaemonSet's node."""
    labels, name = node.metadata.labels or {}, node.metadata.name
    daemon = any(owner.kind == "DaemonSet" for owner in pod.meta.owner_references or [])
    if node.spec.unschedulable and not daemon:
        return False
    if any(labels.get(key) != value for key, value in (pod.spec.node_selector or {}).items()):
        return False
    affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
    required = affinity and affinity.required_during_scheduling_ignored_during_execution
    if not required:
        return True
    return any(all(holds(r, {"metadata.name": name}) for r in term.match_fields or [])
               and all(holds(r, labels) for r in term.match_expressions or []) for term in required.node_selector_terms)


def holds(requirement, labels):
    value, values = labels.get(requirement.key), requirement.values or []
    return {"In": value in values, "NotIn": value not in values, "Exists": value is not None,
            "DoesNotExist": value is None}.get(requirement.operator, True)

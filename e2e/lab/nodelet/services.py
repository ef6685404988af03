"""Addresses of LoadBalancer Services."""
from kubernetes import client

from api import follow, v1


def follow_services():
    """Gives every Service of type LoadBalancer an address; kube-proxy then serves it like a cluster IP."""
    given = set()

    def on_event(kind, service):
        meta, spec = service.metadata, service.spec
        if kind == "DELETED" or spec.type != "LoadBalancer" or spec.load_balancer_class or meta.uid in given:
            return
        own = {"IPv4": f"10.245.{len(given) // 250}.{len(given) % 250 + 1}", "IPv6": f"fd00:245::{len(given) + 1:x}"}
        ips = [spec.load_balancer_ip] if spec.load_balancer_ip else [own[family] for family in spec.ip_families]
        try:
            v1.patch_namespaced_service_status(
                meta.name, meta.namespace, {"status": {"loadBalancer": {"ingress": [{"ip": ip} for ip in ips]}}})
        except client.ApiException as e:
            if e.status != 404:
                raise
            return
        given.add(meta.uid)

    follow(v1.list_service_for_all_namespaces, lambda items: [on_event("ADDED", s) for s in items], on_event)

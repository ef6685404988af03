"""Addresses of LoadBalancer Services."""
import ipaddress

from kubernetes import client

from api import follow, log, v1

POOLS = [ipaddress.ip_network("10.245.0.0/16"), ipaddress.ip_network("fd00:245::/64")]


class Addresses:
    """The addresses of all Services of type LoadBalancer; kube-proxy serves them like cluster IPs."""

    def __init__(self):
        self.given = {}  # uid: addresses
        self.waiting = {}  # uid: a Service whose requested address is not available
        self.count = 0

    def on_list(self, services):
        existing = {service.metadata.uid for service in services}
        for uid in set(self.given) - existing:
            self.release(uid)
        for service in services:
            self.on_event("ADDED", service)

    def on_event(self, kind, service):
        meta, spec = service.metadata, service.spec
        if kind == "DELETED" or spec.type != "LoadBalancer" or spec.load_balancer_class:
            self.release(meta.uid)
            for other in list(self.waiting.values()):
                self.assign(other)
        else:
            self.assign(service)

    def assign(self, service):
        """Writes the addresses of a Service into its status, unless they are there already."""
        meta, requested = service.metadata, service.spec.load_balancer_ip
        before = self.given.get(meta.uid, [])
        if requested:
            ips = [requested] if self.available(requested, meta.uid) else []
        else:
            ips = before or self.next(service.spec.ip_families)
        if ips:
            self.waiting.pop(meta.uid, None)
        else:
            if meta.uid not in self.waiting:
                log(f"service {meta.namespace}/{meta.name}: {requested} is in use, or outside of", *map(str, POOLS))
            self.waiting[meta.uid] = service
        if ips == before:
            return
        try:
            v1.patch_namespaced_service_status(
                meta.name, meta.namespace, {"status": {"loadBalancer": {"ingress": [{"ip": ip} for ip in ips]}}})
        except client.ApiException as e:
            if e.status != 404:
                raise
            return
        self.given[meta.uid] = ips

    def available(self, ip, uid):
        """Whether a Service can have an address."""
        try:
            address = ipaddress.ip_address(ip)
        except ValueError:
            return False
        taken = any(ip in ips for other, ips in self.given.items() if other != uid)
        return not taken and any(address in pool for pool in POOLS)

    def next(self, families):
        """Returns addresses that no Service has had, one for each family."""
        while True:
            self.count += 1
            own = {"IPv4": f"10.245.{self.count // 250}.{self.count % 250}", "IPv6": f"fd00:245::{self.count:x}"}
            ips = [own[family] for family in families]
            if self.count % 250 and all(self.available(ip, None) for ip in ips):
                return ips

    def release(self, uid):
        self.given.pop(uid, None)
        self.waiting.pop(uid, None)


def follow_services():
    """Assigns each Service of type LoadBalancer its requested address, or a free address of the pools."""
    addresses = Addresses()
    follow(v1.list_service_for_all_namespaces, addresses.on_list, addresses.on_event)

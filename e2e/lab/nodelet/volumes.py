"""What is mounted into a pod, and how it stays up to date.

As the kubelet does it: the files of a volume are in a directory with a timestamp, `..data` is a link to that, and each
file a link through `..data`. New content is a new directory, and one rename of the link shows all of it at once.
"""
import base64
import math
import os
import shutil
import threading
import time

from kubernetes import client
from kubernetes.utils import parse_quantity

from api import PATIENCE, UNREACHABLE, NotYet, follow, v1


class Volumes:
    """The volumes of one pod, under `root`."""

    def __init__(self, pod, root):
        self.pod, self.root = pod, root
        self.stale = threading.Event()  # something that is mounted has changed
        self.tokens, self.shown = {}, {}
        self.refers = {reference for volume in pod.spec.volumes or [] for reference in references(volume)}

    def make(self, volume):
        path = f"{self.root}/{volume.name}"
        if volume.host_path:
            os.makedirs(volume.host_path.path, exist_ok=True)
            return os.symlink(volume.host_path.path, path)
        os.makedirs(path)
        os.chmod(path, 0o777)
        if is_mounted(volume):
            self.pod.retry(self.show, volume)

    def refresh(self):
        """Takes up what has changed since the last time."""
        if not self.stale.is_set():
            return
        self.stale.clear()
        for volume in self.pod.spec.volumes or []:
            if not any(references(volume)):
                continue
            try:
                self.show(volume)
            except NotYet:
                pass  # what is there stays, as long as nothing takes its place
            except (client.ApiException, *UNREACHABLE):
                self.stale.set()

    def show(self, volume):
        files = {}
        for source in volume.projected.sources if volume.projected else [volume]:
            files |= self.files(source, volume)
        if self.shown.get(volume.name) == files:
            return
        path, directory = f"{self.root}/{volume.name}", f"..{time.strftime('%Y_%m_%d_%H_%M_%S')}.{time.time_ns() % 10**9}"
        for name, (content, mode) in files.items():
            target = f"{path}/{directory}/{name}"
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "wb") as f:
                f.write(content)
            os.chmod(target, mode)
            context = self.pod.spec.security_context
            if context and context.fs_group is not None:
                os.chown(target, -1, context.fs_group)
                os.chmod(target, mode | 0o040)
        os.makedirs(f"{path}/{directory}", exist_ok=True)
        old = os.path.lexists(f"{path}/..data") and os.readlink(f"{path}/..data")
        os.symlink(directory, f"{path}/..data_tmp")
        os.rename(f"{path}/..data_tmp", f"{path}/..data")
        names = {name.split("/")[0] for name in files}
        for name in names:
            if not os.path.lexists(f"{path}/{name}"):
                os.symlink(f"..data/{name}", f"{path}/{name}")
        for name in os.listdir(path):
            if not name.startswith("..") and name not in names:
                os.unlink(f"{path}/{name}")
        if old:
            shutil.rmtree(f"{path}/{old}", ignore_errors=True)
        self.shown[volume.name] = files

    def files(self, source, volume):
        """The files of a volume, or of one source of a projected volume: content and mode by path."""
        of = volume.projected or source.secret or source.config_map or source.downward_api
        default = of.default_mode if of.default_mode is not None else 0o644
        if token := getattr(source, "service_account_token", None):
            return {token.path: (self.token(token), default)}
        if source.downward_api:
            return {i.path: (self.downward(i).encode(), i.mode or default) for i in source.downward_api.items or []}
        ref = source.secret or source.config_map
        data = self.data(source.secret, source.config_map)
        if not ref.items:
            return {key: (value, default) for key, value in data.items()}
        missing = [i.key for i in ref.items if i.key not in data]
        if missing and not ref.optional:
            raise NotYet("ContainerCreating", f"no key {missing[0]} for the volume {volume.name}")
        return {i.path: (data[i.key], i.mode or default) for i in ref.items if i.key in data}

    def token(self, source):
        """A token of the pod's service account; it outlives the lab, so there is one."""
        key = source.audience, source.path
        if key not in self.tokens:
            audiences = [source.audience] if source.audience else []
            spec = client.V1TokenRequestSpec(
                audiences=audiences, expiration_seconds=86400, bound_object_ref=client.V1BoundObjectReference(
                    api_version="v1", kind="Pod", name=self.pod.meta.name, uid=self.pod.meta.uid))
            account, request = self.pod.spec.service_account_name or "default", client.AuthenticationV1TokenRequest(spec=spec)
            answer = v1.create_namespaced_service_account_token(
                account, self.pod.meta.namespace, request, _request_timeout=PATIENCE)
            self.tokens[key] = answer.status.token.encode()
        return self.tokens[key]

    def data(self, secret, config_map):
        """The contents of the Secret or ConfigMap that a volume, a variable or an envFrom refers to."""
        ref = secret or config_map
        name = getattr(ref, "secret_name", None) or ref.name
        read = v1.read_namespaced_secret if secret else v1.read_namespaced_config_map
        try:
            found = read(name, self.pod.meta.namespace, _request_timeout=PATIENCE)
        except client.ApiException as e:
            if e.status == 404 and ref.optional:
                return {}
            raise NotYet("CreateContainerConfigError", f"{name}: {e.reason}")
        encoded = found.data if secret else found.binary_data
        plain = None if secret else found.data
        return ({key: base64.b64decode(value) for key, value in (encoded or {}).items()}
                | {key: value.encode() for key, value in (plain or {}).items()})

    def downward(self, item):
        if item.field_ref:
            return self.pod.field(item.field_ref.field_path)
        return self.resource(item.resource_field_ref, None)

    def resource(self, ref, container):
        """A resourceFieldRef: a plain number, in units of its divisor, rounded up."""
        specs = [*self.pod.spec.containers, *(self.pod.spec.init_containers or [])]
        name = ref.container_name or container
        resources = next((c.resources for c in specs if c.name == name), None)
        limits, requests = (resources and resources.limits) or {}, (resources and resources.requests) or {}
        kind, _, what = ref.resource.partition(".")
        # Without a limit it is what the node has.
        whole = {"cpu": "64", "memory": "64Gi"}.get(what, "0")
        value = limits.get(what, whole) if kind == "limits" else requests.get(what, limits.get(what, "0"))
        divisor = parse_quantity(ref.divisor or "1")
        return str(math.ceil(parse_quantity(value) / (divisor or 1)))


def is_mounted(volume):
    return volume.secret or volume.config_map or volume.downward_api or volume.projected


def references(volume):
    """The Secrets and ConfigMaps of a volume, as ("Secret", name)."""
    if volume.secret:
        yield "Secret", volume.secret.secret_name
    if volume.config_map:
        yield "ConfigMap", volume.config_map.name
    for source in (volume.projected and volume.projected.sources) or []:
        if source.secret:
            yield "Secret", source.secret.name
        if source.config_map:
            yield "ConfigMap", source.config_map.name


def follow_contents(kind, list_all, pods):
    """Tells the pods that mount a Secret or ConfigMap of any change of it."""
    def on_event(_, found):
        for pod in list(pods.values()):
            if pod.meta.namespace == found.metadata.namespace and (kind, found.metadata.name) in pod.volumes.refers:
                pod.volumes.stale.set()

    def on_list(_):  # there may have been changes before it
        for pod in list(pods.values()):
            pod.volumes.stale.set()

    follow(list_all, on_list, on_event)

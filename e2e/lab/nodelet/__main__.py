#!/usr/bin/env python3
"""The lab's nodes: scheduler, kubelet and load balancer provider, without containers.

Every container of a pod runs as a plain process in the pod's own network namespace, with the pod's
volumes mounted in a private mount namespace. cluster.sh starts this inside the lab's network namespace.
Environment: BIN (directory of programs), LAB (network namespace), DIR (state), IMAGES (see README.md).
"""
import threading

from api import v1
from logs import serve_logs
from nodes import register
from pod import follow_pods, pods
from services import follow_services
from volumes import follow_contents

register()
for task, *args in (
        (serve_logs, pods),
        (follow_services,),
        (follow_contents, "Secret", v1.list_secret_for_all_namespaces, pods),
        (follow_contents, "ConfigMap", v1.list_config_map_for_all_namespaces, pods)):
    threading.Thread(target=task, args=args, daemon=True).start()
follow_pods()

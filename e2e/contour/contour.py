#!/usr/bin/env python3
"""`contour serve` and `contour bootstrap` for Contour's end-to-end tests, carried out by Lockgate.

Flags and the configuration file of Contour become a settings file of Lockgate, which then runs in this process. A key or a
flag without a counterpart is reported on standard error, and has no effect. With a ContourConfiguration, `lockgate migrate contour` writes
the settings file.

Environment: LOCKGATE (the program), SETTINGS (the directory for settings files), KUBECTL (the real kubectl).
"""
import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import tempfile

import yaml

PR_SET_PDEATHSIG = 1
# What Contour does without being told, and Lockgate does not.
DEFAULTS = {
    "namespaceOwnership": "InterNamespaceAllowed",
    "ingress": {"classNames": ["contour"], "withoutClass": True, "httpsRedirect": False, "httpsRedirectStatus": 301},
    "listeners": {"admin": {"port": 9001}},
    "http": {"escapedSlashes": "keep", "headersWithUnderscores": "allow", "untrustedHeaders": [], "stripTrailingHostDot": False,
             "allowChunkedLength": True, "returns": 1},
    "httpProxy": {"envoyHeaders": ["x-envoy-hostname", "x-envoy-unknown", "x-envoy-upstream-remote-address"]},
    "tls": {"strictServerNames": True},
    "compression": {"algorithms": ["gzip"], "minimumSize": "30B"},
    "timeouts": {"response": "15s", "requestHeaders": "off"},
    "status": {"envoyService": "projectcontour/envoy"},
    "watch": {"gatewayApi": False},
    "tenants": {"activeHealthChecks": True},
    "xds": {"tls": "off"},
    "leaderElection": {"enabled": False},
    "log": {"level": "info"},
}
# Flags that have no effect on what Lockgate serves.
WITHOUT_EFFECT = {
    "stats-address", "debug-http-address", "http-address", "envoy-service-http-address", "envoy-service-https-address",
    "health-address", "insecure", "disable-leader-election", "debug", "kubeconfig", "config-path", "xds-address", "xds-port"}


def unsupported(what):
    print(f"contour.py: no counterpart in Lockgate for {what}", file=sys.stderr, flush=True)


def flags(arguments):
    """The flags as a dictionary; those without a value are True."""
    found = {}
    for argument in arguments:
        name, equals, value = argument.removeprefix("--").partition("=")
        found[name] = value if equals else True
    return found


def assign(settings, path, value):
    *parents, name = path.split(".")
    for parent in parents:
        settings = settings.setdefault(parent, {})
    settings[name] = value


def duration(text):
    return "off" if text in ("infinity", "infinite") else text


def name(reference):
    return f"{reference['namespace']}/{reference['name']}" if reference.get("name") else None


def get(*arguments):
    return json.loads(subprocess.check_output([os.environ.get("KUBECTL", "kubectl"), "get", "--output", "json", *arguments]))


def endpoint(reference):
    """The address and the time limit of an ExtensionService `namespace/name`."""
    namespace, _, service = reference.partition("/")
    spec = get("extensionservice", service, "--namespace", namespace)["spec"]
    target = spec["services"][0]
    return (f"{target['name']}.{namespace}.svc.cluster.local:{target['port']}",
            spec.get("timeoutPolicy", {}).get("response"))


def secret_of(path):
    """The Secret that is mounted at the directory of a file in the pods of Envoy."""
    for kind in ("deployment", "daemonset"):
        for envoy in get(kind, "--namespace", "projectcontour", "--selector", "app=envoy")["items"]:
            pod = envoy["spec"]["template"]["spec"]
            mounts = {mount["mountPath"].rstrip("/"): mount["name"]
                      for container in pod["containers"] for mount in container.get("volumeMounts", [])}
            volume = mounts.get(os.path.dirname(path))
            for one in pod.get("volumes", []):
                if one["name"] == volume and "secret" in one:
                    return f"projectcontour/{one['secret']['secretName']}"
    return None


def camel(word):
    """`requestheader` and `RequestHeader` as `requestHeader`: the test writes these keys without capital letters."""
    known = ["descriptors", "entries", "genericKey", "requestHeader", "requestHeaderValueMatch", "remoteAddress", "key", "value",
             "headerName", "descriptorKey", "headers", "expectMatch", "name"]
    return next((one for one in known if one.lower() == word.lower()), word)


def descriptors(value):
    """Returns the descriptors of a global rate limit without empty fields."""
    if isinstance(value, dict):
        return {camel(key): descriptors(one) for key, one in value.items() if one is not None and key.lower() != "disabled"}
    return [descriptors(one) for one in value] if isinstance(value, list) else value


class Translation:
    """The settings for a configuration file of Contour. Each method translates one key and removes it."""

    def __init__(self):
        self.settings = json.loads(json.dumps(DEFAULTS))

    def set(self, path, value):
        if value is not None:
            assign(self.settings, path, value)

    def rest(self, path, value):
        """Reports the remaining keys that have a value."""
        if isinstance(value, dict):
            for key, one in value.items():
                self.rest(f"{path}.{key}" if path else key, one)
        elif value not in (None, "", 0, False, []):
            unsupported(f"{path}: {value!r}")

    def file(self, config):
        config.pop("debug", None)
        self.set("httpProxy.permitInsecure", False if config.pop("disablePermitInsecure", False) else None)
        self.set("http.mergeSlashes", not config.pop("disableMergeSlashes", False))
        self.set("http.allowChunkedLength", not config.pop("disableAllowChunkedLength", False))
        self.set("http.serverHeader", config.pop("serverHeaderTransformation", None) or None)
        if config.pop("enableExternalNameService", False):
            self.set("externalNames", {"allow": True, "clusterLocal": True})
        if address := config.pop("ingress-status-address", None):
            self.set("status.addresses", [address])
        if algorithm := config.get("compression", {}).pop("algorithm", None):
            self.set("compression.algorithms", [] if algorithm == "disabled" else [algorithm])
        if versions := config.pop("default-http-versions", None):
            self.set("http.versions", [version.upper() for version in versions])
        self.tls(config.get("tls", {}))
        self.upstream(config.get("cluster", {}))
        self.listener(config.get("listener", {}))
        network = config.get("network", {})
        self.set("http.trustedHops", network.pop("num-trusted-hops", None))
        self.set("http.stripTrailingHostDot", network.pop("strip-trailing-host-dot", None))
        self.set("listeners.admin.port", network.pop("admin-port", None))
        self.policy(config.get("policy", {}))
        for key, path in (("request-timeout", "request"), ("connection-idle-timeout", "connectionIdle"),
                          ("stream-idle-timeout", "streamIdle"), ("max-connection-duration", "maxConnectionDuration"),
                          ("delayed-close-timeout", "delayedClose"), ("connection-shutdown-grace-period", "drain"),
                          ("connect-timeout", "connect")):
            if value := config.get("timeouts", {}).pop(key, None):
                self.set(f"timeouts.{path}", duration(value))
        self.authorization(config.get("globalExtAuth", {}))
        self.rate_limit(config.get("rateLimitService", {}))
        self.metrics(config.get("metrics", {}).get("envoy", {}))
        self.rest("", config)
        return self.settings

    def tls(self, tls):
        self.set("tls.minimumVersion", tls.pop("minimum-protocol-version", None) or None)
        self.set("tls.maximumVersion", tls.pop("maximum-protocol-version", None) or None)
        self.set("tls.cipherSuites", tls.pop("cipher-suites", None) or None)
        self.set("upstream.clientCertificate", name(tls.pop("envoy-client-certificate", {})))
        self.set("tls.fallbackSecret", name(tls.pop("fallback-certificate", {})))

    def upstream(self, cluster):
        self.set("upstream.dnsLookupFamily", cluster.pop("dns-lookup-family", None) or None)
        self.set("upstream.maxRequestsPerConnection", cluster.pop("max-requests-per-connection", None))
        tls = cluster.get("upstream-tls", {})
        self.set("upstream.tls.minimumVersion", tls.pop("minimum-protocol-version", None) or None)
        self.set("upstream.tls.maximumVersion", tls.pop("maximum-protocol-version", None) or None)
        self.set("upstream.tls.cipherSuites", tls.pop("cipher-suites", None) or None)

    def listener(self, listener):
        self.set("listeners.connectionBalancer", listener.pop("connection-balancer", None) or None)
        self.set("http.maxRequestsPerConnection", listener.pop("max-requests-per-connection", None))
        self.set("http.maxConcurrentStreams", listener.pop("http2-max-concurrent-streams", None))
        self.set("listeners.maxConnections", listener.pop("max-connections-per-listener", None))

    def policy(self, policy):
        self.set("headers.ingresses", policy.pop("applyToIngress", False))
        for key, path in (("request-headers", "request"), ("response-headers", "response")):
            headers = policy.pop(key, {})
            self.set(f"headers.{path}.set", headers.get("set"))
            self.set(f"headers.{path}.remove", headers.get("remove"))

    def authorization(self, config):
        service = config.pop("extensionService", None)
        if not service:
            return
        address, limit = endpoint(service)
        self.set("tenants.disableAuthorization", True)
        self.set("externalAuthorization.endpoint", address)
        self.set("externalAuthorization.timeout", config.pop("responseTimeout", None) or limit)
        self.set("externalAuthorization.failOpen", config.pop("failOpen", False))
        self.set("externalAuthorization.context", config.get("authPolicy", {}).pop("context", {}))
        if body := config.pop("withRequestBody", None):
            self.set("externalAuthorization.requestBody.maxBytes", f"{body.get('maxRequestBytes', 1024)}B")

    def rate_limit(self, config):
        service = config.pop("extensionService", None)
        if not service:
            return
        policy = config.pop("defaultGlobalRateLimitPolicy", None)
        self.set("tenants.globalRateLimits", True)
        address, limit = endpoint(service)
        self.set("rateLimit.endpoint", address)
        self.set("rateLimit.domain", config.pop("domain", None) or "contour")
        self.set("rateLimit.timeout", limit)
        self.set("rateLimit.failOpen", config.pop("failOpen", False))
        self.set("rateLimit.headers", config.pop("enableXRateLimitHeaders", False))
        self.set("rateLimit.resourceExhausted", config.pop("enableResourceExhaustedCode", False))
        if policy:
            self.set("rateLimit.descriptors", descriptors(policy).get("descriptors"))

    def metrics(self, envoy):
        certificate, authority = envoy.pop("server-certificate-path", None), envoy.pop("ca-certificate-path", None)
        envoy.pop("server-key-path", None)
        address, port = envoy.pop("address", None), envoy.pop("port", None)
        if certificate:
            self.set("listeners.stats.tls", {
                "port": port, "secret": secret_of(certificate), **({"clientCa": secret_of(authority)} if authority else {})})
        elif port:
            self.set("listeners.stats.port", port)
            self.set("listeners.stats.address", address)


# What the tests need of a Lockgate whose settings `lockgate migrate contour` has written.
OF_TESTS = {
    # The tests create their objects later, so the migration does not see which headers they change.
    "httpProxy.envoyHeaders": DEFAULTS["httpProxy"]["envoyHeaders"], "http.returns": 1, "xds.tls": "off",
    "status.envoyService": "projectcontour/envoy", "watch.gatewayApi": False, "leaderElection.enabled": False}


def migrated(name, given, directory):
    """The settings that `lockgate migrate contour` writes for a ContourConfiguration."""
    configuration = get("contourconfiguration", name, "--namespace", "projectcontour")
    manifest, written = os.path.join(directory, f"{name}.json"), os.path.join(directory, f"{name}.migrated.yaml")
    with open(manifest, "w", encoding="utf-8") as file:
        json.dump(configuration, file)
    with open(os.path.join(directory, f"{name}.report.txt"), "wb") as report:
        subprocess.run([os.environ["LOCKGATE"], "migrate", "contour", "--kubeconfig", given["kubeconfig"], "--contour-config", manifest,
                        "--settings-file", written], stdout=report, check=False)
    with open(written, encoding="utf-8") as file:
        settings = yaml.safe_load(file)
    for path, value in OF_TESTS.items():
        assign(settings, path, value)
    # The report says that the Secret behind the files is unknown.
    metrics = configuration["spec"].get("envoy", {}).get("metrics", {})
    if files := metrics.get("tls"):
        settings.get("listeners", {}).pop("stats", None)
        translation = Translation()
        translation.settings = settings
        translation.metrics({"address": metrics.get("address"), "port": metrics.get("port"),
                             "server-certificate-path": files.get("certFile"), "ca-certificate-path": files.get("caFile")})
    server = configuration["spec"]["xdsServer"]
    assign(settings, "xds.address", f"{server['address']}:{server['port']}")
    return settings


def serve(arguments):
    given = flags(arguments)
    directory = os.environ.get("SETTINGS") or tempfile.gettempdir()
    if name := given.pop("contour-config-name", None):
        settings = migrated(name, given, directory)
    else:
        name = given["config-path"]
        with open(name, encoding="utf-8") as file:
            settings = Translation().file(yaml.safe_load(file) or {})
        assign(settings, "xds.address", f"{given.get('xds-address', '127.0.0.1')}:{given.get('xds-port', '8001')}")
    if classes := given.pop("ingress-class-name", None):
        assign(settings, "ingress.classNames", classes.split(","))
        assign(settings, "ingress.withoutClass", False)
    if namespaces := given.pop("watch-namespaces", None):
        assign(settings, "watch.namespaces", namespaces.split(","))
    if namespaces := given.pop("root-namespaces", None):
        assign(settings, "httpProxy.rootNamespaces", namespaces.split(","))
    for flag in given:
        if flag not in WITHOUT_EFFECT:
            unsupported(f"the flag --{flag}")
    path = os.path.join(directory, re.sub(r"\W+", "-", os.path.basename(name)).strip("-") + ".lockgate.yaml")
    with open(path, "w", encoding="utf-8") as file:
        yaml.safe_dump(settings, file, sort_keys=False)
    # A suite leaves its controllers behind if it fails between tests.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    lockgate = os.environ["LOCKGATE"]
    os.execv(lockgate, [lockgate, "serve", "--kubeconfig", given["kubeconfig"], "--config", path])


def bootstrap(arguments):
    """Writes the file in place: the caller has it open."""
    target, given = arguments[0], flags(arguments[1:])
    text = subprocess.check_output([
        os.environ["LOCKGATE"], "bootstrap", "--format", "json", "--xds-address", f"{given['xds-address']}:{given['xds-port']}",
        "--envoy-admin-address", f"unix:{given.get('admin-address', '/admin/admin.sock')}"])
    with open(target, "wb") as file:
        file.write(text)


if __name__ == "__main__":
    command = {"serve": serve, "bootstrap": bootstrap}.get(sys.argv[1] if sys.argv[1:] else "")
    if not command:
        raise SystemExit("usage: contour serve|bootstrap ...")
    command(sys.argv[2:])

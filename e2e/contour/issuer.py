#!/usr/bin/env python3
"""Stands in for cert-manager: issues the certificates of Certificates with an Issuer `selfSigned` or `ca`, by openssl.

It serves what Contour's end-to-end tests use: names, usages, authorities, the subject, and a new certificate for a deleted Secret.
"""
import base64
import os
import subprocess
import tempfile
import time

from kubernetes import client, config

GROUP = ("cert-manager.io", "v1")
USAGES = {"signing": "digitalSignature", "digital signature": "digitalSignature", "key encipherment": "keyEncipherment",
          "cert sign": "keyCertSign", "crl sign": "cRLSign"}
EXTENDED = {"client auth": "clientAuth", "server auth": "serverAuth"}


def openssl(*arguments):
    return subprocess.run(["openssl", *arguments], check=True, capture_output=True).stdout


def extensions(spec):
    usages = spec.get("usages") or ["digital signature", "key encipherment"]
    usages = usages + (["cert sign"] if spec.get("isCA") else [])
    lines = ["subjectKeyIdentifier=hash", f"basicConstraints=critical,CA:{'TRUE' if spec.get('isCA') else 'FALSE'}"]
    for key, names in (("keyUsage=critical,", USAGES), ("extendedKeyUsage=", EXTENDED)):
        if values := list(dict.fromkeys(names[usage] for usage in usages if usage in names)):
            lines.append(key + ",".join(values))
    names = [f"DNS:{one}" for one in spec.get("dnsNames") or []] + [f"IP:{one}" for one in spec.get("ipAddresses") or []]
    names += [f"URI:{one}" for one in spec.get("uris") or []]
    if names:
        lines.append("subjectAltName=" + ",".join(names))
    return "\n".join(lines) + "\n"


def subject(spec):
    parts = [f"/OU={unit}" for unit in (spec.get("subject") or {}).get("organizationalUnits") or []]
    parts += [f"/CN={spec['commonName']}"] if spec.get("commonName") else []
    return "".join(parts) or "/"


def issue(spec, authority):
    """The data of a Secret; `authority` is that of the CA, or None for a self-signed certificate."""
    with tempfile.TemporaryDirectory() as directory:
        def path(name, content=None):
            full = os.path.join(directory, name)
            if content is not None:
                with open(full, "wb") as file:
                    file.write(content)
            return full

        key, request = path("key"), path("request")
        openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", key)
        openssl("req", "-new", "-key", key, "-subj", subject(spec), "-out", request)
        signer = ["-signkey", key] if authority is None else [
            "-CA", path("ca.crt", authority["tls.crt"]), "-CAkey", path("ca.key", authority["tls.key"])]
        certificate = openssl("x509", "-req", "-in", request, "-days", "90", "-set_serial", f"0x{os.urandom(16).hex()}",
                              "-extfile", path("extensions", extensions(spec).encode()), *signer)
        with open(key, "rb") as file:
            return {"tls.crt": certificate, "tls.key": file.read(), "ca.crt": authority["tls.crt"] if authority else certificate}


class Issuer:
    def __init__(self):
        config.load_kube_config()
        self.secrets, self.objects = client.CoreV1Api(), client.CustomObjectsApi()
        self.issued = {}  # uid of a Certificate: its generation

    def data(self, namespace, name):
        try:
            secret = self.secrets.read_namespaced_secret(name, namespace)
        except client.ApiException as error:
            if error.status == 404:
                return None
            raise
        return {key: base64.b64decode(value) for key, value in (secret.data or {}).items()}

    def run(self):
        """Issues the missing certificates. Objects that are not due yet wait for the next round."""
        existing = {(secret.metadata.namespace, secret.metadata.name) for secret in self.secrets.list_secret_for_all_namespaces().items}
        for certificate in self.objects.list_cluster_custom_object(*GROUP, "certificates")["items"]:
            meta, secret = certificate["metadata"], certificate["spec"]["secretName"]
            is_issued = self.issued.get(meta["uid"]) == meta["generation"] and (meta["namespace"], secret) in existing
            if not is_issued and "deletionTimestamp" not in meta:
                try:
                    self.serve(meta, certificate["spec"])
                except client.ApiException as error:
                    print(f"{meta['namespace']}/{meta['name']}: {error.status} {error.reason}", flush=True)

    def serve(self, meta, spec):
        namespace = meta["namespace"]
        issuer = self.objects.get_namespaced_custom_object(*GROUP, namespace, "issuers", spec["issuerRef"]["name"])["spec"]
        authority = None
        if "ca" in issuer:
            authority = self.data(namespace, issuer["ca"]["secretName"])
            if not authority:
                return
        data = {key: base64.b64encode(value).decode() for key, value in issue(spec, authority).items()}
        body = client.V1Secret(metadata=client.V1ObjectMeta(name=spec["secretName"], annotations={
            "cert-manager.io/certificate-name": meta["name"]}), type="kubernetes.io/tls", data=data)
        try:
            self.secrets.create_namespaced_secret(namespace, body)
        except client.ApiException as error:
            if error.status != 409:
                raise
            self.secrets.patch_namespaced_secret(spec["secretName"], namespace, {"data": data})
        ready = {"type": "Ready", "status": "True", "reason": "Ready", "message": "Certificate is up to date and has not expired",
                 "observedGeneration": meta["generation"], "lastTransitionTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
        self.objects.patch_namespaced_custom_object_status(
            *GROUP, namespace, "certificates", meta["name"], {"status": {"conditions": [ready]}})
        self.issued[meta["uid"]] = meta["generation"]
        print(f"{namespace}/{meta['name']}: issued", flush=True)


if __name__ == "__main__":
    issuer = Issuer()
    while True:
        try:
            issuer.run()
        except Exception as error:  # the API server may be busy: the next time
            print(f"again: {error}", flush=True)
        time.sleep(0.2)

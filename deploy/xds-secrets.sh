#!/usr/bin/env bash
# Prints the two Secrets by which Envoy and the controller know each other: lockgate-xds for the controller,
# lockgate-xds-envoy for Envoy. Each has tls.crt, tls.key, and the ca.crt that the other is checked by.
#
#   deploy/xds-secrets.sh | kubectl apply -f -
#
# NAMESPACE (lockgate) is where both run, DAYS (3650) how long the certificates are good. The key of the CA is thrown
# away: to renew, run it again and restart the controller; Envoy takes up new files by itself.
set -euo pipefail
namespace=${NAMESPACE:-lockgate} days=${DAYS:-3650}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

key() { openssl ecparam -name prime256v1 -genkey -noout | openssl pkcs8 -topk8 -nocrypt -out "$1"; }
key ca.key
openssl req -new -x509 -key ca.key -sha256 -days "$days" -subj "/CN=lockgate xds" -out ca.crt

# secret NAME USAGE DNS-NAME...: a key pair signed by the CA, as a Secret.
secret() {
  local name=$1 usage=$2 names
  shift 2
  names=$(printf ',DNS:%s' "$@")
  key tls.key
  openssl req -new -key tls.key -subj "/CN=$1" -out tls.csr
  printf 'extendedKeyUsage=%s\nsubjectAltName=%s\n' "$usage" "${names#,}" >extensions
  openssl x509 -req -in tls.csr -CA ca.crt -CAkey ca.key -CAcreateserial -sha256 -days "$days" -extfile extensions \
    -out tls.crt 2>/dev/null
  cat <<YAML
---
apiVersion: v1
kind: Secret
metadata:
  name: $name
  namespace: $namespace
type: kubernetes.io/tls
data:
  ca.crt: $(base64 <ca.crt | tr -d '\n')
  tls.crt: $(base64 <tls.crt | tr -d '\n')
  tls.key: $(base64 <tls.key | tr -d '\n')
YAML
}
# Replicas of the controller ask each other, so its certificate is that of a client too.
secret lockgate-xds serverAuth,clientAuth lockgate "lockgate.$namespace" "lockgate.$namespace.svc" \
  "lockgate.$namespace.svc.cluster.local"
secret lockgate-xds-envoy clientAuth "envoy.$namespace"

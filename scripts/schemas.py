#!/usr/bin/env python3
"""Writes the schemas of `lockgate check`, src/check/schemas/*.json, from CustomResourceDefinitions and the OpenAPI documents of Kubernetes.

usage: schemas.py [--check] GATEWAY-CRDS KUBERNETES

GATEWAY-CRDS is a directory of CustomResourceDefinitions of Gateway API. KUBERNETES is the module k8s.io/kubernetes. --check compares the
files instead. scripts/schemas.sh finds the directories.

Only the keywords that restrict a manifest remain: no descriptions, no status. A file has one line for each kind and version.
"""

import json
import pathlib
import sys

import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "src/check/schemas"

# The native kinds that Lockgate reads, by document.
NATIVE = {
    "api__v1_openapi.json": ["Service", "Secret", "Namespace", "ConfigMap"],
    "apis__networking.k8s.io__v1_openapi.json": ["Ingress", "IngressClass"],
    "apis__discovery.k8s.io__v1_openapi.json": ["EndpointSlice"],
}
# The kinds of these groups that Lockgate does not read.
UNREAD = {"XBackend", "XMesh"}

KEPT = {
    "additionalProperties", "allOf", "anyOf", "default", "enum", "exclusiveMaximum", "exclusiveMinimum", "format", "items", "maxItems", "maxLength",
    "maxProperties", "maximum", "minItems", "minLength", "minProperties", "minimum", "not", "oneOf", "pattern", "properties", "required", "type",
    "x-kubernetes-int-or-string", "x-kubernetes-list-map-keys", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations",
    "x-kubernetes-list-type",
}
LEFT_OUT = {
    "description", "example", "title", "x-kubernetes-group-version-kind", "x-kubernetes-map-type", "x-kubernetes-patch-merge-key",
    "x-kubernetes-patch-strategy", "x-kubernetes-unions",
}


def reduced(schema, definitions, path):
    """Returns the schema without references and with the keywords of KEPT only."""
    if "allOf" in schema and len(schema["allOf"]) == 1:
        schema = {**schema["allOf"][0], **{key: value for key, value in schema.items() if key != "allOf"}}
    if "$ref" in schema:
        default = schema.get("default")
        schema = dict(definitions[schema["$ref"].rsplit("/", 1)[1]])
        if default:
            schema["default"] = default
    if schema.get("format") == "int-or-string" or schema.get("x-kubernetes-int-or-string"):
        # The alternatives of the type, by anyOf or oneOf, say the same.
        schema = {key: value for key, value in schema.items() if key not in ("anyOf", "oneOf", "type", "format")}
        schema["x-kubernetes-int-or-string"] = True
    result = {}
    for key, value in schema.items():
        if key in LEFT_OUT:
            continue
        if key not in KEPT:
            raise SystemExit(f"{path}: the keyword {key!r} is not known to lockgate check")
        if key == "properties":
            value = {name: reduced(inner, definitions, f"{path}.{name}") for name, inner in value.items()}
        elif key == "items" or key == "additionalProperties" and isinstance(value, dict):
            value = reduced(value, definitions, f"{path}.{key}")
        elif key == "not":
            value = reduced(value, definitions, path)
        elif key in ("allOf", "anyOf", "oneOf"):
            value = [reduced(inner, definitions, path) for inner in value]
        elif key == "default" and value in ({}, "") and definitions:
            # Of the Go types: the API server does not set it.
            continue
        elif key == "x-kubernetes-list-type" and value == "atomic":
            continue
        result[key] = value
    if definitions and "required" in result:
        # The API server accepts objects of native kinds without a list.
        is_list = lambda name: result["properties"].get(name, {}).get("type") == "array"
        result["required"] = [name for name in result["required"] if not is_list(name)]
    return result


def of_object(schema):
    """Returns the schema of a whole object: the status is not part of a manifest, and the metadata has a schema of its own."""
    properties = {name: value for name, value in schema["properties"].items() if name not in ("apiVersion", "kind", "metadata")}
    if "status" in properties:
        properties["status"] = {}
    required = [name for name in schema.get("required", []) if name in properties and name != "status"]
    return {key: value for key, value in {**schema, "properties": properties, "required": required}.items() if value != []}


def definitions_of(directory):
    """Returns the schemas of CustomResourceDefinitions by version and kind."""
    schemas = {}
    for file in sorted(directory.glob("*.yaml")):
        for crd in yaml.safe_load_all(file.read_text()):
            spec = crd["spec"]
            for version in spec["versions"]:
                name = f"{spec['group']}/{version['name']} {spec['names']['kind']}"
                if version["served"] and spec["names"]["kind"] not in UNREAD:
                    schemas[name] = of_object(reduced(version["schema"]["openAPIV3Schema"], {}, name))
    return schemas


def native(kubernetes):
    """Returns the schemas of native kinds by version and kind, and of their metadata."""
    schemas = {}
    for file, kinds in NATIVE.items():
        document = json.loads((kubernetes / "api/openapi-spec/v3" / file).read_text())["components"]["schemas"]
        for schema in document.values():
            for of in schema.get("x-kubernetes-group-version-kind", []):
                if of["kind"] in kinds:
                    version = "/".join(filter(None, [of["group"], of["version"]]))
                    schemas[f"{version} {of['kind']}"] = of_object(reduced(schema, document, of["kind"]))
        metadata = document["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"]
        schemas["metadata"] = reduced(metadata, document, "metadata")
    return schemas


def text(schemas):
    """Returns the file: one line for each schema. A version that equals an earlier one is its name."""
    lines, names = [], {}
    for name in sorted(schemas, key=lambda name: (name.split(" ")[-1], name)):
        line = json.dumps(schemas[name], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        first = names.setdefault(line, name)
        lines.append(f"{json.dumps(name)}: {line if first == name else json.dumps(first)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--check"]
    gateway, kubernetes = map(pathlib.Path, arguments)
    files = {
        "gateway-api.json": definitions_of(gateway),
        "kubernetes.json": native(kubernetes),
        "lockgate.json": definitions_of(ROOT / "crds"),
    }
    for name, schemas in files.items():
        path, wanted = OUTPUT / name, text(schemas)
        if "--check" not in sys.argv:
            path.write_text(wanted)
        elif not path.exists() or path.read_text() != wanted:
            raise SystemExit(f"{path.relative_to(ROOT)} is not up to date: run `make schemas`")


main()

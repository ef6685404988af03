#!/usr/bin/env python3
"""Writes what the chart says of its values, from charts/lockgate/values.yaml: README.md and values.schema.json.

usage: chart.py [--check]     (--check: writes nothing; fails if one of them is not up to date)

values.yaml is written so that this can be read without a YAML library: two spaces a level, a mapping or a value in JSON
(or a plain word) after each key, a comment above each key that is a value. `# @schema {...}` adds to the key's schema,
`## ...` is a heading. docs/settings.schema.json is the schema of `settings`.
"""
import json
import pathlib
import re
import sys

CHART = pathlib.Path(__file__).resolve().parent.parent / "charts" / "lockgate"
SETTINGS = CHART.parent.parent / "docs" / "settings.schema.json"
KEY = re.compile(r"( *)([A-Za-z][A-Za-z0-9]*):(?: (.*))?")

HEAD = """\
# Lockgate's chart

A Kubernetes ingress controller that drives Envoy: two replicas of the controller, Envoy as a Deployment or DaemonSet, the
Services and roles for both, and an IngressClass.

<!-- tested by cluster::helm::a_release_is_installed_upgraded_rolled_back_and_leaves_nothing -->
```console
helm install lockgate charts/lockgate --namespace lockgate --create-namespace \\
  --set image.repository=registry.example.com/lockgate
helm test lockgate --namespace lockgate
```

There is no published image: [build and push it](../../docs/install.md#an-image) first.

[Install](../../docs/install.md) describes each step, [upgrade](../../docs/upgrade.md) the effects of an upgrade, and
[operate](../../docs/operate.md) the pods, metrics, and alerts. `manifests/` contains the same objects with the default values, for
`kubectl apply`. [examples](examples) contains values for kind, OpenShift, and clouds.

## Values

The chart rejects unknown values, and names them. `make manifests` generates this page and `values.schema.json` from the comments in
[values.yaml](values.yaml).
"""


class Fault(Exception):
    """A line of values.yaml that cannot be documented."""


def scalar(text):
    """The value of a key, from JSON or a plain word."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        if text[0] in "{[\"'&*!|>%@`":
            raise Fault(f"the value {text} is neither JSON nor a plain word") from None
        return text


def entries(text):
    """(path, heading, comment, schema, value) of each key, in order; the value of a mapping is Ellipsis."""
    path, heading, comment, schema = [], "", [], {}
    for number, line in enumerate(text.splitlines(), 1):
        try:
            stripped = line.strip()
            if not stripped:
                comment, schema = [], {}
            elif stripped.startswith("## "):
                heading = stripped[3:]
            elif stripped.startswith("# @schema "):
                schema = json.loads(stripped.removeprefix("# @schema "))
            elif stripped.startswith("#"):
                comment.append(stripped[1:].strip())
            elif found := KEY.fullmatch(line):
                indent, key, value = found.groups()
                path = path[:len(indent) // 2] + [key]
                if value is not None and not comment:
                    raise Fault(f"{'.'.join(path)} has no comment")
                yield path, heading, " ".join(comment), schema, ... if value is None else scalar(value)
                comment, schema = [], {}
            else:
                raise Fault("neither a comment nor a key")
        except (Fault, json.JSONDecodeError) as fault:
            raise Fault(f"values.yaml, line {number}: {fault}") from fault


def schema_of(comment, extra, value):
    """The JSON Schema of one value."""
    names = {bool: "boolean", int: "integer", str: "string", list: "array", dict: "object"}
    schema = {"description": comment, "type": names[type(value)], "default": value}
    if value == "" and "pattern" not in extra and "enum" not in extra:
        # `--set tag=1` is a number; it is meant as text, and rendered as such.
        schema["type"] = ["string", "number"] if comment.startswith("The tag of the image") else "string"
    schema |= extra
    if schema["type"] == "object" and "additionalProperties" not in schema:
        schema["additionalProperties"] = False
    return schema


def of_settings(schema):
    """The schema of the settings file, for values: the file is text, in which `1.2` and `"1.2"` are the same."""
    if isinstance(schema, list):
        return [of_settings(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    own = {}
    for key, value in schema.items():
        if key in ("$schema", "$id", "title", "default"):
            continue
        if key in ("properties", "patternProperties"):
            own[key] = {name: of_settings(of_one) for name, of_one in value.items()}
        elif key == "type" and "enum" not in schema:
            other = {"string": ["string", "number"], "integer": ["integer", "string"], "number": ["number", "string"],
                     "boolean": ["boolean", "string"]}
            own[key] = other.get(value, value) if isinstance(value, str) else value
        elif key == "type":
            continue
        else:
            own[key] = of_settings(value)
    return own


def schema(text):
    """values.schema.json."""
    root = {"$schema": "http://json-schema.org/draft-07/schema#", "title": "Values of the chart lockgate", "type": "object",
            "additionalProperties": False, "properties": {}}
    for path, _, comment, extra, value in entries(text):
        at = root
        for key in path[:-1]:
            at = at["properties"][key]
        at["properties"][path[-1]] = (
            {"type": "object", "additionalProperties": False, "properties": {}} if value is ... else
            schema_of(comment, extra, value))
    settings = of_settings(json.loads(SETTINGS.read_text()))
    root["properties"]["settings"] |= {key: settings[key] for key in ("properties", "additionalProperties")}
    # Helm hands a chart that is a dependency its parent's `global`.
    root["properties"]["global"] = {"type": "object"}
    return json.dumps(root, indent=2, ensure_ascii=False) + "\n"


def readme(text):
    """README.md."""
    lines, last = [HEAD], None
    for path, heading, comment, _, value in entries(text):
        if heading != last:
            lines += [f"\n### {heading}\n", "| value | default | |", "| --- | --- | --- |"] if heading else []
            last = heading
        if value is not ...:
            default = json.dumps(value, ensure_ascii=False) if not isinstance(value, str) or not value else value
            lines.append(f"| `{'.'.join(path)}` | `{default}` | {comment.replace('|', chr(92) + '|')} |")
    return "\n".join(lines) + "\n"


def main():
    text = (CHART / "values.yaml").read_text()
    stale = []
    for name, content in ("README.md", readme(text)), ("values.schema.json", schema(text)):
        file = CHART / name
        if "--check" not in sys.argv:
            file.write_text(content)
        elif not file.exists() or file.read_text() != content:
            stale.append(f"charts/lockgate/{name}")
    if stale:
        sys.exit(f"not up to date with values.yaml: {', '.join(stale)}; run `make manifests`")


if __name__ == "__main__":
    try:
        main()
    except Fault as fault:
        sys.exit(f"error: {fault}")

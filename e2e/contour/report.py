#!/usr/bin/env python3
"""Prints the results of Contour's suites: a line for each test with its first message of failure, and a table.

usage: report.py DIRECTORY [--selected]
DIRECTORY has the reports of Ginkgo, SUITE.json. The output of each failed test is written into DIRECTORY/SUITE-TEST.log. With
`--selected`, tests that did not start are left out. Fails if a test fails that is not known to, or if none passes.
"""
import glob
import json
import os
import re
import sys

# Tests that assert how Contour works inside.
KNOWN = {"simple-endpoint-slice": "expects a name of Contour's Envoy clusters"}
FAILED = {"failed", "panicked", "timedout", "interrupted", "aborted"}


def namespace(spec):
    """The namespace of a test, by which FOCUS can select it."""
    found = [text for text in spec["ContainerHierarchyTexts"] or [] if text.startswith("with namespace: ")]
    return found[-1].removeprefix("with namespace: ") if found else re.sub(r"\W+", "-", spec["LeafNodeText"])[:60]


def first_message(spec):
    failure = spec.get("Failure") or {}
    place = failure.get("Location") or {}
    lines = [line.strip() for line in failure.get("Message", "").splitlines()]
    words = []
    for key in ("Error:", "Messages:"):
        words += [line.removeprefix(key).strip() for line in lines if line.startswith(key)]
    text = "; ".join(word for word in words if word) or " ".join(lines)
    where = f"{os.path.basename(place.get('FileName', ''))}:{place.get('LineNumber', '')}"
    return f"{where} {text}"[:300]


def write_log(directory, suite, spec):
    path = f"{directory}/{suite}-{re.sub(r'[^a-z0-9-]+', '-', namespace(spec).lower())}.log"
    failure = spec.get("Failure") or {}
    with open(path, "a", encoding="utf-8") as file:
        file.write("\n\n".join([" ".join((spec["ContainerHierarchyTexts"] or []) + [spec["LeafNodeText"]]), failure.get("Message", ""),
                                json.dumps(failure.get("Location", {}), indent=1), spec.get("CapturedGinkgoWriterOutput", ""),
                                spec.get("CapturedStdOutErr", "")]))


def main(directory, selected):
    rows, bad = [], False
    for path in sorted(glob.glob(f"{directory}/*.json")):
        suite = os.path.basename(path).removesuffix(".json")
        counts = {"passed": 0, "failed": 0, "known": 0, "skipped": 0}
        with open(path, encoding="utf-8") as file:
            specs = [spec for report in json.load(file) for spec in report["SpecReports"] or []]
        for spec in specs:
            failed = spec["State"] in FAILED
            if spec["LeafNodeType"] != "It" and not failed:
                continue
            if selected and not spec["NumAttempts"]:
                continue
            known = KNOWN.get(namespace(spec)) if failed else None
            state = "known" if known else "failed" if failed else spec["State"] if spec["State"] in counts else "skipped"
            counts[state] += 1
            label = f"{namespace(spec)}: {spec['LeafNodeText']}" if spec["LeafNodeType"] == "It" else spec["LeafNodeType"]
            print(f"{state:8}{spec['RunTime'] / 1e9:6.0f} s  {suite}/{label}")
            if failed:
                print(f"{'':18}{known or first_message(spec)}")
                write_log(directory, suite, spec)
        rows.append((suite, counts))
        bad = bad or counts["failed"] > 0
    total = {state: sum(counts[state] for _, counts in rows) for state in ("passed", "failed", "known", "skipped")}
    print(f"\n{'suite':12}{'passed':>8}{'failed':>8}{'known':>8}{'skipped':>9}")
    for suite, counts in [*rows, ("all", total)]:
        print(f"{suite:12}{counts['passed']:8}{counts['failed']:8}{counts['known']:8}{counts['skipped']:9}")
    return 1 if bad or not total["passed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], "--selected" in sys.argv[2:]))

"""Prints the results of the Gateway API conformance suite: a line for each test, then the failures and a table.

usage: test2json ... | conformance.py DIRECTORY REPORT AUDIT_LOG OFFSET
Writes all events into DIRECTORY/events.json, and the output of each failed test into DIRECTORY/TEST.log. REPORT is the
report of the suite. AUDIT_LOG is the audit log of the API server: requests of the controller that were denied after
OFFSET bytes are listed, too. Exits with 1 if a test failed, and with 2 if no test ran.
"""
import collections
import json
import pathlib
import re
import sys
import time

import yaml

ROOT = "TestConformance"
LOG_LINE = re.compile(r"^\s*\S+\.go:\d+: (?:\d{4}-\d\d-\d\dT\S+: )?(.*)")
FIELD = re.compile(r"^\s+\t(Error Trace|Error|Test|Messages):\s*(.*)")


class Test:
    """A test or subtest: its output, and its result once it has ended."""

    def __init__(self, name):
        self.name, self.output, self.result, self.started = name, [], None, time.monotonic()


def assertion(lines):
    """Returns the first failed assertion of testify in `lines`: its number of line and its text."""
    start = next((number for number, line in enumerate(lines) if "Error Trace:" in line), None)
    if start is None:
        return None
    fields, field = collections.defaultdict(list), None
    for line in lines[start:]:
        if match := FIELD.match(line):
            field = match[1]
            fields[field].append(match[2].strip())
        elif field and re.match(r"^\s+\t\s", line):
            fields[field].append(line.strip())
        else:
            break
    messages, error = (" ".join(part for part in fields[name] if part) for name in ("Messages", "Error"))
    error = error.removeprefix("Received unexpected error: ")
    return start, ": ".join(text for text in (messages, "" if error in messages else error) if text)


def reason(tests):
    """Returns the first message of failed tests, and the log line before it: it often contains the observed state."""
    for test in tests:
        if found := assertion(test.output):
            start, text = found
            logged = [match[1] for line in test.output[:start] if (match := LOG_LINE.match(line)) and match[1]]
            return text, logged[-1] if logged else ""
    for test in tests:
        lines = [match[1] if (match := LOG_LINE.match(line)) else line.strip() for line in test.output
                 if LOG_LINE.match(line) or line.startswith("panic:")]
        if lines:
            return lines[-1], lines[-2] if len(lines) > 1 else ""
    return "no message", ""


def shortened(text, length=400):
    """Returns the beginning and the end of a text: logged requests end with the difference to the expected response."""
    text = " ".join(text.split())
    return text if len(text) <= length else f"{text[:length // 2]} ... {text[-length // 2:]}"


def follow(stream, directory):
    """Reads all events, prints the progress, and returns all tests by name, in the order of their ends."""
    tests, ended = {}, []
    with open(directory / "events.json", "w") as events:
        for line in stream:
            events.write(line)
            try:
                event = json.loads(line)
            except ValueError:
                print(line.rstrip(), flush=True)
                continue
            name, action = event.get("Test"), event.get("Action")
            if name is None:
                continue
            test = tests.setdefault(name, Test(name))
            if action == "output":
                text = event["Output"]
                test.output.append(text)
                if name == ROOT and "Test Setup: " in text:
                    print("  " + text.split("Test Setup: ")[1].strip(), flush=True)
            elif action in ("pass", "fail", "skip"):
                test.result = action
                ended.append(test)
                if name.count("/") == 1 and action != "skip":
                    word = "passed" if action == "pass" else "FAILED"
                    seconds = time.monotonic() - test.started  # "Elapsed" lacks the time of parallel subtests
                    print(f"  {word}  {name.removeprefix(ROOT + '/')} ({seconds:.1f} s)", flush=True)
    return ended + [test for test in tests.values() if test.result is None]


def failures(tests, directory):
    """Prints each failed test with its first message, and keeps its output."""
    def of(test):
        return [other for other in tests if other.name == test.name or other.name.startswith(test.name + "/")]

    def failed(test):
        return test.result not in ("pass", "skip")  # a test without a result was running when the suite stopped

    tops = [test for test in tests if test.name.count("/") == 1 and failed(test)]
    root = next((test for test in tests if test.name == ROOT), None)
    if not tops and root and failed(root):
        tops = [root]
    for top in tops:
        family = of(top) if top is not root else [root]
        # Subtests end before their parents, so the first failed test is the most specific one.
        first = [test for test in family if failed(test)]
        text, logged = reason(first)
        print(f"\nFAILED  {top.name.removeprefix(ROOT + '/')}{'' if top.result else ' (did not end)'}")
        leaves = [t for t in first if t is not top and not any(o.name.startswith(t.name + "/") for o in first)]
        if leaves:
            print(f"        in {leaves[0].name.removeprefix(top.name + '/')}" +
                  (f", and {len(leaves) - 1} more subtests" if len(leaves) > 1 else ""))
        print(f"        {shortened(text)}")
        if logged:
            print(f"        before: {shortened(logged)}")
        log = directory / f"{top.name.removeprefix(ROOT + '/')}.log"
        log.write_text("".join(f"## {test.name}\n{''.join(test.output)}" for test in family))
    return len(tops)


def profiles(report):
    """Prints a table of the report, with a row for each profile."""
    columns = "{:<14} {:<9} {:>6} {:>6} {:>7}   {:<9} {:>6} {:>6} {:>7}"
    counted = "passed", "failed", "skipped"
    print("\n" + columns.format("profile", "core", *counted, "extended", *counted))
    for profile in sorted(report["profiles"] or [], key=lambda profile: profile["name"]):
        cells = [profile["name"]]
        for part in (profile["core"], profile.get("extended")):
            counts = (part or {}).get("statistics", {})
            cells += [part["result"] if part else "-", *(counts.get(key, 0) for key in ("Passed", "Failed", "Skipped"))]
        print(columns.format(*cells))
    print(f"Gateway API {report['gatewayAPIVersion']}, channel {report['gatewayAPIChannel']}")


def denied(audit_log, offset):
    """Prints the requests of the controller that the API server denied, with their number."""
    requests = collections.Counter()
    for line in audit_log.read_bytes()[offset:].splitlines():
        event = json.loads(line)
        if event.get("responseStatus", {}).get("code") == 403 and ":lockgate:" in event["user"]["username"]:
            target = event.get("objectRef", {})
            kind = "/".join(filter(None, (target.get("resource"), target.get("subresource"))))
            requests[f"{event['verb']} {kind}.{target.get('apiGroup', '')}".rstrip(".")] += 1
    for request, number in sorted(requests.items()):
        print(f"DENIED  {request} ({number} requests): do the roles of the chart lack a rule?")


def main():
    directory, report, audit_log = map(pathlib.Path, sys.argv[1:4])
    tests = follow(sys.stdin, directory)
    faults = failures(tests, directory)
    if report.exists():
        report.chmod(0o644)
        profiles(yaml.safe_load(report.read_text()))
    else:
        print("\nno report: the suite stopped before it could write one")
        faults += 1
    denied(audit_log, int(sys.argv[4]))
    run = sum(test.name.count("/") == 1 and test.result in ("pass", "fail") for test in tests)
    print(f"{run} tests ran")
    sys.exit(2 if run == 0 else faults > 0)


if __name__ == "__main__":
    main()

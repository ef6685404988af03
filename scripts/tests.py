#!/usr/bin/env python3
"""Runs a test program with a time limit for each test. Cargo calls it as its runner: see scripts/test.sh.

usage: tests.py PROGRAM [ARGUMENT...]     runs the program, with arguments for libtest
       tests.py --slowest N [FILE]        prints the slowest tests of the last runs, and the total of each program

A test that exceeds its limit, or that ends the process, fails by name. The other tests of the program still run.

env: TEST_LIMIT     the limit of a test without an entry in LIMITS, in seconds (default 300)
     TEST_RESULTS   the file for the durations of programs and tests, which are appended (default .lockgate/tests.tsv); failures.txt
                    beside it has the failed tests and their messages
     TEST_SUITE     the name of the run in that file (default: the name of the program)
     TEST_OUTPUT    1 prints the output of passed tests: the figures that they measure
     TEST_ONLY      runs only these tests: PROGRAM or PROGRAM:MODULE, separated by spaces
"""

import json
import os
import re
import resource
import selectors
import signal
import subprocess
import sys
import time
from pathlib import Path

# Limits of tests that take longer than a minute on two busy cores, in seconds, by prefix. A test that waits for its turn waits
# for all tests that measure times.
LIMITS = {
    "certificates::secrets::": 360,
    "chart::definitions": 360,
    "cluster::": 900,
    "contour::": 600,
    "drain::": 600,
    "every_case_of_": 900,
    "explain::shares::": 360,
    "gateway_load::": 600,
    "golden::": 360,
    "hitless::": 600,
    "hostile::": 360,
    "integrations::": 900,
    "status::": 360,
    "the_public_benchmark": 600,
}
LIMIT = int(os.environ.get("TEST_LIMIT", 300))
RESULTS = Path(os.environ.get("TEST_RESULTS", ".lockgate/tests.tsv"))
FAILURES = RESULTS.with_name("failures.txt")
PROGRESS = 60
# Lines of the message of a failed test, which is repeated at the end of a long run.
MESSAGE = 8
# libtest reports starts and durations only in its JSON format, which the stable compiler hides behind this variable.
UNSTABLE = {**os.environ, "RUSTC_BOOTSTRAP": "1"}


def limit(test):
    """Returns the time limit of a test in seconds."""
    return max([LIMIT, *(seconds for prefix, seconds in LIMITS.items() if test.startswith(prefix))])


def say(text):
    print(text, flush=True)


class Run:
    """One program: its tests, their results, and the process that runs them."""

    def __init__(self, program, arguments):
        self.program, self.arguments = program, arguments
        # The name without the hash of the build.
        self.name = re.sub(r"-[0-9a-f]{16}$", "", Path(program).name)
        self.results = {}  # test -> (result, seconds)
        self.running = {}  # test -> start
        self.process = None

    def list(self):
        """Returns the tests that the arguments select."""
        command = [self.program, "-Zunstable-options", *self.arguments, "--list", "--format", "terse"]
        listed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=UNSTABLE).stdout.splitlines()
        tests = [line.removesuffix(": test") for line in listed if line.endswith(": test")]
        if "TEST_ONLY" not in os.environ:
            return tests
        only = [one.partition(":") for one in os.environ["TEST_ONLY"].split()]
        modules = [module for program, _, module in only if program == self.name]
        return [test for test in tests if any(not module or test.startswith(f"{module}::") for module in modules)]

    def run(self):
        """Runs all tests. Returns the names of those that failed."""
        start, tests = time.monotonic(), self.list()
        if not tests and "TEST_ONLY" in os.environ:
            return []
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        say(f"running {len(tests)} tests of {self.name}")
        left = tests
        while left:
            # Other arguments than filters begin with a dash, or are their values.
            self.execute([*flags(self.arguments), "--exact", *left], len(tests))
            remaining = [test for test in left if test not in self.results]
            if len(remaining) == len(left):
                raise SystemExit(f"{self.name}: ended without a result of any test")
            if remaining:
                say(f"running {len(remaining)} tests of {self.name} that had not ended")
            left = remaining
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        self.write(time.monotonic() - start, cpu)
        failed = [test for test, (result, _) in self.results.items() if result != "ok"]
        for test in failed:
            say(f"    {self.name} {test}: {self.results[test][0]}")
        say(f"{self.name}: {time.monotonic() - start:.0f} s, {cpu:.0f} s of CPU")
        say(f"tests: {len(self.results) - len(failed)} passed, {len(failed)} failed")
        return failed

    def execute(self, arguments, total):
        """Starts the program, and follows it until it ends or a test exceeds its limit."""
        unstable = ["-Zunstable-options", "--format", "json", "--report-time", "--show-output"]
        self.process = subprocess.Popen(
            [self.program, *unstable, *arguments],
            env=UNSTABLE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        selector = selectors.DefaultSelector()
        selector.register(self.process.stdout, selectors.EVENT_READ)
        buffer, shown, hung = b"", time.monotonic(), []
        while True:
            if selector.select(timeout=1):
                chunk = os.read(self.process.stdout.fileno(), 1 << 16)
                if not chunk:
                    break
                *lines, buffer = (buffer + chunk).split(b"\n")
                for line in lines:
                    self.line(line.decode(errors="replace"))
            now = time.monotonic()
            if hung := [test for test, start in self.running.items() if now - start > limit(test)]:
                processes = self.processes()
                for test in hung:
                    self.end(test, f"did not end within {limit(test)} s", now - self.running[test], processes)
                self.kill()
                break
            if now - shown > PROGRESS:
                shown = now
                self.progress(total, now)
        self.process.wait()
        # Tests that ran beside one that hung are run again.
        if self.process.returncode < 0 and not hung:
            for test in [test for test in self.running if test not in self.results]:
                self.end(test, f"running when the process ended by signal {-self.process.returncode}", 0)
        self.running.clear()
        self.kill()

    def line(self, line):
        """Handles a line of the program: an event, or the output of something else than a test."""
        try:
            event = json.loads(line)
            kind, name, what = event["type"], event["name"], event["event"]
        except (ValueError, KeyError, TypeError):
            # The events of suites have no name.
            if '"type": "suite"' not in line:
                say(line)
            return
        if kind != "test":
            return
        if what == "started":
            self.running[name] = time.monotonic()
        elif what in ("ok", "failed"):
            self.running.pop(name, None)
            self.end(name, what, event.get("exec_time", 0), event.get("stdout", ""))

    def end(self, test, result, seconds, output=""):
        """Records and prints a result."""
        self.results[test] = (result, seconds)
        if result != "ok":
            FAILURES.parent.mkdir(parents=True, exist_ok=True)
            with FAILURES.open("a") as file:
                file.write(f"{os.environ.get('TEST_SUITE', self.name)} {test}: {result}\n{message(output)}")
        if result == "ok" and not os.environ.get("TEST_OUTPUT"):
            return
        say(f"test {test} ... {result} ({seconds:.1f} s)")
        if output:
            say("    " + output.rstrip("\n").replace("\n", "\n    "))

    def progress(self, total, now):
        """Prints the state of a long run."""
        failed = sum(result != "ok" for result, _ in self.results.values())
        running = sorted(self.running.items(), key=lambda item: item[1])[:4]
        running = ", ".join(f"{test} ({now - start:.0f} s)" for test, start in running)
        say(f"== {self.name}: {len(self.results)} of {total} tests, {failed} failed; running: {running}")

    def processes(self):
        """Returns the programs that the tests of the process run, the youngest last: one of them may hang."""
        found, uptime = [], float(Path("/proc/uptime").read_text().split()[0])
        for process in Path("/proc").glob("[0-9]*"):
            try:
                # The fields after the name, which may have spaces: the third is the group, the twentieth the start.
                fields = (process / "stat").read_text().rpartition(")")[2].split()
                command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue  # It has ended.
            if int(fields[2]) == self.process.pid != int(process.name):
                found.append((uptime - int(fields[19]) / os.sysconf("SC_CLK_TCK"), command))
        return "".join(f"running for {age:.0f} s: {command[:200]}\n" for age, command in sorted(found, reverse=True))

    def kill(self):
        """Ends the process and everything that its tests left running."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def write(self, seconds, cpu):
        """Appends the durations of the program and of its tests to the results."""
        suite = os.environ.get("TEST_SUITE", self.name)
        lines = [f"{suite}\t\t{cpu:.1f}\t{seconds:.1f}\n"]
        lines += [f"{suite}\t{test}\t{result}\t{seconds:.2f}\n" for test, (result, seconds) in self.results.items()]
        RESULTS.parent.mkdir(parents=True, exist_ok=True)
        with RESULTS.open("a") as file:
            file.write("".join(lines))


def message(output):
    """Returns why a test failed: the lines after "panicked at", up to the stack."""
    lines = output.splitlines()
    start = next((at for at, line in enumerate(lines) if " panicked at " in line), len(lines) - MESSAGE)
    kept = lines[max(start, 0) :][:MESSAGE]
    end = next((at for at, line in enumerate(kept) if line == "stack backtrace:"), len(kept))
    return "".join(f"    {line[:300]}\n" for line in kept[:end])


def flags(arguments):
    """Returns the arguments that select no tests."""
    kept, values = [], iter(arguments)
    for argument in values:
        if argument == "--skip":
            next(values, None)
        elif argument in ("--test-threads", "--shuffle-seed"):
            kept += [argument, next(values, "")]
        elif argument.startswith("-"):
            kept.append(argument)
    return kept


def slowest(count, path):
    """Prints the total of each program, and the slowest tests."""
    rows = [line.split("\t") for line in path.read_text().splitlines()]
    suites = dict.fromkeys(suite for suite, *_ in rows)
    say("| program | tests | wall, s | CPU, s | sum of its tests, s |\n| --- | ---: | ---: | ---: | ---: |")
    for suite in suites:
        totals = [(float(wall), float(cpu)) for name, test, cpu, wall in rows if name == suite and not test]
        tests = [float(seconds) for name, test, _, seconds in rows if name == suite and test]
        wall, cpu = map(sum, zip(*totals))
        say(f"| {suite} | {len(tests)} | {wall:.0f} | {cpu:.0f} | {sum(tests):.0f} |")
    say("\n| s | program | test |\n| ---: | --- | --- |")
    tests = sorted(((float(seconds), suite, test) for suite, test, _, seconds in rows if test), reverse=True)
    for seconds, suite, test in tests[:count]:
        say(f"| {seconds:.1f} | {suite} | {test} |")


def main():
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help"):
        say(__doc__.strip())
        return 0 if arguments else 2
    if arguments[0] == "--slowest":
        slowest(int(arguments[1]) if len(arguments) > 1 else 30, Path(arguments[2]) if len(arguments) > 2 else RESULTS)
        return 0
    run = Run(arguments[0], arguments[1:])

    def interrupted(*_):
        if run.process:
            run.kill()
        sys.exit(130)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupted)
    return 101 if run.run() else 0


if __name__ == "__main__":
    sys.exit(main())

"""Which local program stands for what an image has."""
import os
import re
import shlex
import shutil

from api import NotYet

# (regular expression, command); the first match wins.
IMAGES = [(pattern, shlex.split(command)) for pattern, _, command in
          (entry.strip().partition("=") for entry in os.environ["IMAGES"].split(";") if entry.strip())]
IMAGES += [(name, [name]) for name in ("echo-basic", "coredns", "envoy")]
# The echo servers of both conformance suites give the same answers.
IMAGES += [("ingressconformance/echoserver", ["echo-basic"])]


def local_command(spec):
    """What to run for a container."""
    mapped = next((command for pattern, command in IMAGES if re.search(pattern, spec.image)), None)
    head, rest = mapped, spec.args or []
    if spec.command:
        head, rest = local_program(spec.command[0]) or mapped, spec.command[1:] + rest
    if not head:
        raise NotYet("ErrImageNeverPull", f"IMAGES has no local command for {spec.image}")
    return head + rest


def local_program(path):
    """A path inside the image: the local program of that name, or one of this machine (sh, sleep)."""
    by_name = next((command for _, command in IMAGES if os.path.basename(found(command)) == os.path.basename(path)), None)
    return by_name or ([path] if shutil.which(path) else None)


def found(command):
    """The file that a command runs, without the environment that `env NAME=VALUE program` sets."""
    program = next((word for word in command if "=" not in word and os.path.basename(word) != "env"), command[0])
    return shutil.which(program) or program

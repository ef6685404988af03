"""One container: a process, its probes, its restarts and its end."""
import os
import shlex
import signal
import subprocess
import threading
import time

from api import API_IP, PATH, NotYet, event, expand, now
from images import found, local_command
from probes import Probe, act


class Security:
    """What is left to a process of root's powers, by the security contexts of its pod and container."""

    def __init__(self, pod, container):
        def first(field):
            values = [getattr(context, field, None) for context in (container, pod) if context]
            return next((value for value in values if value is not None), None)

        self.user, self.group = first("run_as_user"), first("run_as_group")
        self.groups = ([pod.fs_group] if pod and pod.fs_group is not None else []) + (pod and pod.supplemental_groups or [])
        self.read_only = bool(container and container.read_only_root_filesystem)
        capabilities = container and container.capabilities
        self.powerless = bool(capabilities and "ALL" in (capabilities.drop or []) and not capabilities.add)
        self.no_more = bool(container and container.allow_privilege_escalation is False)

    def prefix(self):
        """The command that gives them up and then runs another."""
        flags = []
        if self.user is not None:
            group = self.group if self.group is not None else 0
            groups = ",".join(map(str, self.groups))
            flags += [f"--reuid={self.user}", f"--regid={group}", f"--groups={groups}" if groups else "--clear-groups"]
        if self.powerless:
            flags += ["--bounding-set=-all", "--inh-caps=-all"]
        if self.no_more:
            flags += ["--no-new-privs"]
        return ["setpriv", *flags] if flags else []


class Container:
    def __init__(self, pod, spec, sidecar=False):
        self.pod, self.spec, self.name, self.sidecar = pod, spec, spec.name, sidecar
        self.process, self.spawned, self.started_at, self.restarts = None, 0.0, None, -1
        self.started = self.ready = False
        self.startup = self.liveness = self.readiness = None
        self.ending = None  # the thread that ends it for its liveness
        self.over = threading.Event()  # its end with the pod has come

    def spawn(self):
        env = self.environment()
        command = local_command(self.spec)
        security = Security(self.pod.spec.security_context, self.spec.security_context)
        script = ["set -e", f"echo {shlex.quote(self.pod.meta.name[:63])} >/proc/sys/kernel/hostname"]
        script += [*self.keep_program(command, security), f"cd {self.pod.volumes.root}"]
        # A container has shared memory of its own. Envoys of different pods would take each other's.
        script.append("mount -t tmpfs shm /dev/shm")
        # Parents before children. The source is relative to the working directory, and -c keeps mount from making
        # it absolute: a volume may cover this very directory, as an emptyDir at /tmp does when DIR is in /tmp.
        for m in sorted(self.spec.volume_mounts or [], key=lambda m: m.mount_path.rstrip("/").count("/")):
            sub = expand(m.sub_path_expr or m.sub_path or "", env)
            source, target = shlex.quote(f"{m.name}/{sub}".rstrip("/")), shlex.quote(m.mount_path)
            script.append(f"[ -e {source} ] || mkdir -p {source}")
            script.append(f"[ -e {target} ] || if [ -d {source} ]; then mkdir -p {target}; "
                          f"else mkdir -p $(dirname {target}); touch {target}; fi")
            script.append(f"mount -c --bind {source} {target}")
            if m.read_only:
                script.append(f"mount -c -o remount,bind,ro {target}")
        script.append(f"cd {shlex.quote(self.spec.working_dir or '/')} 2>/dev/null || cd /")
        if security.read_only:
            script.append("mount -o remount,bind,ro /")  # volumes are mounts of their own
        script.append("exec " + shlex.join(security.prefix() + [expand(word, env) for word in command]))
        self.spawned, self.started_at, self.restarts = time.monotonic(), now(), self.restarts + 1
        self.started = self.ready = False
        with open(f"{self.pod.root}/{self.name}.log", "ab") as out:
            os.chmod(out.fileno(), 0o666)  # any user of the container may open /dev/stdout
            # `ip netns exec` makes a mount namespace too. start_new_session: one process group to signal.
            self.process = subprocess.Popen(
                ["ip", "netns", "exec", self.pod.netns, "unshare", "--uts", "sh", "-c", "\n".join(script)],
                env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)
        with open(f"{self.pod.root}/{self.name}.pid", "w") as f:
            f.write(f"{self.process.pid}\n")
        spec = self.spec
        self.startup = spec.startup_probe and Probe(self, spec.startup_probe, eager=0.3)
        self.liveness = spec.liveness_probe and Probe(self, spec.liveness_probe)
        self.readiness = spec.readiness_probe and Probe(self, spec.readiness_probe, eager=0.3)
        self.post_start()

    def keep_program(self, command, security):
        """Shell lines by which the program is found although a volume is mounted over it, an emptyDir at /tmp, say, or it is
        in a directory that the container's user may not enter."""
        program = found(command)
        mounts = tuple(m.mount_path.rstrip("/") + "/" for m in self.spec.volume_mounts or [])
        # The file may be a link to another directory.
        covered = any(path.startswith(mounts) for path in (program, os.path.realpath(program)))
        if security.user is None and not covered:
            return []
        index = next(i for i, word in enumerate(command) if found([word]) == program)
        command[index] = "/proc/self/fd/9"
        return [f"exec 9<{shlex.quote(program)}"]

    def post_start(self):
        hook = self.spec.lifecycle and self.spec.lifecycle.post_start
        if not hook:
            return
        ok, message = act(self, hook, self.pod.grace_period)
        if not ok and self.process.poll() is None:
            event(self.pod.meta, "FailedPostStartHook", f"container {self.name}: {message}")
            self.kill_later()

    def environment(self):
        env = {"PATH": PATH, "HOME": self.pod.root, "HOSTNAME": self.pod.meta.name,
               "KUBERNETES_SERVICE_HOST": API_IP, "KUBERNETES_SERVICE_PORT": "443"}
        volumes = self.pod.volumes
        for source in self.spec.env_from or []:
            data = volumes.data(source.secret_ref, source.config_map_ref)
            env.update({(source.prefix or "") + key: value.decode() for key, value in data.items()})
        for e in self.spec.env or []:
            source = e.value_from
            if not source:
                env[e.name] = expand(e.value or "", env)
            elif source.field_ref:
                env[e.name] = self.pod.field(source.field_ref.field_path)
            elif source.resource_field_ref:
                env[e.name] = volumes.resource(source.resource_field_ref, self.name)
            elif ref := source.secret_key_ref or source.config_map_key_ref:
                data = volumes.data(source.secret_key_ref, source.config_map_key_ref)
                if ref.key in data:
                    env[e.name] = data[ref.key].decode()
                elif not ref.optional:
                    raise NotYet("CreateContainerConfigError", f"no key {ref.key} in {ref.name}")
        return env

    def check(self):
        """Starts the process if it should run and does not; returns the container's state, as in the API."""
        code = self.process and self.process.poll()
        if code is not None:
            self.ready = self.started = False
            restart = "Always" if self.sidecar else self.pod.restart
            if restart == "Never" or (restart == "OnFailure" and code == 0):
                return self.terminated(code)
            if time.monotonic() < self.spawned + min(self.restarts, 5):  # the kubelet's back-off grows to 5 minutes
                return {"waiting": {"reason": "CrashLoopBackOff", "message": f"exit code {code}"}}
            event(self.pod.meta, "BackOff", f"container {self.name} ended, exit code {code}; it is started again")
        if not self.process or code is not None:
            self.ending = None
            try:
                self.spawn()
            except NotYet as e:
                return {"waiting": {"reason": e.args[0], "message": e.args[1]}}
        self.probe()
        return self.running()

    def running(self):
        return {"running": {"startedAt": self.started_at}}

    def terminated(self, code):
        return {"terminated": {"exitCode": code if code >= 0 else 128 - code, "finishedAt": now(),
                               "reason": "Error" if code else "Completed"}}

    def probe(self, readiness_alone=False):
        """Carries out the probes that are due; of a pod that is ending, readiness alone."""
        if self.ending:
            self.ready = False
            return
        if self.startup and not self.startup.passes:
            if self.startup.run() and self.startup.fails:
                return self.unhealthy("Startup", self.startup)
        self.started = not self.startup or self.startup.passes
        if not self.started:
            return
        if self.liveness and not readiness_alone and self.liveness.run() and self.liveness.fails:
            return self.unhealthy("Liveness", self.liveness)
        if not self.readiness:
            self.ready = True
        elif self.readiness.run():
            if self.readiness.failed and self.ready and self.readiness.failed == 1:
                event(self.pod.meta, "Unhealthy", f"Readiness probe of {self.name} failed: {self.readiness.message}")
            if self.readiness.passes:
                self.ready, self.readiness.eager = True, 0.0
            elif self.readiness.fails:
                self.ready = False

    def unhealthy(self, kind, probe):
        event(self.pod.meta, "Unhealthy", f"{kind} probe of {self.name} failed: {probe.message}")
        event(self.pod.meta, "Killing", f"container {self.name} failed its {kind.lower()} probe and is restarted", "Normal")
        self.kill_later(probe.spec.termination_grace_period_seconds)

    def kill_later(self, grace=None):
        """Ends the process beside all that goes on; the next check starts it again."""
        self.ready = False
        self.ending = threading.Thread(target=self.end, args=[self.pod.grace_period if grace is None else grace], daemon=True)
        self.ending.start()

    def end(self, grace, turn=None):
        """Ends the process as the kubelet does: the preStop hook, SIGTERM, and SIGKILL after the grace period. A sidecar
        waits for its turn after its hook."""
        try:
            if not self.process or self.process.poll() is not None:
                return
            deadline = time.monotonic() + grace
            hook = self.spec.lifecycle and self.spec.lifecycle.pre_stop
            if grace and hook:
                ok, message = act(self, hook, grace)
                if not ok:
                    event(self.pod.meta, "FailedPreStopHook", f"container {self.name}: {message}")
            if turn:
                turn(max(deadline - time.monotonic(), 0))
            # Whatever the hook has used up, the process is given 2 s, unless it is to be killed.
            left = max(deadline - time.monotonic(), 2 if grace else 0)
            for signum, patience in (signal.SIGTERM, left), (signal.SIGKILL, None):
                try:
                    os.killpg(self.process.pid, signum)
                    self.process.wait(patience)
                    return
                except ProcessLookupError:
                    return
                except subprocess.TimeoutExpired:
                    pass
        finally:
            if self.pod.stop.is_set():
                self.over.set()

//! Child processes with their output in a file. They are killed when dropped.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::wait::wait_for;

/// A running program.
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a program; standard output and error are appended to `log`.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn start(name: &str, program: &Path, args: &[impl AsRef<OsStr>], log: &Path) -> Self {
        let file = File::options().create(true).append(true).open(log).expect("the log file");
        let child = Command::new(program)
            .args(args)
            .stdin(Stdio::null())
            .stdout(file.try_clone().expect("the log file"))
            .stderr(file)
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        Self { name: name.into(), child, log: log.into() }
    }

    /// Returns its output.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Returns the process ID.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the resident memory in bytes.
    ///
    /// # Panics
    /// If the system does not report it.
    pub fn memory(&self) -> u64 {
        self.bytes("VmRSS:")
    }

    /// Returns the peak resident memory in bytes.
    ///
    /// # Panics
    /// If the system does not report it.
    pub fn peak_memory(&self) -> u64 {
        self.bytes("VmHWM:")
    }

    /// Returns the CPU time of all its threads.
    ///
    /// # Panics
    /// If the system does not report it.
    pub fn cpu_time(&self) -> Duration {
        let threads = format!("/proc/{}/task", self.id());
        let threads = std::fs::read_dir(&threads).unwrap_or_else(|error| panic!("{threads}: {error}"));
        // A thread can end meanwhile.
        let times = threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok());
        let nanoseconds = |text: String| text.split(' ').next().and_then(|time| time.parse().ok()).unwrap_or(0);
        Duration::from_nanos(times.map(nanoseconds).sum())
    }

    fn bytes(&self, field: &str) -> u64 {
        let path = format!("/proc/{}/status", self.id());
        let status = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let line = status.lines().find_map(|line| line.strip_prefix(field)).expect(field);
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number of kB") * 1024
    }

    /// # Panics
    /// If it has ended; the message has the end of its output.
    pub fn assert_running(&mut self) {
        if let Ok(Some(status)) = self.child.try_wait() {
            panic!("{} has ended, {status}:\n{}", self.name, self.tail());
        }
    }

    /// Kills it with `SIGKILL`.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Sends a signal by name (`TERM`, `HUP`).
    ///
    /// # Panics
    /// If the process does not exist.
    pub fn signal(&self, signal: &str) {
        let id = self.id().to_string();
        let status = Command::new("kill").args(["-s", signal, &id]).status().expect("the program kill");
        assert!(status.success(), "kill -s {signal} {id} ({})", self.name);
    }

    /// Waits until it has ended.
    pub async fn ended(&mut self) -> ExitStatus {
        let what = format!("the end of {}", self.name);
        wait_for(&what, async || self.child.try_wait().expect("the state of a child")).await.0
    }

    /// Returns the last lines of its output.
    pub fn tail(&self) -> String {
        let log = self.log();
        // Lines of Envoy's access log would hide the relevant ones.
        let lines: Vec<&str> = log.lines().filter(|line| !line.contains(" HTTP/1.1\" 200 ")).collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("--- last lines of {}:\n{}\n---", self.name, self.tail());
        }
    }
}

/// Runs a program with input and returns its output.
///
/// # Errors
/// The standard error if the program fails.
///
/// # Panics
/// If it cannot be run.
pub async fn output(mut command: Command, stdin: &str) -> Result<String, String> {
    let stdin = stdin.to_owned();
    let run = move || {
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().unwrap_or_else(|error| panic!("{:?}: {error}", command.get_program()));
        // The program may exit before it has read all input.
        let _ = child.stdin.take().expect("standard input").write_all(stdin.as_bytes());
        child.wait_with_output().expect("the end of a program")
    };
    let output = tokio::task::spawn_blocking(run).await.expect("a thread");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

/// Returns the directory of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a parent directory").into()
}

/// Returns the path of a program that a test needs.
///
/// # Panics
/// If it does not exist; the message has the command that installs it.
pub fn program(path: PathBuf, remedy: &str) -> PathBuf {
    assert!(path.exists(), "{} is missing: run `{remedy}`", path.display());
    path
}

//! Isolates a benchmark case: neither a panic nor a lack of memory may end more than the case itself.
//!
//! A machine without free memory does not respond to its operator. A thread therefore watches the free memory. If too little is
//! left, it kills the largest of the benchmark's programs, and the case ends with all its programs.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use anyhow::anyhow;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::sync::watch;

/// How often the thread looks. Programs have been seen to grow by a GiB a second.
const PERIOD: Duration = Duration::from_millis(100);
/// How long what a killed program had may take to come back before the next one follows.
const PATIENCE: Duration = Duration::from_secs(2);

/// Watches over memory while it is there; copies are the same one.
#[derive(Debug, Clone)]
pub struct Guard {
    /// Why a case had to end.
    broken: Arc<watch::Sender<Option<String>>>,
}

impl Guard {
    /// One for our programs, which leaves the rest of the machine an eighth of its memory.
    ///
    /// # Errors
    /// The system does not say how much there is, or has no thread.
    pub fn start() -> io::Result<Self> {
        Self::of(std::process::id(), meminfo("MemTotal:")? / 8)
    }

    /// One for the programs that the process `parent` has started, which leaves `floor` bytes.
    fn of(parent: u32, floor: u64) -> io::Result<Self> {
        let broken = Arc::new(watch::Sender::new(None));
        let there = Arc::downgrade(&broken);
        std::thread::Builder::new().name("guard".into()).spawn(move || watch_over(parent, floor, &there))?;
        Ok(Self { broken })
    }

    /// What comes of `case`, unless it panics (as a helper of the tests does that waits in vain), or there is no memory left
    /// for it.
    ///
    /// # Errors
    /// Those of `case`, a panic, a lack of memory.
    pub async fn over<T>(&self, case: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
        self.broken.send_replace(None);
        let mut broken = self.broken.subscribe();
        tokio::select! {
            biased;
            Ok(reason) = broken.wait_for(Option::is_some) => Err(anyhow!("{}", reason.as_deref().unwrap_or_default())),
            result = CatchUnwind(Box::pin(case)) => match result {
                Ok(result) => result,
                Err(panic) => Err(anyhow!("{panic}")),
            },
        }
    }
}

fn watch_over(parent: u32, floor: u64, broken: &Weak<watch::Sender<Option<String>>>) {
    while let Some(broken) = broken.upgrade() {
        std::thread::sleep(PERIOD);
        let Ok(left) = meminfo("MemAvailable:") else { continue };
        if left >= floor {
            continue;
        }
        let programs = children(parent);
        let Some(largest) = programs.first() else { continue };
        let reason = told(&programs, left);
        eprintln!("{reason}; {} ({}) is killed", largest.name, largest.id);
        broken.send_replace(Some(reason));
        if let Ok(id) = i32::try_from(largest.id) {
            // It may have ended by itself.
            let _ = kill(Pid::from_raw(id), Signal::SIGKILL);
        }
        std::thread::sleep(PATIENCE);
    }
}

/// A program, and how much memory it has resident.
struct Program {
    name: String,
    id: u32,
    memory: u64,
}

/// The programs that `parent` has started, the largest first.
fn children(parent: u32) -> Vec<Program> {
    let Ok(processes) = std::fs::read_dir("/proc") else { return vec![] };
    let program = |id: u32| {
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
        let field = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        let own = field("PPid:")?.parse() == Ok(parent);
        // What has ended and was not waited for has none.
        let memory: u64 = field("VmRSS:")?.trim_end_matches(" kB").parse().ok()?;
        own.then(|| Program { name: field("Name:").unwrap_or_default().to_owned(), id, memory: memory * 1024 })
    };
    let ids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let mut programs: Vec<Program> = ids.filter_map(program).collect();
    programs.sort_by_key(|program| std::cmp::Reverse(program.memory));
    programs
}

fn told(programs: &[Program], left: u64) -> String {
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    let largest = programs.iter().take(3).map(|one| format!("{} had {:.1} GiB", one.name, gib(one.memory)));
    format!("out of memory: {}, and {:.1} GiB were left", largest.collect::<Vec<_>>().join(", "), gib(left))
}

/// A line of the system's account of memory, in bytes.
fn meminfo(key: &str) -> io::Result<u64> {
    let text = std::fs::read_to_string("/proc/meminfo")?;
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    Ok(value.ok_or(io::ErrorKind::InvalidData)? * 1024)
}

/// A future whose panic is its result.
struct CatchUnwind<F>(Pin<Box<F>>);

impl<F: Future> Future for CatchUnwind<F> {
    type Output = Result<F::Output, String>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match catch_unwind(AssertUnwindSafe(|| self.0.as_mut().poll(context))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
            Err(panic) => Poll::Ready(Err(message(&*panic))),
        }
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_else(|| "a panic".into())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, Stdio};

    use super::*;

    #[tokio::test]
    async fn without_memory_the_largest_program_is_killed_and_the_case_ends() {
        // The guard is one for what this shell starts, and there is never as much memory as it is to leave.
        let script = "sleep 1000 & wait $!; echo $? >&2";
        let shell = Command::new("sh").args(["-c", script]).stderr(Stdio::piped()).spawn().unwrap();
        let guard = Guard::of(shell.id(), u64::MAX).unwrap();
        let ended = tokio::task::spawn_blocking(|| shell.wait_with_output());
        let error = guard.over(std::future::pending::<anyhow::Result<()>>()).await.unwrap_err().to_string();
        assert!(error.starts_with("out of memory") && error.contains("sleep had 0.0 GiB"), "{error}");
        let output = ended.await.unwrap().unwrap();
        let killed = 128 + Signal::SIGKILL as i32;
        assert!(String::from_utf8_lossy(&output.stderr).trim().ends_with(&killed.to_string()), "{output:?}");
        assert_eq!(output.status.signal(), None, "the shell itself goes on");
    }

    #[tokio::test]
    async fn a_panic_is_an_error_and_the_next_case_goes_on() {
        let guard = Guard::of(std::process::id(), 0).unwrap();
        let fails = async |text: &str| -> anyhow::Result<()> { panic!("{text}") };
        assert_eq!(guard.over(fails("waited in vain")).await.unwrap_err().to_string(), "waited in vain");
        assert_eq!(guard.over(async { anyhow::Ok(7) }).await.unwrap(), 7);
    }
}

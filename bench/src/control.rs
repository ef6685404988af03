//! The control connection: one command a line, one line of answer. The same for every server.
//!
//! `set` commands that already wait when one is carried out are carried out together with it, as a control plane does
//! that gathers changes.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::str::FromStr;

use anyhow::{Context, bail};

use crate::resources::Kind;

/// A command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// `set TYPE FIRST COUNT MARKER`: resources with these numbers get this marker, all in one publication.
    Set(Kind, usize, usize, u64),
    /// `noop TYPE TIMES`: resource 0 is published anew that often, unchanged.
    Noop(Kind, usize),
    /// `remove TYPE FIRST COUNT`: these are gone.
    Remove(Kind, usize, usize),
    /// `stats`: the process's own CPU time and memory.
    Stats,
    /// `settle`: what is garbage is given back to the system, where the language has such a thing.
    Settle,
}

impl FromStr for Command {
    type Err = anyhow::Error;

    fn from_str(line: &str) -> anyhow::Result<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        Ok(match words[..] {
            ["set", kind, first, count, marker] => {
                let marker = u64::from_str_radix(marker, 16).context("the marker")?;
                Command::Set(kind.parse()?, first.parse()?, count.parse()?, marker)
            }
            ["noop", kind, times] => Command::Noop(kind.parse()?, times.parse()?),
            ["remove", kind, first, count] => Command::Remove(kind.parse()?, first.parse()?, count.parse()?),
            ["stats"] => Command::Stats,
            ["settle"] => Command::Settle,
            _ => bail!("no command: {line:?}"),
        })
    }
}

impl std::fmt::Display for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Command::Set(kind, first, count, marker) => write!(f, "set {} {first} {count} {marker:x}", kind.as_str()),
            Command::Noop(kind, times) => write!(f, "noop {} {times}", kind.as_str()),
            Command::Remove(kind, first, count) => write!(f, "remove {} {first} {count}", kind.as_str()),
            Command::Stats => f.write_str("stats"),
            Command::Settle => f.write_str("settle"),
        }
    }
}

/// What a process says of itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct Usage {
    /// CPU time since its start, user and system.
    pub cpu_ns: u64,
    /// Resident memory.
    pub rss_kib: u64,
    /// The most that it ever was.
    pub peak_kib: u64,
}

impl Usage {
    /// Of this process.
    ///
    /// # Errors
    /// There is no `/proc`.
    pub fn own() -> anyhow::Result<Self> {
        let status = std::fs::read_to_string("/proc/self/status")?;
        let kib = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key)).with_context(|| format!("no {key}"))?;
            line.trim().trim_end_matches(" kB").parse::<u64>().context("a number of kB")
        };
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let cpu_ns = time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs();
        Ok(Self { cpu_ns, rss_kib: kib("VmRSS:")?, peak_kib: kib("VmHWM:")? })
    }
}

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.cpu_ns, self.rss_kib, self.peak_kib)
    }
}

impl FromStr for Usage {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let numbers: Result<Vec<u64>, _> = text.split_whitespace().map(str::parse).collect();
        match numbers?[..] {
            [cpu_ns, rss_kib, peak_kib] => Ok(Self { cpu_ns, rss_kib, peak_kib }),
            _ => bail!("no usage: {text:?}"),
        }
    }
}

/// Carries out what comes over `connection` until it ends; `act` is given one command, or several `set` at once, and
/// gives the answer's words, which may be none.
///
/// # Errors
/// The connection breaks.
pub fn serve(connection: TcpStream, mut act: impl FnMut(&[Command]) -> anyhow::Result<String>) -> anyhow::Result<()> {
    connection.set_nodelay(true)?;
    let mut answers = connection.try_clone()?;
    let mut reader = BufReader::with_capacity(1 << 20, connection);
    let mut held = None;
    loop {
        let first = match held.take() {
            Some(command) => command,
            None => match next(&mut reader)? {
                Some(command) => command,
                None => return Ok(()),
            },
        };
        let mut commands = vec![first];
        while matches!(first, Command::Set(..)) && reader.buffer().contains(&b'\n') {
            match next(&mut reader)? {
                Some(command @ Command::Set(..)) => commands.push(command),
                other => {
                    held = other;
                    break;
                }
            }
        }
        let answer = act(&commands)?;
        let lines: String = commands.iter().map(|_| format!("ok {answer}\n")).collect();
        answers.write_all(lines.as_bytes())?;
    }
}

fn next(reader: &mut impl BufRead) -> anyhow::Result<Option<Command>> {
    let mut line = String::new();
    match reader.read_line(&mut line)? {
        0 => Ok(None),
        _ => line.parse().map(Some),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn commands_are_read_as_they_are_written() {
        for command in [
            Command::Set(Kind::Eds, 3, 4, 0xabc),
            Command::Noop(Kind::Cds, 1000),
            Command::Remove(Kind::Eds, 1, 2),
            Command::Stats,
            Command::Settle,
        ] {
            assert_eq!(command.to_string().parse::<Command>().unwrap(), command);
        }
    }
}

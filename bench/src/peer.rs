//! A server under test: its process, its control connection, what it uses.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, ensure};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::process::{Child, Command as Process};
use tokio::sync::mpsc;

use crate::control::{Command, Usage};

/// Longer than any single command takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// Which server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Server {
    /// Ours.
    Lockgate,
    /// go-control-plane with its linear cache.
    Linear,
    /// go-control-plane with its snapshot cache.
    Snapshot,
}

impl Server {
    /// All, ours first.
    pub const ALL: [Self; 3] = [Self::Lockgate, Self::Linear, Self::Snapshot];

    /// As in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Server::Lockgate => "Lockgate",
            Server::Linear => "linear cache",
            Server::Snapshot => "snapshot cache",
        }
    }
}

/// Where the programs are.
#[derive(Debug, Clone)]
pub struct Programs {
    /// `lockgate-xds-bench-server`.
    pub lockgate: PathBuf,
    /// The built `go-control-plane/`.
    pub go_control_plane: PathBuf,
}

/// A running server. Ends when dropped.
#[derive(Debug)]
pub struct Peer {
    /// Where it serves xDS.
    pub address: SocketAddr,
    commands: OwnedWriteHalf,
    answers: mpsc::UnboundedReceiver<String>,
    outstanding: usize,
    // Killed when dropped.
    process: Child,
}

impl Peer {
    /// Starts `server`.
    ///
    /// # Errors
    /// It cannot be started, or does not say where it listens.
    pub async fn start(server: Server, programs: &Programs) -> anyhow::Result<Self> {
        let mut command = match server {
            Server::Lockgate => Process::new(&programs.lockgate),
            Server::Linear | Server::Snapshot => {
                let mut command = Process::new(&programs.go_control_plane);
                command.args(["--cache", if server == Server::Linear { "linear" } else { "snapshot" }]);
                command
            }
        };
        let mut process = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().context("cannot start a server")?;
        let stdout = process.stdout.take().context("no output of the server")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).await?;
        let addresses: Result<Vec<SocketAddr>, _> = line.split_whitespace().map(str::parse).collect();
        let addresses = addresses.with_context(|| format!("the server says {line:?}"))?;
        ensure!(addresses.len() == 2, "the server says {line:?}");
        let control = TcpStream::connect(addresses[1]).await?;
        control.set_nodelay(true)?;
        let (read, commands) = control.into_split();
        let (answer, answers) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut lines = BufReader::new(read).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                if answer.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Self { address: addresses[0], commands, answers, outstanding: 0, process })
    }

    /// Gives a command without waiting for the answer.
    ///
    /// # Errors
    /// The server is gone.
    pub async fn post(&mut self, command: Command) -> anyhow::Result<()> {
        self.outstanding += 1;
        self.commands.write_all(format!("{command}\n").as_bytes()).await.context("the server is gone")
    }

    /// Waits until all commands are carried out; gives the last answer.
    ///
    /// # Errors
    /// The server is gone, or too slow.
    pub async fn settled(&mut self) -> anyhow::Result<String> {
        let mut last = String::new();
        while self.outstanding > 0 {
            let answer = tokio::time::timeout(PATIENCE, self.answers.recv()).await;
            last = answer.context("the server does not answer")?.context("the server is gone")?;
            self.outstanding -= 1;
        }
        Ok(last.strip_prefix("ok").unwrap_or(&last).trim().to_owned())
    }

    /// Gives a command and waits for all answers that are due.
    ///
    /// # Errors
    /// As [`Peer::settled`].
    pub async fn command(&mut self, command: Command) -> anyhow::Result<String> {
        self.post(command).await?;
        self.settled().await
    }

    /// The server's resident memory in KiB as the system sees it, without asking a server that may be busy.
    pub fn resident_kib(&self) -> u64 {
        let status = self.process.id().and_then(|id| std::fs::read_to_string(format!("/proc/{id}/status")).ok());
        let line = status.as_deref().and_then(|status| status.lines().find_map(|line| line.strip_prefix("VmRSS:")));
        line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or_default()
    }

    /// What the server's process has used.
    ///
    /// # Errors
    /// As [`Peer::settled`].
    pub async fn usage(&mut self) -> anyhow::Result<Usage> {
        self.command(Command::Stats).await?.parse()
    }
}

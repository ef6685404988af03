//! A reader of the documentation, who types its commands in a shell.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use e2e::Lab;
use e2e::pages::{self, Block};
use e2e::process::repository;
use tokio::process::Command;

/// A reader with a directory, a kubeconfig for one namespace, and a shell that keeps its variables.
pub(super) struct Reader {
    directory: tempfile::TempDir,
}

impl Reader {
    /// Creates a reader whose default namespace is `namespace`.
    pub(super) async fn new(lab: &Lab, namespace: &str) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let reader = Self { directory };
        let config = std::fs::read_to_string(lab.file("kubeconfig")).expect("the kubeconfig of the lab");
        std::fs::write(reader.path().join("kubeconfig"), config).expect("a file");
        for name in ["charts", "crds"] {
            symlink(repository().join(name), reader.path().join(name)).expect("a link");
        }
        reader.run(&format!("kubectl config set-context --current --namespace {namespace}")).await.expect("a context");
        reader
    }

    /// Returns the working directory of the shell.
    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Runs a command. Returns its output, as an error if the command failed.
    pub(super) async fn run(&self, line: &str) -> Result<String, String> {
        let programs = [e2e::lab::program("kubectl"), e2e::lockgate::binary()];
        let directories =
            programs.iter().filter_map(|program| program.parent()).map(|parent| parent.display().to_string());
        let path: Vec<String> = directories.chain(std::env::var("PATH")).collect();
        // Assigned variables are available to the next command.
        let script = format!("set -a; [ ! -e .variables ] || . ./.variables\n{line}\nexport -p >.variables\n");
        let mut command = Command::new("bash");
        command.args(["-euo", "pipefail", "-c", &script]).current_dir(self.path()).env("PATH", path.join(":"));
        command.env("KUBECONFIG", self.path().join("kubeconfig")).env("HOME", self.path());
        let output = command.output().await.expect("bash");
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        if output.status.success() { Ok(text) } else { Err(text) }
    }

    /// Runs a command until it prints the output on the page. A command without output on the page must succeed
    /// immediately.
    async fn run_until_shown(&self, place: &str, command: &pages::Command) {
        let pages::Command { line, output } = command;
        println!("{place}: {line}");
        if output.is_empty() {
            let written = self.run(line).await;
            assert!(written.is_ok(), "{place}: {line}\n{}", written.unwrap_err());
            return;
        }
        let start = Instant::now();
        loop {
            let written = self.run(line).await.unwrap_or_else(|failed| failed);
            if pages::shows(&written, output) {
                return;
            }
            assert!(
                start.elapsed() < Duration::from_secs(90),
                "{place}: {line}\nshows\n{written}\ninstead of {output:#?}"
            );
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Writes the files of blocks, and runs the commands of those with a mark. Returns the number of commands.
    pub(super) async fn run_blocks(&self, blocks: &[Block], mark: &str) -> usize {
        let mut commands = 0;
        for block in blocks {
            if let Some(name) = block.mark("file:") {
                std::fs::write(self.path().join(name), &block.text).expect("a file");
            }
            if block.mark(mark).is_some() {
                for command in pages::commands(&block.text) {
                    self.run_until_shown(&block.place, &command).await;
                    commands += 1;
                }
            }
        }
        commands
    }
}

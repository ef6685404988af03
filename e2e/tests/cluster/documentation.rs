//! Runs the commands of the documentation page by page, in a shell as a reader would. The output must contain the shown text.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use e2e::Lab;
use e2e::pages::{self, Block};
use e2e::process::repository;

/// The page whose commands run before each page of tasks.
const FIRST: &str = "docs/tasks/README.md";
const MARK: &str = "run in the lab";

/// A reader with a directory, a kubeconfig for one namespace, and a shell that keeps its variables.
struct Reader {
    directory: tempfile::TempDir,
}

impl Reader {
    fn new(lab: &Lab, namespace: &str) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let reader = Self { directory };
        let config = std::fs::read_to_string(lab.file("kubeconfig")).expect("the kubeconfig of the lab");
        std::fs::write(reader.path().join("kubeconfig"), config).expect("a file");
        symlink(repository().join("charts"), reader.path().join("charts")).expect("a link");
        reader.run(&format!("kubectl config set-context --current --namespace {namespace}")).expect("a context");
        reader
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Runs a command. Returns its output, as an error if the command failed.
    fn run(&self, line: &str) -> Result<String, String> {
        let programs = [e2e::lab::program("kubectl"), e2e::lockgate::binary()];
        let directories =
            programs.iter().filter_map(|program| program.parent()).map(|parent| parent.display().to_string());
        let path: Vec<String> = directories.chain(std::env::var("PATH")).collect();
        // Assigned variables are available to the next command.
        let script = format!("set -a; [ ! -e .variables ] || . ./.variables\n{line}\nexport -p >.variables\n");
        let mut command = Command::new("bash");
        command.args(["-euo", "pipefail", "-c", &script]).current_dir(self.path()).env("PATH", path.join(":"));
        command.env("KUBECONFIG", self.path().join("kubeconfig")).env("HOME", self.path());
        let output = command.output().expect("bash");
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        if output.status.success() { Ok(text) } else { Err(text) }
    }

    /// Runs a command until it prints the output on the page. A command without output on the page must succeed
    /// immediately.
    async fn run_until_shown(&self, place: &str, command: &pages::Command) {
        let pages::Command { line, output } = command;
        println!("{place}: {line}");
        if output.is_empty() {
            let written = self.run(line);
            assert!(written.is_ok(), "{place}: {line}\n{}", written.unwrap_err());
            return;
        }
        let start = Instant::now();
        loop {
            let written = self.run(line).unwrap_or_else(|failed| failed);
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

    async fn run_page(&self, blocks: &[Block]) -> usize {
        let mut commands = 0;
        for block in blocks {
            if let Some(name) = block.mark("file:") {
                std::fs::write(self.path().join(name), &block.text).expect("a file");
            }
            if block.mark(MARK).is_some() {
                for command in pages::commands(&block.text) {
                    self.run_until_shown(&block.place, &command).await;
                    commands += 1;
                }
            }
        }
        commands
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_pages_do_what_the_pages_say() {
    let lab = Lab::alone().await;
    let lockgate = lab.lockgate().await;
    let blocks = |(page, text): &(String, String)| (page.clone(), pages::blocks(page, text));
    let pages: Vec<(String, Vec<Block>)> = pages::pages().iter().map(blocks).collect();
    let first = pages.iter().find(|(page, _)| page == FIRST).expect("the first page of tasks").1.clone();
    let mut total = 0;
    for (page, blocks) in &pages {
        if !blocks.iter().any(|block| block.mark(MARK).is_some()) || page == FIRST {
            continue;
        }
        let start = Instant::now();
        let space = lab.namespace("docs").await;
        let reader = Reader::new(&lab, &space.name);
        if page.starts_with("docs/tasks/") {
            total += reader.run_page(&first).await;
        }
        let commands = reader.run_page(blocks).await;
        total += commands;
        println!("{page}: {commands} commands in {:.1} s", start.elapsed().as_secs_f64());
    }
    assert!(total > 10, "only {total} commands");
    // The other specs expect the release in its original state.
    let restore =
        ["upgrade", "lockgate", "charts/lockgate", "--namespace", &lockgate.namespace, "--reset-values", "--wait"];
    lab.helm(&restore).await;
    lab.kubectl(&["delete", "secret", "fallback", "--namespace", &lockgate.namespace], "").await;
}

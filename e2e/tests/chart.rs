//! The chart with helm and a real API server. The API server accepts its objects without warnings, and invalid values
//! are rejected by name.

mod crds;
mod dashboard;
mod definitions;
mod migrated;
mod rendered;
mod values;

use std::process::{Command, Output, Stdio};

use e2e::process::{program, repository};

/// Returns the standard output of a program.
///
/// # Errors
/// The standard error if the program fails.
fn run(command: &mut Command, stdin: &str) -> Result<String, String> {
    let output = output(command, stdin);
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

fn output(command: &mut Command, stdin: &str) -> Output {
    use std::io::Write;
    let piped = command.current_dir(repository()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().expect("the program");
    let mut input = child.stdin.take().expect("standard input");
    let stdin = stdin.to_owned();
    let writer = std::thread::spawn(move || {
        // The program may exit before it has read all input.
        let _ = input.write_all(stdin.as_bytes());
    });
    let output = child.wait_with_output().expect("the end of the program");
    writer.join().expect("the writer");
    output
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the path of a program of the lab.
fn lab(name: &str) -> Command {
    let directory = std::env::var_os("BIN").map_or_else(|| repository().join("e2e/lab/bin"), Into::into);
    Command::new(program(directory.join(name), "make lab-build"))
}

/// Renders the chart with `--set` for each of `values`, as the release `lockgate` in the namespace `lockgate`.
///
/// # Errors
/// The error of helm.
fn template(values: &[&str]) -> Result<String, String> {
    let mut command = lab("helm");
    command.args(["template", "lockgate", "charts/lockgate", "--namespace", "lockgate"]);
    for value in values {
        command.args(["--set", value]);
    }
    run(&mut command, "")
}

#[test]
fn it_is_free_of_lint() {
    let report =
        run(lab("helm").args(["lint", "--strict", "charts/lockgate"]), "").unwrap_or_else(|error| panic!("{error}"));
    assert!(report.contains("0 chart(s) failed"), "{report}");
}

#[test]
fn what_is_made_of_it_is_up_to_date() {
    let check = run(Command::new("scripts/manifests.sh").arg("--check"), "");
    check.unwrap_or_else(|error| panic!("{error}"));
}

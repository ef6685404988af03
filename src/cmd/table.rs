//! The table of the command line in the reference: the exit codes of each command, and the options with which it reads and writes.

use clap::{Arg, Command};

use super::exit::COMMANDS;

/// The options that name the input.
const INPUT: [&str; 4] = ["manifests", "resources", "config", "admin-address"];
/// The options that determine the output.
const OUTPUT: [&str; 5] = ["output", "output-file", "output-directory", "report", "report-format"];
/// The options that select a Kubernetes cluster and, in it, the controller.
const CLUSTER: [&str; 4] = ["kubeconfig", "context", "namespace", "selector"];

/// Returns the table as Markdown. `cli` is the complete command line.
pub fn markdown(cli: &Command) -> String {
    let mut table = String::from(
        "| command | exit code 0 | exit code 1 | exit code 2 | input | output | Kubernetes cluster |\n\
         | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for (path, codes) in COMMANDS {
        let command = path.split(' ').try_fold(cli, |command, name| command.find_subcommand(name));
        let arguments: Vec<&Arg> = command.into_iter().flat_map(Command::get_arguments).collect();
        let positional =
            arguments.iter().filter(|argument| argument.is_positional()).map(|argument| placeholder(argument));
        let input = positional.chain(options(&arguments, &INPUT));
        let cells = [
            format!("`{path}`"),
            codes.fine.to_owned(),
            codes.findings.unwrap_or("–").to_owned(),
            codes.failed.to_owned(),
            list(input),
            list(options(&arguments, &OUTPUT)),
            list(options(&arguments, &CLUSTER)),
        ];
        let cells = cells.map(|cell| cell.replace('|', "\\|"));
        table.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    table
}

/// Returns the options with these names or aliases, in this order.
fn options<'a>(arguments: &'a [&Arg], names: &'a [&str]) -> impl Iterator<Item = String> + 'a {
    names.iter().filter_map(|name| {
        let argument = arguments.iter().find(|argument| {
            argument.get_long() == Some(name) || argument.get_visible_aliases().is_some_and(|all| all.contains(name))
        })?;
        // The admin address of a server is not an input.
        let is_input =
            *name != "admin-address" || argument.get_help_heading().is_some_and(|text| text.starts_with("Source"));
        is_input.then(|| format!("`--{name}` {}", placeholder(argument)))
    })
}

/// Returns the possible values of an argument, or the name of its value.
fn placeholder(argument: &Arg) -> String {
    let values: Vec<String> =
        argument.get_possible_values().iter().map(|value| format!("`{}`", value.get_name())).collect();
    let names = argument.get_value_names().unwrap_or_default();
    if values.is_empty() { format!("`{}`", names.join(" ")) } else { values.join(", ") }
}

fn list(items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.collect();
    if items.is_empty() { "–".to_owned() } else { items.join("; ") }
}

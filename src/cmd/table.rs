//! The table of the command line in the reference: the exit codes of each command, and the options with which it reads and writes.

use clap::{Arg, Command};

use super::exit::COMMANDS;

/// The options that name the input.
const INPUT: [&str; 5] = ["manifests", "resources", "config", "contour-config", "admin-address"];
/// The options that determine the output.
const OUTPUT: [&str; 7] =
    ["output", "output-file", "output-directory", "report", "report-format", "settings-file", "values-file"];
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use clap::Parser;

    use super::super::{Cli, command_line};
    use super::*;

    /// The options with the same name have the same kind of value in every command.
    #[test]
    fn one_name_of_an_option_has_one_meaning() {
        let mut cli = command_line();
        cli.build();
        for (name, values, commands) in [
            ("kubeconfig", &["FILE"][..], 8),
            ("context", &["CONTEXT"], 8),
            ("cluster", &["CONTEXT"], 8),
            ("manifests", &["FILE|DIR|-"], 7),
            ("output", &["FORM", "FORMAT"], 11),
            ("output-directory", &["DIR"], 3),
            ("output-file", &["FILE"], 1),
            ("settings-file", &["FILE"], 1),
            ("values-file", &["FILE"], 1),
        ] {
            let paths = COMMANDS.map(|(path, _)| path);
            let command =
                |path: &str| path.split(' ').fold(&cli, |command, name| command.find_subcommand(name).unwrap());
            let arguments = paths.iter().flat_map(|path| command(path).get_arguments());
            let named = arguments.filter(|argument| {
                argument.get_long() == Some(name) || argument.get_all_aliases().is_some_and(|all| all.contains(&name))
            });
            let found: Vec<String> = named.map(|argument| argument.get_value_names().unwrap()[0].to_string()).collect();
            assert!(found.iter().all(|value| values.contains(&value.as_str())), "--{name}: {found:?}");
            assert_eq!(found.len(), commands, "--{name}");
        }
    }

    #[test]
    fn options_of_earlier_versions_are_accepted() {
        for line in [
            "check --against current deploy/",
            "check --against a --kubeconfig b deploy/",
            "migrate ingress --cluster current",
            "migrate ingress --cluster current --kubeconfig b",
            "migrate httpproxy --cluster current --whole-elements --experimental",
            "migrate contour --context current --contour-config contour.yaml",
            "bootstrap --output envoy.yaml --format json",
            "bootstrap --output envoy",
            "bootstrap -o json",
            "export --dir a --format yaml",
            "export --output-directory a --output yaml",
            "explain https://a.test --manifests deploy/",
            "status --context a --kubeconfig b",
            "serve --kubeconfig a --context b",
        ] {
            let words = ["lockgate"].into_iter().chain(line.split(' '));
            assert!(Cli::try_parse_from(words).is_ok(), "{line}");
        }
        for line in
            ["bootstrap --output yml", "check --complete --context a deploy/", "migrate ingress --context a deploy/"]
        {
            let words = ["lockgate"].into_iter().chain(line.split(' '));
            assert!(Cli::try_parse_from(words).is_err(), "{line}");
        }
    }
}

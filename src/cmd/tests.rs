#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;
use std::time::Duration;

use clap::CommandFactory;
use lockgate_xds::identity::Pattern;

use super::*;
use crate::settings::{
    self, AccessLogFormat, IngressSettings, Log, Process, ServerOptions, ServiceAddress, Settings, Source, Watch,
    Writes, XdsTls,
};
use crate::telemetry;

fn parse(line: &str) -> Result<ServeArgs, String> {
    let words = ["lockgate", "serve"].into_iter().chain(line.split_whitespace());
    match Cli::try_parse_from(words).map_err(|error| error.to_string())?.command {
        Command::Serve(args) => Ok(*args),
        other => panic!("{other:?}"),
    }
}

fn resolve(line: &str) -> Result<(Source, Settings, ServerOptions), String> {
    let (source, settings, options) = parse(line)?.resolve().map_err(|error| format!("{error:#}"))?;
    Ok((source, settings.resolved.settings, options))
}

/// Asserts that the error of `line` contains all `parts`.
#[track_caller]
fn assert_refused(line: &str, parts: &[&str]) {
    let error = resolve(line).unwrap_err();
    for part in parts {
        assert!(error.contains(part), "{part:?} is not in {error:?}");
    }
}

#[test]
fn the_definition_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn without_flags_the_cluster_of_the_pod_is_the_source() {
    let (source, settings, options) = resolve("").unwrap();
    assert_eq!(source, Source::Cluster { kubeconfig: None, context: None, watch: Watch::default() });
    assert_eq!(settings, Settings::default());
    assert_eq!(options.process, Process::default());
    assert!(!options.identifier.is_empty());
}

#[test]
fn every_flag_has_an_effect() {
    let dir = tempfile::tempdir().unwrap();
    let kubeconfig = dir.path().join("config");
    for file in ["config", "tls.crt", "tls.key", "ca.crt"] {
        std::fs::write(dir.path().join(file), "").unwrap();
    }
    let dir = dir.path();
    let (source, settings, options) = resolve(&format!(
        "--kubeconfig {} --context staging --watch-namespaces shop,payments --ingress-class a --ingress-class b \
         --watch-ingress-without-class --default-tls-secret ingress/wild --enable-external-name-services \
         --http-port 80 --https-port 443 --stats-port 0 --disable-ipv6 --access-log json --connect-timeout 500ms \
         --response-timeout off --trusted-hops 2 --xds-address [::1]:1 --xds-tls {} --gate-timeout 5s \
         --removal-grace 0s --xds-max-connection-age off --xds-max-connections 2 --id me --admin-address 127.0.0.1:2 --metrics-address 127.0.0.1:3 --metrics-tls ./metrics --log-format json --log-level debug \
         --peers lockgate-peers.ingress.svc:18000 --status-address 192.0.2.1,lb.example.com --leader-election on --lease mine \
         --xds-secrets edge --xds-service edge-xds --xds-certificate-lifetime 12s --xds-ca-lifetime 48s --xds-rotation-pause 1s \
         --xds-envoy-names envoy,*.envoys --xds-grpc-names spiffe://x/client --xds-replica-names edge",
        kubeconfig.display(),
        dir.display()
    ))
    .unwrap();
    let watch = Watch { namespaces: vec!["shop".to_owned(), "payments".to_owned()], ..Watch::default() };
    let context = Some("staging".into());
    assert_eq!(source, Source::Cluster { kubeconfig: Some(kubeconfig), context, watch: watch.clone() });
    let ingress =
        IngressSettings { class_names: vec!["a".into(), "b".into()], classless: true, ..IngressSettings::default() };
    let mut expected = Settings::default();
    expected.route.ingress = ingress;
    expected.route.external_names.allow = true;
    expected.route.listeners.http.port = 80;
    expected.route.listeners.https.port = 443;
    expected.route.listeners.stats.port = 0;
    expected.route.listeners.ipv6 = false;
    expected.route.http.trusted_hops = 2;
    expected.route.tls.default_secret = Some(("ingress".into(), "wild".into()));
    expected.route.timeouts.response = None;
    expected.route.timeouts.connect = Duration::from_millis(500);
    expected.route.access_log.format = AccessLogFormat::Json;
    expected.status.addresses = vec!["192.0.2.1".into(), "lb.example.com".into()];
    let process = &mut expected.process;
    process.watch = watch;
    process.xds.address = "[::1]:1".parse().unwrap();
    process.xds.tls = Some(XdsTls::Directory(dir.into()));
    process.xds.gate_timeout = Duration::from_secs(5);
    process.xds.removal_grace = Duration::ZERO;
    process.xds.connection_age = None;
    process.xds.connections = 2;
    process.xds.peers = Some(ServiceAddress { host: "lockgate-peers.ingress.svc".into(), port: 18000 });
    let names = |texts: &[&str]| texts.iter().map(|text| Pattern::parse(text).unwrap()).collect();
    process.xds.envoy_names = names(&["envoy", "*.envoys"]);
    process.xds.grpc_names = names(&["spiffe://x/client"]);
    process.xds.replica_names = names(&["edge"]);
    process.xds.secrets = "edge".into();
    process.xds.service = "edge-xds".into();
    process.xds.certificate_lifetime = Duration::from_secs(12);
    process.xds.authority_lifetime = Duration::from_secs(48);
    process.xds.rotation_pause = Duration::from_secs(1);
    process.admin.address = "127.0.0.1:2".parse().unwrap();
    process.metrics.address = Some("127.0.0.1:3".parse().unwrap());
    process.metrics.tls = Some("./metrics".into());
    process.log = Log { format: telemetry::LogFormat::Json, level: "debug".into() };
    process.leader_election.enabled = Some(true);
    process.leader_election.lease = "mine".into();
    let process = process.clone();
    assert_eq!(settings, expected);
    assert_eq!(options, ServerOptions { process, identifier: "me".into(), writes: Writes::Elected });
}

/// The defaults in the help are equal to those in the table of keys.
#[test]
fn the_defaults_in_the_help_equal_the_defaults_of_the_settings() {
    let mut root = Cli::command();
    root.build();
    let mut compared = 0;
    for option in root.find_subcommand("serve").unwrap().get_arguments() {
        let Some(flag) = option.get_long().map(|long| format!("--{long}")) else { continue };
        let value = option.get_possible_values().first().map(|value| value.get_name().to_owned());
        let values = ["1", "1s", "off", "127.0.0.1:1", "a", "a/b", "600d", "2"];
        let line = value.iter().map(String::as_str).chain(values).map(|value| format!("{flag} {value}"));
        let overrides =
            line.filter_map(|line| parse(&line).ok()?.resolve().ok()).map(|(_, settings, _)| settings.overrides);
        let Some(key) = overrides.flatten().map(|given| given.key).next() else { continue };
        let default = settings::written(&Settings::default(), key);
        let default = default.trim_matches('"');
        if ["null", "[]", "false", "true"].contains(&default) {
            continue;
        }
        let help = option.get_help().map(ToString::to_string).unwrap_or_default();
        assert!(help.contains(&format!("[default: {default}")), "{flag}: the default of {key} is {default}: {help}");
        compared += 1;
    }
    assert!(compared > 15, "{compared} flags");
}

#[test]
fn outside_of_a_pod_nothing_is_written_by_default() {
    let writes = |line: &str| resolve(line).unwrap().2.writes;
    assert_eq!(writes(""), Writes::Never);
    assert_eq!(writes("--leader-election off"), Writes::Alone);
    let (_, settings, _) = resolve("--envoy-service ingress/envoy").unwrap();
    assert_eq!(settings.route.envoy_service, Some(("ingress".into(), "envoy".into())));
}

#[test]
fn directories_are_sources() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().display();
    assert_eq!(resolve(&format!("--manifests {path}")).unwrap().0, Source::Manifests(dir.path().into()));
    let file = dir.path().join("shop.yaml");
    std::fs::write(&file, "").unwrap();
    assert_eq!(resolve(&format!("--manifests {}", file.display())).unwrap().0, Source::Manifests(file));
    assert_eq!(resolve("--manifests -").unwrap().0, Source::Manifests("-".into()));
    assert_eq!(resolve(&format!("--resources {path}")).unwrap().0, Source::Resources(dir.path().into()));
    let relative = std::env::current_dir().unwrap().join("examples");
    assert_eq!(resolve("--manifests examples").unwrap().0, Source::Manifests(relative));
    assert_eq!(resolve("--xds-tls off").unwrap().2.process.xds.tls, Some(XdsTls::Off));
}

#[test]
fn sources_exclude_each_other() {
    assert_refused(
        "--manifests a --resources b",
        &["--manifests <FILE|DIR|->", "cannot be used with", "--resources <DIR>"],
    );
    assert_refused("--kubeconfig a --manifests b", &["--kubeconfig <FILE>", "cannot be used with"]);
    assert_refused("--kubeconfig a --resources b", &["--kubeconfig <FILE>", "cannot be used with"]);
    assert_refused("--context a --manifests b", &["--context <CONTEXT>", "cannot be used with"]);
    assert_refused(
        "--leader-election on --resources examples",
        &["--leader-election: requires a Kubernetes cluster", "--resources"],
    );
    assert_refused("--watch-namespaces a --manifests b", &["--watch-namespaces <NAMES>", "cannot be used with"]);
}

#[test]
fn errors_name_the_flag_the_value_and_the_valid_values() {
    for (line, parts) in [
        ("--http-port http", ["'http'", "--http-port <PORT>", "a whole number from 1 to 65535"]),
        ("--http-port 0", ["0", "--http-port <PORT>", "from 1 to 65535"]),
        ("--https-port 70000", ["70000", "--https-port <PORT>", "from 1 to 65535"]),
        ("--xds-address localhost", ["'localhost'", "--xds-address <ADDRESS>", "expected an IP address and a port"]),
        ("--admin-address :80", ["':80'", "--admin-address <ADDRESS>", "expected an IP address and a port"]),
        ("--peers :80", ["':80'", "--peers <HOST:PORT>", "expected HOST:PORT"]),
        ("--status-address a_b", ["'a_b'", "--status-address <ADDRESSES>", "not a valid IP address or host name"]),
        ("--log-format yaml", ["'yaml'", "--log-format <FORMAT>", "[possible values: text, json]"]),
        ("--access-log on", ["'on'", "--access-log <FORMAT>", "[possible values: text, json, off]"]),
        ("--log-level debgu", ["'debgu'", "--log-level <LEVEL>", "expected off, error, warn, info"]),
        ("--connect-timeout 5", ["'5'", "--connect-timeout <TIME>", "numbers with units"]),
        ("--connect-timeout 0s", ["'0s'", "--connect-timeout <TIME>", "at least 1ms"]),
        ("--response-timeout never", ["'never'", "--response-timeout <TIME>", "or off"]),
        ("--xds-max-connection-age 0s", ["'0s'", "--xds-max-connection-age <TIME|off>", "at least 1ms, or off"]),
        ("--xds-max-connections 1", ["1", "--xds-max-connections <COUNT>", "from 2 to"]),
        ("--gate-timeout x", ["'x'", "--gate-timeout <TIME>", "numbers with units"]),
        ("--removal-grace -1s", ["'-1'", "argument", "unexpected"]),
        ("--trusted-hops many", ["'many'", "--trusted-hops <COUNT>", "a whole number"]),
        ("--default-tls-secret wild", ["'wild'", "--default-tls-secret <NAMESPACE/NAME>", "expected NAMESPACE/NAME"]),
        ("--ingress-class Public", ["'Public'", "--ingress-class <NAME>", "is not a valid name of an IngressClass"]),
        ("--watch-namespaces a,B", ["'B'", "--watch-namespaces <NAMES>", "is not a valid name of a namespace"]),
        ("--id ü", ["'ü'", "--id <NAME>", "printable ASCII"]),
        ("--manifests /nowhere", ["--manifests", "/nowhere", "not a readable file or directory"]),
        ("--resources /dev/null", ["--resources", "/dev/null", "not a readable directory"]),
        ("--kubeconfig /nowhere", ["--kubeconfig", "/nowhere", "not a readable file"]),
        ("--xds-tls /nowhere", ["--xds-tls: /nowhere", "tls.crt, tls.key and ca.crt, or auto, or off", "No such file"]),
        ("--xds-tls auto --manifests examples", ["--xds-tls: auto", "no Kubernetes cluster", "ca.crt, or off"]),
        (
            "--xds-tls auto --xds-rotation-pause 400h",
            ["--xds-rotation-pause: xds.rotationPause: expected xds.certificateLifetime", "at least 12 times", ""],
        ),
        (
            "--xds-tls auto --xds-ca-lifetime 1h",
            ["--xds-ca-lifetime: xds.caLifetime", "4 times xds.certificateLifetime", ""],
        ),
        ("--xds-secrets A", ["'A'", "--xds-secrets <PREFIX>", "not a valid name of an object"]),
        (
            "--http-port 8002",
            ["--http-port: listeners.http.port", "8002 is also the port of listeners.stats", "its own port"],
        ),
        ("--xds-address 127.0.0.1:18001", ["--xds-address: xds.address", "taken by", "its own port"]),
        ("--xds-tls certificates", ["--xds-tls: ./certificates", "or auto, or off", "No such file"]),
    ] {
        assert_refused(line, &parts);
    }
}

#[test]
fn the_help_of_every_command_has_examples() {
    let mut root = Cli::command();
    root.build();
    let mut seen = vec![];
    // The command `help` of clap has none.
    let mut own = root.clone();
    let subcommands = root.get_subcommands_mut().filter(|command| command.get_name() != "help");
    for command in std::iter::once(&mut own).chain(subcommands) {
        let help = command.render_long_help().to_string();
        let name = command.get_name().to_owned();
        let call = if name == "lockgate" { "    lockgate ".to_owned() } else { format!("lockgate {name}") };
        assert!(help.contains("Examples:"), "{name} has no examples:\n{help}");
        let examples = help.split("Examples:").nth(1).unwrap_or_default();
        assert!(examples.matches(&call).count() >= 1, "no example of {name} in\n{examples}");
        seen.push(name);
    }
    assert_eq!(
        seen,
        [
            "lockgate",
            "serve",
            "export",
            "bootstrap",
            "envoy-drain",
            "check",
            "explain",
            "status",
            "migrate",
            "config",
            "version",
            "completions",
        ]
    );
}

#[test]
fn commands_have_long_descriptions() {
    let mut root = Cli::command();
    root.build();
    for (command, part) in [("serve", "exactly one source"), ("export", "replaced atomically by a rename")] {
        let help = root.find_subcommand_mut(command).unwrap().render_long_help().to_string();
        assert!(help.contains(part), "{part:?} is not in\n{help}");
    }
}

#[test]
fn every_optional_flag_states_its_default() {
    let mut root = Cli::command();
    root.build();
    let options = |command| root.find_subcommand(command).unwrap().get_arguments();
    for option in options("serve").chain(options("export")) {
        let id = option.get_id().as_str();
        let help = option.get_help().map(ToString::to_string).unwrap_or_default();
        let told = help.contains("[default:") || !option.get_default_values().is_empty() || option.is_required_set();
        assert!(told || ["help", "manifests", "resources"].contains(&id), "--{id} does not tell its default");
    }
}

#[test]
fn the_description_of_exported_files_matches_the_files() {
    let parse = |line: &str| Cli::try_parse_from(line.split_whitespace()).map_err(|error| error.to_string());
    for (line, parts) in [
        ("lockgate export", ["--dir <DIR>", "required"]),
        ("lockgate export --dir a --reload often", ["'often'", "a time such as 5s"]),
        ("lockgate export --dir a --reload 0s", ["'0s'", "more than zero"]),
        ("lockgate export --dir a --format text", ["'text'", "pb, json, yaml, pb_text"]),
        ("lockgate bootstrap --mode files", ["--dir <DIR>", "required"]),
    ] {
        let error = parse(line).unwrap_err();
        assert!(parts.iter().all(|part| error.contains(part)), "{line}: {parts:?} are not in {error}");
    }
    for line in [
        "--reload 1m30s --format pb_text --once",
        "--reload directory --mount-path /etc/envoy --file-removal-grace 0s",
        "--removal-grace 1s",
    ] {
        parse(&format!("lockgate export --dir a --manifests examples {line}")).unwrap();
    }
}

#[test]
fn completions_contain_the_commands_and_flags() {
    for shell in ["bash", "zsh", "fish"] {
        let Command::Completions(options) = Cli::try_parse_from(["lockgate", "completions", shell]).unwrap().command
        else {
            panic!("not completions")
        };
        let script = completions::script(&options);
        assert!(script.contains("bootstrap") && script.contains("xds-tls"), "{shell}: {script}");
    }
    assert!(Cli::try_parse_from(["lockgate", "completions", "csh"]).is_err());
}

#[test]
fn every_report_is_available_as_json() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("lockgate.yaml");
    std::fs::write(&file, "timeouts: { connect: 3s }").unwrap();
    let file = file.to_str().unwrap();
    for line in [["check", file], ["check", "--config"], ["print", file], ["print", "--config"]] {
        let line = ["lockgate", "config"].iter().chain(&line).chain((line[1] != file).then_some(&file));
        for output in [&[][..], &["--output", "json"], &["-o", "text"]] {
            run(Cli::try_parse_from(line.clone().chain(output)).unwrap().command).unwrap();
        }
    }
    for line in [vec!["check"], vec!["check", file, "--config", file], vec!["print", file, "--config", file]] {
        assert!(Cli::try_parse_from(["lockgate", "config"].iter().chain(&line)).is_err(), "{line:?}");
    }
    std::fs::write(file, "timeouts: { connect: soon }").unwrap();
    let check = Cli::try_parse_from(["lockgate", "config", "check", file, "--output", "json"]).unwrap();
    assert_eq!(run(check.command).unwrap(), Outcome::Findings);
    let json = settings::print_json(&settings::resolve("f", "timeouts: { connect: 3s }", &[]).unwrap(), "f");
    let set: Vec<_> = json.as_array().unwrap().iter().filter(|entry| entry["origin"] != "default").collect();
    assert_eq!(set, [&serde_json::json!({"key": "timeouts.connect", "value": "3s", "origin": "f:1"})]);
}

#[test]
fn help_is_also_a_command() {
    for line in [&["lockgate", "help"][..], &["lockgate", "help", "serve"], &["lockgate", "help", "config", "print"]] {
        assert!(!Cli::try_parse_from(line).unwrap_err().use_stderr(), "{line:?}");
    }
}

#[test]
fn the_version_contains_the_facts_for_a_bug_report() {
    let text = version::text();
    assert!(text.contains(env!("CARGO_PKG_VERSION")) && text.contains("commit") && text.contains("envoy"), "{text}");
}

#[test]
fn a_chain_of_errors_has_no_repetitions() {
    let error = anyhow::anyhow!("in use").context("cannot listen on [::]:1: in use").context("--xds-address");
    assert_eq!(without_repetition(&error), "--xds-address: cannot listen on [::]:1: in use");
}

/// Returns the command lines of `lockgate` in `text`: lines that start with it, with continuation lines after a
/// backslash, up to a pipe or a redirection.
fn command_lines(text: &str) -> Vec<Vec<String>> {
    let joined = text.replace("\\\n", " ");
    let lines = joined.lines().map(|line| line.trim().trim_start_matches("$ "));
    // Version lines and rows of tables are skipped.
    let is_command =
        |line: &&str| line.strip_prefix("lockgate ").is_some_and(|rest| rest.starts_with(|c: char| c.is_lowercase()));
    let commands = lines.filter(is_command).filter(|line| !line.contains("COMMAND"));
    let words = |line: &str| -> Vec<String> {
        let end = |word: &&str| !["|", ">", "<", "&", "#"].iter().any(|mark| word.starts_with(mark));
        line.split_whitespace().take_while(end).map(str::to_owned).collect()
    };
    commands.map(words).collect()
}

#[test]
fn every_command_line_in_help_and_documents_parses() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |file: &str| std::fs::read_to_string(root.join(file)).unwrap();
    let mut help = Cli::command();
    help.build();
    let helps = std::iter::once(help.clone())
        .chain(help.get_subcommands().filter(|command| command.get_name() != "help").cloned())
        .map(|mut command| command.render_long_help().to_string());
    let examples = helps.map(|help| help.split_once("Examples:").unwrap().1.to_owned());
    let directories = ["docs", "docs/concepts", "docs/tasks", "docs/migration"];
    let pages = directories.into_iter().flat_map(|directory| {
        let entries = std::fs::read_dir(root.join(directory)).unwrap();
        entries.map(move |entry| format!("{directory}/{}", entry.unwrap().file_name().to_str().unwrap()))
    });
    let pages = pages.filter(|name| name.ends_with(".md")).chain(["README.md", "CHANGELOG.md"].map(str::to_owned));
    let texts: Vec<String> = examples.chain(pages.map(|page| read(&page))).collect();
    let lines: Vec<_> = texts.iter().flat_map(|text| command_lines(text)).collect();
    assert!(lines.len() > 15, "{lines:?}");
    for line in lines {
        if let Err(error) = Cli::try_parse_from(&line) {
            assert!(!error.use_stderr(), "{}: {error}", line.join(" "));
        }
    }
}

/// Adds the help of a command and of its subcommands.
fn add_help(page: &mut String, path: &str, command: &mut clap::Command) {
    let help = command.clone().term_width(100).render_long_help().to_string();
    let lines: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
    page.push_str(&format!("\n## {path}\n\n```text\n{}\n```\n", lines.join("\n")));
    for inner in command.get_subcommands_mut().filter(|inner| inner.get_name() != "help") {
        let path = format!("{path} {}", inner.get_name());
        add_help(page, &path, inner);
    }
}

#[test]
fn the_reference_of_the_command_line_is_up_to_date() {
    let mut cli = command_line();
    cli.build();
    let mut page = format!(
        "# Command line\n\nThis page is written by `make docs` from the code: a table of all commands, and the output of `--help` of \
         each command. [Operate](../operate.md#the-command-line) describes the rules that apply to all commands.\n\n\
         ## All commands\n\n\
         The exit codes are the same for all commands: 0 means fine, 1 findings, and 2 that the command could not run. A dash means \
         that the command never exits with this code. Standard input is `-`.\n\n\
         <!-- tested by command_line::the_exit_codes_are_those_of_the_table -->\n{}",
        table::markdown(&cli)
    );
    add_help(&mut page, "lockgate", &mut cli);
    assert!(page.matches("\n## ").count() > 10);
    crate::tidy::generated::assert_page("command-line.md", &page);
}

/// The rendered chart with default values.
const MANIFESTS: &str = include_str!("../../manifests/lockgate.yaml");

#[test]
fn the_flags_of_the_deployment_parse() {
    let mut commands = 0;
    for args in MANIFESTS.split(" args:\n").skip(1) {
        let words = args.lines().map(str::trim).filter(|line| !line.starts_with('#'));
        let words = words.map_while(|line| line.strip_prefix("- ").filter(|word| !word.starts_with("name:")));
        let words: Vec<_> = words.collect();
        if words[0] != "--config-path" {
            Cli::try_parse_from(std::iter::once("lockgate").chain(words)).unwrap();
            commands += 1;
        }
    }
    assert_eq!(commands, 3, "the controller, bootstrap and drain");
}

#[test]
fn the_cluster_role_grants_exactly_the_watched_kinds() {
    let role = MANIFESTS.split("\n---\n").find(|document| document.contains("kind: ClusterRole\n")).unwrap();
    let rules = role.split_once("rules:\n").unwrap().1;
    let list = |rule: &str, key: &str| -> Vec<String> {
        let list = rule.lines().find_map(|line| line.trim().strip_prefix(key)?.strip_prefix(": [")).unwrap();
        list.trim_end_matches(']').split(", ").map(str::to_owned).collect()
    };
    let rules = rules.split("- apiGroups").skip(1).map(|rule| (list(rule, "resources"), list(rule, "verbs")));
    let (read, written): (Vec<_>, Vec<_>) = rules.partition(|(_, verbs)| verbs == &["list", "watch"]);
    let mut granted: Vec<_> = read.into_iter().flat_map(|(resources, _)| resources).collect();
    let mut watched: Vec<_> =
        lockgate_route::objects::Kind::ALL.iter().map(|kind| kind.info().plural.to_owned()).collect();
    granted.sort();
    watched.sort();
    // ConfigMaps with claims are ConfigMaps.
    watched.dedup();
    assert_eq!(granted, watched);
    let written =
        written.iter().flat_map(|(resources, verbs)| resources.iter().map(|of| (of.clone(), verbs.join(" "))));
    let kinds = lockgate_route::objects::Kind::ALL.into_iter().map(|kind| kind.info());
    let status =
        kinds.filter(|kind| kind.has_status).map(|kind| (format!("{}/status", kind.plural), "patch".to_owned()));
    // Services and EndpointSlices of Gateways need the value `gatewayAPI.manageServices`.
    let expected = status.chain([("events".to_owned(), "create patch".to_owned())]);
    assert_eq!(written.collect::<BTreeSet<_>>(), expected.collect());
}

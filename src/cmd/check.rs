//! `lockgate check`: the problems of manifests, with file, line, and remedy, before the manifests are applied.

pub mod cluster;
pub mod input;

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::bail;
use clap::{Args, ValueEnum};

use super::cluster_args::ClusterArgs;
use super::exit::{ExitCodes, Outcome};
use super::output;
use super::progress::Progress;
use super::settings_args::TranslationArgs;
use super::values;
use crate::check::output::{Colors, json, sarif, summary, text};
use crate::check::{Finding, Level, Scope, check, remove_harmless};

/// Options of `lockgate check`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CheckArgs {
    /// Files, directories (all *.yaml, *.yml, and *.json below), or `-` for standard input
    #[arg(value_name = "FILE|DIR|-", required_unless_present = "manifests")]
    inputs: Vec<PathBuf>,

    /// The same as the arguments, as for `lockgate serve`
    #[arg(long, value_name = "FILE|DIR|-")]
    manifests: Vec<PathBuf>,

    /// The namespace of objects without one, as for kubectl and Helm [default: default]
    #[arg(long, short, value_name = "NAME", value_parser = values::namespace)]
    namespace: Option<String>,

    /// Output format: for people, for programs, or for code scanning (SARIF 2.1.0)
    #[arg(long, short, value_name = "FORM", value_enum, default_value_t = Form::Text)]
    output: Form,

    /// The lowest level to print, which also determines exit code 1; notes never change the exit code
    #[arg(long, value_name = "LEVEL", value_enum, default_value_t = Lowest::Note)]
    level: Lowest,

    /// The input is complete: a missing Service, Secret, class, or Gateway is an error, as for `serve --manifests`
    #[arg(long, conflicts_with_all = ["context", "kubeconfig"])]
    complete: bool,

    /// Also print annotations of other controllers that change nothing
    #[arg(long)]
    harmless: bool,

    #[command(flatten)]
    cluster: ClusterArgs,

    /// Check only Gateways of the GatewayClass NAME, whatever its controller is; may be repeated [default: the GatewayClasses of
    /// Lockgate's controller, and the classes that the manifests lack]
    #[arg(long, value_name = "NAME", help_heading = "Objects")]
    gateway_class: Vec<String>,

    #[command(flatten)]
    settings: TranslationArgs,
}

/// The form of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// One line for each finding
    Text,
    /// A JSON array
    Json,
    /// A SARIF 2.1.0 log
    Sarif,
}

/// The lowest level of printed findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Lowest {
    /// Everything
    Note,
    /// Warnings and errors
    Warning,
    /// Errors only
    Error,
}

/// The description above the options.
pub(super) const LONG_ABOUT: &str = "Check manifests before they are applied, without a Kubernetes cluster: for CI, and before kubectl apply.\n\n\
    The manifests are validated like by the API server, with the schemas and rules of Kubernetes, Gateway API, and Lockgate; \
    unknown fields are errors. They are translated as by `lockgate serve --manifests`, and the same problems are \
    reported, one line each, with file, line, field, consequence, and remedy. Objects that the manifests \
    refer to and do not contain, such as Services, are notes. Annotations of other ingress controllers are \
    reported one by one, with what would change.\n\n\
    With --context or --kubeconfig, the manifests are checked against the objects of that Kubernetes cluster, which is only read.";

pub(super) const EXIT_CODES: ExitCodes = ExitCodes {
    fine: "no problems; notes are none",
    findings: Some("problems: errors or warnings"),
    failed: "wrong usage, invalid settings, a file that cannot be read, or no access to the cluster",
};

const EXAMPLES: &str = "\
Examples:
  A directory of manifests:
    lockgate check deploy/

  What Helm or Kustomize would apply:
    helm template shop charts/shop --namespace shop | lockgate check --namespace shop -
    kubectl kustomize overlays/production | lockgate check -

  Ingresses of ingress-nginx, and what would change with Lockgate:
    kubectl get ingress,service --all-namespaces --output yaml | lockgate check -

  In CI, for code scanning:
    lockgate check --level warning --output sarif deploy/ > lockgate.sarif

  Against the objects of the current cluster: hosts that others own, Services that do not exist:
    lockgate check --context current deploy/";

/// Checks the manifests, and prints the findings.
pub fn run(options: CheckArgs) -> anyhow::Result<Outcome> {
    let settings = options.settings.load()?.resolved.settings;
    let progress = Progress::start("reading manifests");
    let paths = options.inputs.iter().chain(&options.manifests);
    let mut input = input::read(paths, options.namespace.as_deref(), &progress)?;
    input.manifests.set_gateway_classes(options.gateway_class);
    let scope = match options.cluster.is_given() {
        false if options.complete => Scope::Complete,
        false => Scope::Part,
        true => super::runtime()?.block_on(cluster::list(options.cluster, &settings.process.watch, &progress))?,
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let now = i64::try_from(now).unwrap_or(i64::MAX);
    let lowest = match options.level {
        Lowest::Note => Level::Note,
        Lowest::Warning => Level::Warning,
        Lowest::Error => Level::Error,
    };
    progress.step(format!("checking {} objects", input.manifests.counts().objects));
    let mut findings = check(&input.manifests, &settings.route, &scope, now);
    let has_nginx = findings.iter().any(Finding::is_of_nginx);
    findings.retain(|finding| finding.level <= lowest);
    if !options.harmless {
        remove_harmless(&mut findings);
    }
    drop(progress);
    super::print(&match options.output {
        Form::Text => text(&findings, colors()),
        Form::Json => output::json(&json(&findings)),
        Form::Sarif => output::json(&sarif(&findings)),
    })?;
    let mut errors = io::stderr().lock();
    let _ = writeln!(errors, "{}", summary(&findings, input.manifests.counts()));
    if has_nginx {
        let _ = writeln!(
            errors,
            "some defaults differ from the defaults of ingress-nginx, which no annotation shows: see docs/defaults.md"
        );
    }
    let is_problem = |finding: &Finding| finding.level < Level::Note;
    if input.is_partial {
        bail!("a file cannot be read, so the check is incomplete");
    }
    Ok(Outcome::with_findings(findings.iter().any(is_problem)))
}

/// Returns whether standard output has colors: on terminals, unless `NO_COLOR` is set (no-color.org).
fn colors() -> Colors {
    let is_unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if io::stdout().is_terminal() && !is_unwanted { Colors::On } else { Colors::Off }
}

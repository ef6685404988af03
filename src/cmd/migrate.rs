//! `lockgate migrate ingress` and `lockgate migrate httpproxy`: write objects of Gateway API. `contour` is the other command.

pub(super) mod contour;
mod files;

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use clap::{Args, Subcommand, ValueEnum};
use lockgate_route::objects::ObjectKey;
use lockgate_route::settings::{is_label, is_subdomain};

use super::check::{cluster, input};
use super::cluster_args::ClusterArgs;
use super::exit::{ExitCodes, Outcome};
use super::output;
use super::progress::Progress;
use super::settings_args::TranslationArgs;
use super::values;
use crate::check::output::{Colors, json, summary, text};
use crate::check::{Finding, Level, Manifests, Scope, remove_harmless};
use crate::migrate::{self, Migrated, Migration, migrate};

/// The origins of a migration.
#[derive(Debug, Subcommand)]
pub enum MigrateCommand {
    /// Write a Gateway and HTTPRoutes for Ingresses, and report what cannot be migrated
    #[command(long_about = LONG_ABOUT, after_help = EXAMPLES)]
    Ingress(Box<MigrateIngressArgs>),
    /// Write a Gateway, HTTPRoutes, and policies for HTTPProxies, and report what cannot be migrated
    #[command(name = "httpproxy", long_about = PROXIES, after_help = EXAMPLES_OF_PROXIES)]
    HttpProxy(Box<MigrateProxyArgs>),
    /// Compare objects and configuration with Contour, and write the settings of Lockgate
    #[command(long_about = contour::LONG_ABOUT, after_help = contour::EXAMPLES)]
    Contour(Box<contour::MigrateContourArgs>),
}

/// Options of `lockgate migrate ingress`, and most of those of `lockgate migrate httpproxy`.
#[derive(Debug, Args)]
pub struct MigrateIngressArgs {
    /// Files, directories (all *.yaml, *.yml, and *.json below), or `-` for standard input
    #[arg(value_name = "FILE|DIR|-", required_unless_present_any = ["manifests", "context", "kubeconfig"])]
    #[arg(conflicts_with_all = ["context", "kubeconfig"])]
    inputs: Vec<PathBuf>,

    /// The same as the arguments, as for `lockgate serve`
    #[arg(long, value_name = "FILE|DIR|-", conflicts_with_all = ["context", "kubeconfig"])]
    manifests: Vec<PathBuf>,

    /// The namespace of objects without one, as for kubectl and Helm [default: default]
    #[arg(long, short, value_name = "NAME", value_parser = values::namespace, conflicts_with_all = ["context", "kubeconfig"])]
    namespace: Option<String>,

    #[command(flatten)]
    cluster: ClusterArgs,

    /// The input is complete: a missing Service, Secret, or class is an error, as for `serve --manifests`
    #[arg(long, conflicts_with_all = ["context", "kubeconfig"])]
    complete: bool,

    /// The namespace and the name of the Gateway
    #[arg(long, value_name = "NAMESPACE/NAME", default_value = "lockgate/ingress", help_heading = "Written objects")]
    #[arg(value_parser = gateway)]
    gateway: ObjectKey,

    /// The GatewayClass of the Gateway
    #[arg(long, value_name = "NAME", default_value = "lockgate", help_heading = "Written objects", value_parser = class)]
    gateway_class: String,

    /// The port of the listener for HTTP
    #[arg(long, value_name = "PORT", default_value_t = 80, help_heading = "Written objects")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    http_port: u16,

    /// The port of the listeners for HTTPS
    #[arg(long, value_name = "PORT", default_value_t = 443, help_heading = "Written objects")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    https_port: u16,

    /// Write fields of the experimental channel of Gateway API: retries
    #[arg(long, help_heading = "Written objects")]
    experimental: bool,

    /// Format of the written objects; JSON is one List
    #[arg(long, short, value_name = "FORM", value_enum, default_value_t = Written::Yaml, help_heading = "Output")]
    output: Written,

    /// Write a file for each namespace into DIR instead of all objects to standard output
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    output_directory: Option<PathBuf>,

    /// Write the report to FILE instead of standard error
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    report: Option<PathBuf>,

    /// Format of the report: for people, or for programs
    #[arg(long, value_name = "FORM", value_enum, default_value_t = Form::Text, help_heading = "Output")]
    report_format: Form,

    /// The lowest level to report, which also determines exit code 1; notes never change the exit code
    #[arg(long, value_name = "LEVEL", value_enum, default_value_t = Lowest::Note, help_heading = "Output")]
    level: Lowest,

    /// Also report annotations of other controllers that change nothing
    #[arg(long, help_heading = "Output")]
    harmless: bool,

    #[command(flatten)]
    settings: TranslationArgs,
}

/// Options of `lockgate migrate httpproxy`.
#[derive(Debug, Args)]
#[command(mut_arg("gateway", |option| option.default_value("lockgate/httpproxy")))]
#[command(mut_arg("experimental", |option| option.help(EXPERIMENTAL)))]
pub struct MigrateProxyArgs {
    #[command(flatten)]
    shared: MigrateIngressArgs,

    /// Write PathPrefix for prefixes: /shop then matches /shop and /shop/a, but no longer /shopping
    #[arg(long, help_heading = "Written objects")]
    whole_elements: bool,
}

/// The format of the written objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Written {
    /// YAML
    Yaml,
    /// JSON
    Json,
}

/// The format of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// One line for each finding
    Text,
    /// A JSON array
    Json,
}

/// The lowest level that is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Lowest {
    /// Everything
    Note,
    /// Warnings and errors
    Warning,
    /// Errors only
    Error,
}

const LONG_ABOUT: &str = "Write a Gateway and HTTPRoutes of Gateway API for Ingresses, and report what cannot be migrated.\n\n\
    The Ingresses come from files, or with --context or --kubeconfig from a Kubernetes cluster, which is only read. They are \
    translated as by `lockgate serve`, and the served routes are written as YAML: one Gateway with a \
    listener for HTTP and one for each host behind TLS, HTTPRoutes in the namespaces of the Ingresses, and ReferenceGrants for \
    Secrets. Of two Ingresses with the same path, the older one is migrated. Nothing is applied.\n\n\
    The report has one line for each part that is lost or changes, with object, field, consequence, and remedy. It goes to \
    standard error. docs/migrate.md describes how to move without downtime.";

const PROXIES: &str = "Write a Gateway, HTTPRoutes, and policies for HTTPProxies, and report what cannot be migrated.\n\n\
    The HTTPProxies come from files, or with --context or --kubeconfig from a Kubernetes cluster, which is only read. They are \
    translated as by `lockgate serve`, and the served routes are written as YAML: one Gateway with a listener for HTTP and one \
    for each host behind TLS, HTTPRoutes in the namespaces of the HTTPProxies, HTTPPolicies for access restrictions and limits, \
    BackendPolicies for load balancing and health checks, and ReferenceGrants. The routes of an included HTTPProxy are written in \
    its namespace. Nothing is applied.\n\n\
    The report has one line for each part that is lost or changes, with object, field, consequence, and remedy. It goes to \
    standard error. A route whose restriction of access cannot be expressed is written without a backend, and is answered 500. \
    docs/migrate.md describes how to move without downtime.";

const EXPERIMENTAL: &str = "Write fields of the experimental channel of Gateway API: retries and CORS";

pub(super) const EXIT_CODES: ExitCodes = ExitCodes {
    fine: "everything is migrated; notes are no problems",
    findings: Some("problems: a part is lost, or changes"),
    failed: "wrong usage, invalid settings, a file that cannot be read or written, or no access to the cluster",
};

pub(super) const EXAMPLES: &str = "\
Examples:
  The Ingresses of the current cluster, and what changes:
    lockgate migrate ingress --context current > gateway.yaml

  Without access to the cluster, with Services for the numbers of named ports:
    kubectl get ingress,service --all-namespaces --output yaml | lockgate migrate ingress - > gateway.yaml

  Ingresses of the class nginx, as if Lockgate served them:
    lockgate migrate ingress --context current --ingress-class nginx > gateway.yaml

  A file for each namespace, and a report for programs:
    lockgate migrate ingress --output-directory gateway/ --report report.json --report-format json deploy/

  Compare and apply; the Ingresses are still served:
    kubectl diff -f gateway.yaml
    kubectl apply -f gateway.yaml";

pub(super) const EXAMPLES_OF_PROXIES: &str = "\
Examples:
  The HTTPProxies of the current cluster, and what changes:
    lockgate migrate httpproxy --context current > gateway.yaml

  Without access to the cluster, with the Services and Contour's other objects:
    kubectl get httpproxies,tlscertificatedelegations,extensionservices,service --all-namespaces --output yaml | lockgate migrate httpproxy - > gateway.yaml

  PathPrefix instead of regular expressions for prefixes, and retries and CORS:
    lockgate migrate httpproxy --context current --whole-elements --experimental > gateway.yaml

  HTTPProxies of the class contour, as if Lockgate served them:
    lockgate migrate httpproxy --context current --ingress-class contour > gateway.yaml";

/// Parses the namespace and the name of a Gateway.
fn gateway(text: &str) -> Result<ObjectKey, String> {
    match text.split_once('/') {
        Some((namespace, name)) if is_label(namespace) && is_subdomain(name) => Ok(ObjectKey::new(namespace, name)),
        _ => Err("expected NAMESPACE/NAME of lower-case letters, digits, and -, such as lockgate/ingress".to_owned()),
    }
}

/// Parses the name of a GatewayClass.
fn class(text: &str) -> Result<String, String> {
    match is_subdomain(text) {
        true => Ok(text.to_owned()),
        false => Err("expected a name of lower-case letters, digits, and -, such as lockgate".to_owned()),
    }
}

/// Runs `lockgate migrate`.
pub fn run(command: MigrateCommand) -> anyhow::Result<Outcome> {
    match command {
        MigrateCommand::Ingress(options) => write(&options, Migrated::Ingresses, false),
        MigrateCommand::HttpProxy(options) => write(&options.shared, Migrated::HttpProxies, options.whole_elements),
        MigrateCommand::Contour(options) => contour::run(&options),
    }
}

/// Runs `lockgate migrate ingress` and `lockgate migrate httpproxy`.
fn write(options: &MigrateIngressArgs, migrated: Migrated, whole_elements: bool) -> anyhow::Result<Outcome> {
    let settings = options.settings.load()?.resolved.settings;
    let progress = Progress::start("reading manifests");
    let (manifests, scope, is_partial) = match options.cluster.is_given() {
        false => {
            let paths = options.inputs.iter().chain(&options.manifests);
            let input = input::read(paths, options.namespace.as_deref(), &progress)?;
            (input.manifests, if options.complete { Scope::Complete } else { Scope::Part }, input.is_partial)
        }
        true => {
            let listing = cluster::list(options.cluster.clone(), &settings.process.watch, &progress);
            let (manifests, scope) = of_cluster(super::runtime()?.block_on(listing)?);
            if scope.is_unknown(migrated.kind()) {
                bail!("the {} of the cluster cannot be read, so there is nothing to migrate", migrated.plural());
            }
            (manifests, scope, false)
        }
    };
    let written = migrate::MigrationOptions {
        migrated,
        gateway: options.gateway.clone(),
        class: options.gateway_class.clone(),
        http_port: options.http_port,
        https_port: options.https_port,
        experimental: options.experimental,
        whole_elements,
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let now = i64::try_from(now).unwrap_or(i64::MAX);
    progress.step(format!("migrating the {} of {} objects", migrated.plural(), manifests.counts().objects));
    let Migration { objects, mut findings } = migrate(&manifests, &settings.route, &scope, &written, now);
    let lowest = match options.level {
        Lowest::Note => Level::Note,
        Lowest::Warning => Level::Warning,
        Lowest::Error => Level::Error,
    };
    findings.retain(|finding| finding.level <= lowest);
    if !options.harmless {
        remove_harmless(&mut findings);
    }
    drop(progress);
    // A program must not take the objects for complete if the report cannot be written.
    if let Some(path) = &options.report {
        let text = form(options, &findings, Colors::Off);
        std::fs::write(path, text).with_context(|| format!("cannot write --report {}", path.display()))?;
    }
    match &options.output_directory {
        Some(directory) => files::write(directory, &objects, options.output)?,
        None => super::print(&files::text(&objects, options.output)?)?,
    }
    if options.report.is_none() {
        let is_unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let colors = if io::stderr().is_terminal() && !is_unwanted { Colors::On } else { Colors::Off };
        // A closed pipe is not an error.
        let _ = io::stderr().lock().write_all(form(options, &findings, colors).as_bytes());
    }
    let mut errors = io::stderr().lock();
    let summary = summary(&findings, manifests.counts());
    let _ = writeln!(errors, "{summary}; wrote {}", files::counted(&objects));
    let is_problem = |finding: &Finding| finding.level < Level::Note;
    if is_partial {
        bail!("a file cannot be read, so the migration is incomplete");
    }
    Ok(Outcome::with_findings(findings.iter().any(is_problem)))
}

/// Returns the objects of a cluster as manifests without texts.
fn of_cluster(scope: Scope) -> (Manifests, Scope) {
    let mut manifests = Manifests::default();
    match scope {
        Scope::Against { cluster, unlisted } => {
            manifests.add_objects(&cluster);
            (manifests, Scope::Against { cluster: Box::default(), unlisted })
        }
        other => (manifests, other),
    }
}

/// Returns the report.
fn form(options: &MigrateIngressArgs, findings: &[Finding], colors: Colors) -> String {
    match options.report_format {
        Form::Text => text(findings, colors),
        Form::Json => output::json(&json(findings)),
    }
}

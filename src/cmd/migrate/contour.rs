//! `lockgate migrate contour`: compares objects and configuration with Contour, and writes a settings file.

mod cluster_configuration;

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, anyhow, bail};
use clap::{Args, ValueEnum};
use lockgate_route::objects::Kind;

use crate::check::output::Colors;
use crate::check::{Manifests, Scope};
use crate::cmd::check::{cluster, input};
use crate::cmd::cluster_args::ClusterArgs;
use crate::cmd::exit::{ExitCodes, Outcome};
use crate::cmd::output;
use crate::cmd::progress::Progress;
use crate::migrate::contour::{self, Configuration, ContourMigration, Flags, Verdict, counted, json, migrate, text};
use crate::settings::Watch;
use crate::source::{self, file};

/// Options of `lockgate migrate contour`.
#[derive(Debug, Args)]
pub struct MigrateContourArgs {
    /// Files, directories (all *.yaml, *.yml, and *.json below), or `-` for standard input
    #[arg(value_name = "FILE|DIR|-")]
    #[arg(required_unless_present_any = ["manifests", "contour_config", "context", "kubeconfig"])]
    #[arg(conflicts_with_all = ["context", "kubeconfig"])]
    inputs: Vec<PathBuf>,

    /// The same as the arguments, as for `lockgate serve`
    #[arg(long, value_name = "FILE|DIR|-", conflicts_with_all = ["context", "kubeconfig"])]
    manifests: Vec<PathBuf>,

    #[command(flatten)]
    cluster: ClusterArgs,

    /// The input is complete: a missing Service or Secret needs attention
    #[arg(long, conflicts_with_all = ["context", "kubeconfig"])]
    complete: bool,

    /// Contour's configuration: its configuration file, or the manifest of a ConfigMap or a ContourConfiguration
    /// [default: the ConfigMap `contour` with the key contour.yaml, or the ContourConfiguration of the input or the cluster; the
    /// defaults of Contour without both]
    #[arg(long, value_name = "FILE", help_heading = "Contour")]
    contour_config: Option<PathBuf>,

    /// The value of Contour's flag --ingress-class-name: the classes that it serves, separated by commas [default: contour, and
    /// objects without a class]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = "Contour")]
    ingress_class_name: Vec<String>,

    /// The value of Contour's flag --root-namespaces, separated by commas [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = "Contour")]
    root_namespaces: Vec<String>,

    /// The value of Contour's flag --watch-namespaces, separated by commas [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = "Contour")]
    watch_namespaces: Vec<String>,

    /// Write the settings of Lockgate to FILE, for `serve --config` [default: not written]
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    settings_file: Option<PathBuf>,

    /// Write a values file of the Helm chart to FILE: the same settings, and values in place of those that the chart sets itself
    /// [default: not written]
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    values_file: Option<PathBuf>,

    /// Format of the report: for people, or for programs
    #[arg(long, short, value_name = "FORM", value_enum, default_value_t = Form::Text, help_heading = "Output")]
    output: Form,

    /// The rows of the report: all, those that differ, or those that need attention. The exit code depends on all rows
    #[arg(long, value_name = "ROWS", value_enum, default_value_t = Rows::Same, help_heading = "Output")]
    rows: Rows,
}

/// The format of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// One line for each row
    Text,
    /// A JSON array
    Json,
}

/// The rows of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Rows {
    /// All rows
    Same,
    /// Rows that are better or need attention
    Better,
    /// Rows that need attention
    Attention,
}

pub(super) const LONG_ABOUT: &str = "Compare the objects and the configuration of Contour with Lockgate, and write the settings of Lockgate.\n\n\
    The objects are checked as by `lockgate check`, with the written settings: Ingresses, HTTPProxies, TLSCertificateDelegations, \
    ExtensionServices, and Services with annotations of Contour. The report has a row for each object, for each key of Contour's \
    configuration, and for each default that differs:\n\n\
    \x20 same       it has the same effect\n\
    \x20 better     Lockgate serves more of it, or serves it more safely\n\
    \x20 attention  it differs or has no counterpart: the field, the consequence, and the remedy\n\n\
    With --context or --kubeconfig, the objects and the configuration come from a Kubernetes cluster, which is only read. Nothing is \
    applied. docs/migration/contour.md describes the move.";

pub(in crate::cmd) const EXIT_CODES: ExitCodes = ExitCodes {
    fine: "every row is the same or better",
    findings: Some("rows need attention"),
    failed: "wrong usage, a file that cannot be read or written, a configuration of Contour that is not valid YAML, or no access to the \
             cluster",
};

pub(super) const EXAMPLES: &str = "\
Examples:
  The objects of the current cluster, and Contour's ConfigMap, which is found by its name:
    lockgate migrate contour --context current --settings-file lockgate.yaml

  The same for an installation with helm:
    lockgate migrate contour --context current --values-file values.yaml
    helm install lockgate charts/lockgate --namespace lockgate --create-namespace --values values.yaml

  The same without access to the cluster:
    kubectl get ingress,httpproxy,tlscertificatedelegation,extensionservice,service,secret,configmap \\
      --all-namespaces --output yaml > all.yaml
    lockgate migrate contour --settings-file lockgate.yaml all.yaml

  Only the rows that need attention, with a configuration file and the classes of Contour's flag:
    lockgate migrate contour --rows attention --contour-config contour.yaml --ingress-class-name public all.yaml

  Only the configuration file:
    lockgate migrate contour --contour-config contour.yaml --settings-file lockgate.yaml

  Check the written settings and use them:
    lockgate config check lockgate.yaml
    lockgate serve --config lockgate.yaml --context current";

/// Runs `lockgate migrate contour`.
pub fn run(options: &MigrateContourArgs) -> anyhow::Result<Outcome> {
    let progress = Progress::start("reading manifests");
    let (manifests, scope, is_partial) = match options.cluster.is_given() {
        false => {
            let input = input::read(options.inputs.iter().chain(&options.manifests), None, &progress)?;
            (input.manifests, if options.complete { Scope::Complete } else { Scope::Part }, input.is_partial)
        }
        true => {
            let (manifests, scope) = crate::cmd::runtime()?.block_on(of_cluster(options, &progress))?;
            let is_partial = scope.is_unknown(Kind::INGRESS) || scope.is_unknown(Kind::HTTP_PROXY);
            (manifests, scope, is_partial)
        }
    };
    let configuration = configuration(options, &manifests)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let now = i64::try_from(now).unwrap_or(i64::MAX);
    let flags = Flags {
        ingress_class_name: options.ingress_class_name.clone(),
        root_namespaces: options.root_namespaces.clone(),
        watch_namespaces: options.watch_namespaces.clone(),
    };
    progress.step(format!("comparing {} objects", manifests.counts().objects));
    let ContourMigration { settings, values, mut rows } =
        migrate(&manifests, configuration.as_ref(), &flags, &scope, now);
    drop(progress);
    if let Some(path) = &options.settings_file {
        std::fs::write(path, settings).with_context(|| format!("cannot write --settings-file {}", path.display()))?;
    }
    if let Some(path) = &options.values_file {
        std::fs::write(path, values.text).with_context(|| format!("cannot write --values-file {}", path.display()))?;
        rows.extend(values.rows);
        rows.sort();
    }
    let summary = counted(&rows);
    let needs_attention = rows.iter().any(|row| row.verdict == Verdict::Attention);
    let most = match options.rows {
        Rows::Same => Verdict::Same,
        Rows::Better => Verdict::Better,
        Rows::Attention => Verdict::Attention,
    };
    rows.retain(|row| row.verdict <= most);
    crate::cmd::print(&match options.output {
        Form::Text => text(&rows, colors()),
        Form::Json => output::json(&json(&rows)),
    })?;
    let written = written(options, &values.left_out);
    let source = match &configuration {
        Some(configuration) => format!("the configuration of {}", configuration.place()),
        None => "the defaults of Contour, because there is no configuration of it".to_owned(),
    };
    let _ = writeln!(io::stderr().lock(), "{summary}, with {source}{written}");
    if is_partial {
        let unread = if options.cluster.is_given() { "Ingresses or HTTPProxies" } else { "a file" };
        bail!("{unread} cannot be read, so the comparison is incomplete");
    }
    Ok(Outcome::with_findings(needs_attention))
}

/// Describes the written files: `; wrote the settings to lockgate.yaml`.
fn written(options: &MigrateContourArgs, left_out: &[String]) -> String {
    let settings = options.settings_file.iter().map(|path| format!("the settings to {}", path.display()));
    let without = if left_out.is_empty() { String::new() } else { format!(" without {}", left_out.join(", ")) };
    let values = options.values_file.iter().map(|path| format!("the values to {}{without}", path.display()));
    let files: Vec<String> = settings.chain(values).collect();
    match files.is_empty() {
        true => "; --settings-file FILE writes the settings, and --values-file FILE values of the chart".to_owned(),
        false => format!("; wrote {}", files.join(", and ")),
    }
}

/// Returns the objects of a cluster, and the texts of the configurations that it has.
async fn of_cluster(options: &MigrateContourArgs, progress: &Progress) -> anyhow::Result<(Manifests, Scope)> {
    let watch = Watch { namespaces: options.watch_namespaces.clone(), ..Watch::default() };
    let listed = cluster::list(options.cluster.clone(), &watch, progress).await?;
    let (mut manifests, scope) = super::of_cluster(listed);
    if options.contour_config.is_none() {
        let client =
            source::cluster::client(options.cluster.kubeconfig.clone(), options.cluster.context.clone()).await?;
        for configuration in cluster_configuration::list(&client, progress).await {
            manifests.add_text("", configuration);
        }
    }
    Ok((manifests, scope))
}

/// Returns Contour's configuration: the file that the user names, or the only one of the input.
fn configuration(options: &MigrateContourArgs, manifests: &Manifests) -> anyhow::Result<Option<Configuration>> {
    if let Some(path) = &options.contour_config {
        let name = path.display().to_string();
        let text = file::read(path).map_err(|why| anyhow!("--contour-config {name}: {why}"))?;
        return contour::parse(&name, &text).map(Some).map_err(|why| anyhow!("--contour-config {why}"));
    }
    let mut found = contour::find(manifests.texts()).map_err(anyhow::Error::msg)?;
    if found.len() > 1 {
        let places: Vec<String> = found.iter().map(Configuration::place).collect();
        bail!("there are several configurations of Contour: {}; name one with --contour-config", places.join(", "));
    }
    Ok(found.pop())
}

/// Returns whether standard output has colors: on terminals, unless `NO_COLOR` is set (no-color.org).
fn colors() -> Colors {
    let is_unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if io::stdout().is_terminal() && !is_unwanted { Colors::On } else { Colors::Off }
}

//! `lockgate explain`: explains how a request is handled, and why.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{anyhow, bail};
use clap::Args;
use lockgate_route::objects::ObjectId;
use lockgate_route::translate::{ChangedInputs, Translator};

use super::exit::{ExitCodes, Outcome};
use super::output::{self, Output};
use super::progress::Progress;
use super::replica_args::ReplicaArgs;
use super::replicas::style;
use super::settings_args::TranslationArgs;
use super::{check, replicas};
use crate::check::objects;
use crate::explain::{ObjectState, Question, Report, combine, text};

/// Options of `lockgate explain`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ExplainArgs {
    /// The URL; the default scheme is https. Other schemes: http, grpc, grpcs (with /SERVICE/METHOD as path), tls, tcp, udp
    #[arg(value_name = "URL")]
    url: String,

    /// The method [default: GET; POST for gRPC]
    #[arg(long, short = 'X', value_name = "METHOD", default_value = "", hide_default_value = true)]
    method: String,

    /// A header, `name: value`; may be given several times. `Host: NAME` replaces the host of the URL, but not its server name
    #[arg(long, short = 'H', value_name = "HEADER")]
    header: Vec<String>,

    /// The server name (SNI) that the client sends [default: the host of the URL]
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    server_name: String,

    /// Use Kubernetes YAML instead, as `serve --manifests` would serve it: no cluster, no Envoys. May be given several times
    #[arg(long, value_name = "FILE|DIR|-", help_heading = "Source (default: the cluster of kubectl)")]
    #[arg(conflicts_with_all = ["admin_address", "kubeconfig", "context", "namespace", "selector"])]
    manifests: Vec<PathBuf>,

    #[command(flatten)]
    replicas: ReplicaArgs,

    #[command(flatten)]
    settings: TranslationArgs,

    #[command(flatten)]
    output: Output,
}

/// The description above the options.
pub(super) const LONG_ABOUT: &str = "Explain what happens to a request, and why.\n\n\
    Prints the listener, the server name and its certificate, the virtual host, the route with its object and field, the \
    cluster, and the endpoints. Then the objects that lost: conflicts, paths that are not reached, hosts of other namespaces, \
    other classes. And how many Envoys have accepted the objects.\n\n\
    The decision is computed by the rules of Envoy from the configuration that the controller serves now. No request is sent. \
    Every replica is asked, through port-forwards of the API server. That needs the permissions `list` on pods, and `get` and \
    `create` on pods/portforward, in the namespace of the controller.";

pub(super) const EXIT_CODES: ExitCodes = ExitCodes {
    fine: "the request is served or redirected",
    findings: Some("Envoy closes the connection, or answers with an error of its own, such as 404, 421, or 503"),
    failed: "wrong usage, invalid settings, a file that cannot be read, or no controller that answers",
};

const EXAMPLES: &str = "\
Examples:
  In the cluster of kubectl:
    lockgate explain https://shop.example.com/cart

  As a plugin of kubectl (a link or a copy of this program named kubectl-lockgate, in PATH):
    kubectl lockgate explain https://shop.example.com/cart

  A method and a header, for routes that match them:
    lockgate explain -X POST -H x-canary:always https://shop.example.com/cart

  A gRPC method:
    lockgate explain grpcs://shop.example.com/shop.Cart/Add

  Files, before they are applied:
    lockgate explain https://shop.example.com/cart --manifests deploy/ --ingress-class public

  A controller on this machine:
    lockgate explain https://shop.example.com/cart --admin-address 127.0.0.1:18001";

/// Explains the request, and prints the report. An error that Envoy answers is a finding.
pub fn run(options: ExplainArgs) -> anyhow::Result<Outcome> {
    let ExplainArgs { url, method, header, server_name, manifests, replicas, settings, output } = options;
    let question = Question { url, method, headers: header.join("\n"), server_name };
    if header.iter().any(|header| header.contains('\n')) {
        bail!("--header: a header cannot contain line breaks");
    }
    question.parse().map_err(|error| anyhow!(error))?;
    let progress = Progress::start("waiting for the controller");
    let report = match manifests.is_empty() {
        false => offline(&question, &manifests, &settings, &progress)?,
        true => super::runtime()?.block_on(online(&question, &replicas, &progress))?,
    };
    drop(progress);
    super::print(&match output.is_json() {
        true => output::json(&serde_json::to_value(&report)?),
        false => text::report(&report, style()),
    })?;
    Ok(Outcome::with_findings(report.is_refused()))
}

/// Explains the request from manifests.
fn offline(
    question: &Question,
    paths: &[PathBuf],
    settings: &TranslationArgs,
    progress: &Progress,
) -> anyhow::Result<Report> {
    let settings = settings.load()?.resolved.settings.route;
    let input = check::input::read(paths, None, progress)?;
    for finding in input.manifests.findings() {
        let (file, line, message) = (&finding.file, finding.line, &finding.message);
        progress.note(&format!("{file}:{line}: {message}; {}", finding.consequence));
    }
    if input.is_partial {
        bail!("a file cannot be read, so there is no explanation");
    }
    let mut objects = objects(&input.manifests);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    objects.use_valid_secrets(i64::try_from(now).unwrap_or(i64::MAX));
    progress.step(format!("translating {} objects", input.manifests.counts().objects));
    let mut translator = Translator::default();
    translator.update(&objects, &settings, &ChangedInputs::everything());
    let (target, request) = question.parse().map_err(|error| anyhow!(error))?;
    let mut report = Report::new(question, translator.explain(target, &request, &settings));
    let serves = |id: &ObjectId| translator.serves(id);
    report
        .add_elsewhere(question, &ObjectState { objects: &objects, verdicts: translator.verdicts(), serves: &serves });
    Ok(report)
}

/// Requests the explanation from all replicas.
async fn online(question: &Question, replicas: &ReplicaArgs, progress: &Progress) -> anyhow::Result<Report> {
    let Question { url, method, headers, server_name } = question;
    let parameters = [("url", url), ("method", method), ("headers", headers), ("server_name", server_name)];
    let query: Vec<String> =
        parameters.iter().map(|(name, value)| format!("{name}={}", replicas::escape(value))).collect();
    let answers = replicas::ask(replicas, &format!("/debug/explain?{}", query.join("&")), progress).await?;
    let errors: Vec<String> = answers.iter().filter_map(|(_, answer)| answer.as_ref().err().cloned()).collect();
    let parsed = answers.into_iter().map(|(replica, answer)| (replica, answer.and_then(|body| replicas::parse(&body))));
    combine::reports(parsed.collect()).ok_or_else(|| replicas::no_answer(errors.iter().map(String::as_str)))
}

//! `lockgate status`: the state of all replicas in one answer.

use clap::Args;

use super::exit::{ExitCodes, Outcome};
use super::output::{self, Output};
use super::progress::Progress;
use super::replica_args::ReplicaArgs;
use super::replicas::{self, Answers, style};
use crate::explain::claims::{self, ClaimState};
use crate::explain::combine::Combined;
use crate::explain::{State, text};

/// Options of `lockgate status`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct StatusArgs {
    #[command(flatten)]
    replicas: ReplicaArgs,

    /// List the claims of hosts instead: the namespace that keeps each host, and how to release a host
    #[arg(long)]
    claims: bool,

    #[command(flatten)]
    output: Output,
}

/// The description above the options.
pub(super) const LONG_ABOUT: &str = "Show the state of all replicas in one answer.\n\n\
    Prints the replicas, the Envoys and the progress of each, the objects that not all Envoys have accepted yet or that an Envoy \
    has rejected, the objects that lost all their routes, the Ingresses without a class, and the problems.\n\n\
    Every replica is asked, through port-forwards of the API server. That needs the permissions `list` on pods, and `get` and \
    `create` on pods/portforward, in the namespace of the controller.";

pub(super) const EXIT_CODES: ExitCodes = ExitCodes {
    fine: "all replicas are ready, all Envoys are up to date, and there are no problems; always with `--claims`",
    findings: Some("something needs attention: a replica, an Envoy, an object, or a problem"),
    failed: "wrong usage, or no controller that answers",
};

const EXAMPLES: &str = "\
Examples:
  In the cluster of kubectl:
    lockgate status

  As a plugin of kubectl (a link or a copy of this program named kubectl-lockgate, in PATH):
    kubectl lockgate status

  A controller in another namespace, as JSON:
    lockgate status --namespace ingress --output json

  The claims of hosts:
    lockgate status --claims

  A controller on this machine:
    lockgate status --admin-address 127.0.0.1:18001";

/// Requests the state of all replicas, and prints it.
pub fn run(options: StatusArgs) -> anyhow::Result<Outcome> {
    if options.claims {
        return list_claims(&options).map(|()| Outcome::Fine);
    }
    let answers = ask(&options, "/debug/status")?;
    let state = |(replica, answer): (String, Result<Vec<u8>, String>)| match answer
        .and_then(|body| replicas::parse::<State>(&body))
    {
        Ok(state) => State { replica, ..state },
        Err(error) => State { replica, error, ..State::default() },
    };
    let states: Vec<State> = answers.into_iter().map(state).collect();
    if states.iter().all(|state| !state.error.is_empty()) {
        return Err(replicas::no_answer(states.iter().map(|state| state.error.as_str())));
    }
    let combined = Combined::new(states);
    super::print(&match options.output.is_json() {
        true => output::json(&serde_json::to_value(&combined)?),
        false => text::status(&combined, style()),
    })?;
    Ok(Outcome::with_findings(combined.needs_attention()))
}

/// Requests a page from all replicas, and shows the progress.
fn ask(options: &StatusArgs, path: &str) -> anyhow::Result<Answers> {
    let progress = Progress::start("connecting");
    super::runtime()?.block_on(replicas::ask(&options.replicas, path, &progress))
}

/// Prints the claims of the first replica that responds. All replicas read the same claims.
fn list_claims(options: &StatusArgs) -> anyhow::Result<()> {
    let answers = ask(options, "/debug/claims")?;
    let mut errors = Vec::new();
    for (_, answer) in answers {
        match answer.and_then(|body| replicas::parse::<Vec<ClaimState>>(&body)) {
            Ok(found) => {
                return super::print(&match options.output.is_json() {
                    true => output::json(&serde_json::to_value(&found)?),
                    false => claims::text(&found, style()),
                });
            }
            Err(error) => errors.push(error),
        }
    }
    Err(replicas::no_answer(errors.iter().map(String::as_str)))
}

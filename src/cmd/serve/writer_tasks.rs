//! The tasks that write to the API server: leader election and the writers.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use futures::future::select_all;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::leader::{Candidate, ElectionTiming, Leader};
use crate::metrics::Metrics;
use crate::settings::{LeaderElection, ServerOptions, Source, Writes};
use crate::source;
use crate::source::claims::ClaimsPlace;
use crate::status::{self, Inputs, Installation, Template};

/// The tasks of leader election and of the writers, if this replica writes.
pub(super) struct WriterTasks {
    /// The leadership of this replica. Without an election, it always leads.
    pub leader: Leader,
    installation: Option<Installation>,
    tasks: Vec<(&'static str, JoinHandle<()>)>,
}

impl WriterTasks {
    /// Starts leader election if `options` enable it. The election ends when `stopping` is true.
    pub async fn elect(
        source: &Source,
        options: &ServerOptions,
        metrics: &Metrics,
        mut stopping: watch::Receiver<bool>,
    ) -> anyhow::Result<Self> {
        let (Source::Cluster { kubeconfig, context, .. }, Writes::Alone | Writes::Elected) = (source, options.writes)
        else {
            return Ok(Self { leader: Leader::always(), installation: None, tasks: Vec::new() });
        };
        let client = || source::cluster::client(kubeconfig.clone(), context.clone());
        let writer = client().await?;
        let namespace = source::cluster::own_namespace(&writer);
        let (instance, elected) = (identity(), options.writes == Writes::Elected);
        let LeaderElection { enabled: _, lease, lease_duration, renew_deadline, retry_period } =
            &options.process.leader_election;
        tracing::info!(namespace, lease, instance, elected, "may write status and Events");
        let (leader, election) = if elected {
            // The election has a separate connection, so that renewals do not wait for other responses.
            let client = client().await?;
            let timing =
                ElectionTiming { lease: *lease_duration, renew_deadline: *renew_deadline, retry: *retry_period };
            let candidate = Candidate::new(client, &namespace, lease, instance.clone(), timing, metrics.clone());
            (candidate.leader(), tokio::spawn(candidate.run(stopping)))
        } else {
            metrics.set_leader(true);
            let until_stopped = async move {
                let _ = stopping.wait_for(|stopping| *stopping).await;
            };
            (Leader::always(), tokio::spawn(until_stopped))
        };
        let template = options.process.fleet_template.as_deref().map(|file| template(file, &namespace)).transpose()?;
        let fleets = template.map(|template| (Arc::new(template), lease.clone()));
        let manager = status::manager(&namespace, lease);
        let claims = ClaimsPlace::new(namespace, lease);
        let installation = Installation { client: writer, instance, manager, claims, fleets };
        Ok(Self { leader, installation: Some(installation), tasks: vec![("the election", election)] })
    }

    /// Starts the writers, if this replica writes.
    pub fn start_writers(&mut self, inputs: Inputs) {
        let Some(installation) = self.installation.take() else { return };
        let writers = status::write(installation, self.leader.clone(), inputs);
        self.tasks.push(("the status writer", tokio::spawn(writers)));
    }

    /// Waits until a task ends, and returns the reason. Waits forever without tasks.
    pub async fn failed(&mut self) -> anyhow::Error {
        if self.tasks.is_empty() {
            return std::future::pending().await;
        }
        let (ended, at, _) = select_all(self.tasks.iter_mut().map(|(_, task)| task)).await;
        let what = self.tasks.get(at).map_or("a task", |(what, _)| what);
        match ended.with_context(|| format!("{what} panicked")) {
            Ok(()) => anyhow!("{what} ended unexpectedly"),
            Err(error) => error,
        }
    }

    /// Waits until the election has released the Lease. It has received the signal to stop before.
    pub async fn stopped(self) {
        let mut tasks = self.tasks.into_iter();
        if let Some((_, election)) = tasks.next() {
            let _ = election.await;
        }
        tasks.for_each(|(_, task)| task.abort());
    }
}

/// Reads the template of fleets. The controller restarts when the file changes.
fn template(file: &Path, namespace: &str) -> anyhow::Result<Template> {
    let named = || format!("gateway.dedicatedFleets.template: {}", file.display());
    let text = std::fs::read_to_string(file).with_context(named)?;
    let deployment = serde_saphyr::from_str(&text).with_context(named)?;
    Template::new(namespace, deployment).map_err(anyhow::Error::msg).with_context(named)
}

/// Returns a unique name: the name of the pod, otherwise a name of this process.
fn identity() -> String {
    let pod = std::env::var("POD_NAME").ok().filter(|name| !name.is_empty());
    pod.unwrap_or_else(|| {
        use std::hash::{BuildHasher, RandomState};
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let chance = RandomState::new().hash_one(std::process::id());
        format!("{}_{}_{:08x}", host.trim(), std::process::id(), chance as u32)
    })
}

//! The settings file of a running process: a valid change holds at once, of one that is not valid nothing does.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use super::settings_args::SettingsSource;
use crate::metrics::Metrics;
use crate::provenance::ObjectRef;
use crate::settings::{self, Resolved};
use crate::source::{self, Event, SourceError};
use crate::status::Chosen;

/// The settings that hold, and what is wrong with the file if they are not the file's.
#[derive(Debug, Clone, Default)]
pub(super) struct State {
    /// What holds.
    pub resolved: Resolved,
    /// The file's name; empty if there is none.
    pub file: String,
    /// Why what the file holds now does not hold, a line for each fault.
    pub fault: Option<String>,
}

impl State {
    /// For `/debug/settings`: what is wrong, then what holds.
    pub(super) fn describe(&self) -> String {
        let fault = self.fault.iter().flat_map(|fault| fault.lines()).map(|line| format!("# NOT APPLIED: {line}\n"));
        fault.collect::<String>() + &settings::print(&self.resolved, &self.file)
    }
}

/// Where new settings are told, beside the controller's loop.
pub(super) struct Told {
    /// All of them.
    pub state: watch::Sender<Arc<State>>,
    /// What is about the status of objects.
    pub status: watch::Sender<Chosen>,
}

/// Follows the file of `source`, tells the controller of new settings by `events`, and everybody else by `told`.
/// Without a file it waits.
pub(super) async fn follow(
    source: SettingsSource,
    events: mpsc::Sender<Event>,
    told: Told,
    metrics: Metrics,
) -> Result<(), SourceError> {
    let Some((path, text)) = source.file.clone() else { return std::future::pending().await };
    let (sender, mut changes) = mpsc::channel(1);
    let watching = source::file::watch(path, Ok(text), sender);
    let applying = async {
        while let Some(content) = changes.recv().await {
            let name = source.name();
            let resolved = match content {
                Ok(text) => source.with(&text).map_err(|faults| faults.faults.iter().map(|f| faults.line(f)).collect()),
                Err(why) => Err(vec![format!("{name}: {why}")]),
            };
            let news = apply(resolved, &name, &told, &metrics);
            if events.send(Event::Together(news)).await.is_err() {
                break;
            }
        }
    };
    tokio::select! {
        ended = watching => ended,
        () = applying => Ok(()),
    }
}

/// Takes in what the file holds now. Returns what the controller is to be told.
fn apply(
    resolved: Result<Resolved, Vec<String>>,
    file: &str,
    Told { state, status }: &Told,
    metrics: &Metrics,
) -> Vec<Event> {
    let origin = ObjectRef::new(KIND, "", file);
    let old = state.borrow().clone();
    match resolved {
        Ok(resolved) => {
            metrics.settings_read(true);
            for key in settings::needs_restart(&old.resolved.settings, &resolved.settings) {
                tracing::warn!(key, "needs a restart of the Envoys: it is read when their bootstrap is written");
            }
            let changed = settings::changes(&old.resolved.settings, &resolved.settings);
            tracing::info!(file, changed = changed.join(", "), "settings applied");
            let settings = resolved.settings.clone();
            let now = Chosen::of(&settings);
            status.send_if_modified(|status| {
                let changed = *status != now;
                *status = now;
                changed
            });
            state.send_replace(Arc::new(State { resolved, file: file.to_owned(), fault: None }));
            vec![Event::Healed(origin), Event::Settings(Box::new(settings))]
        }
        Err(faults) => {
            metrics.settings_read(false);
            let fault = faults.join("\n");
            state.send_replace(Arc::new(State { fault: Some(fault), ..State::clone(&old) }));
            let event = |message| Event::Fault {
                origin: origin.clone(),
                message: format!("{message}; the settings of before stay"),
            };
            faults.into_iter().map(event).collect()
        }
    }
}

/// What the log calls the file.
const KIND: &str = "Settings";

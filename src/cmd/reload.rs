//! The settings file of a running process: a valid change holds at once, of one that is not valid nothing does.

use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;
use tokio::sync::{mpsc, watch};

use super::settings_args::{SettingsSource, warn_of_hidden};
use crate::metrics::Metrics;
use crate::settings::{self, Resolved, Restart};
use crate::source::{self, Event, SourceError};
use crate::status::Chosen;
use crate::telemetry::LogControl;

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

/// Where new settings are told.
pub(super) struct Told {
    /// The controller's loop.
    pub events: mpsc::Sender<Event>,
    /// Whether it makes anything of them: Envoy resources are served as they are.
    pub translated: bool,
    /// All of them.
    pub state: watch::Sender<Arc<State>>,
    /// What is about the status of objects.
    pub status: watch::Sender<Chosen>,
    /// What is logged.
    pub log: LogControl,
}

/// Follows the file of `source`, and tells of new settings. Without a file it waits.
pub(super) async fn follow(source: SettingsSource, told: Told, metrics: Metrics) -> Result<(), SourceError> {
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
            let news = told.apply(resolved, &name, &metrics);
            if told.events.send(Event::Together(news)).await.is_err() {
                break;
            }
        }
    };
    tokio::select! {
        ended = watching => ended,
        () = applying => Ok(()),
    }
}

impl Told {
    /// Takes in what the file holds now. Returns what the controller is to be told.
    fn apply(&self, resolved: Result<Resolved, Vec<String>>, file: &str, metrics: &Metrics) -> Vec<Event> {
        let origin = ObjectRef::new(KIND, "", file);
        let old = self.state.borrow().clone();
        match resolved {
            Ok(resolved) => {
                let resolved = resolved.in_place_of(&old.resolved);
                metrics.settings_read(true);
                metrics.set_settings_waiting(resolved.waiting.len());
                self.log(file, &old.resolved, &resolved);
                let settings = resolved.settings.clone();
                let now = Chosen::of(&settings);
                self.status.send_if_modified(|status| {
                    let changed = *status != now;
                    *status = now;
                    changed
                });
                let news = self.translated && settings.route != old.resolved.settings.route;
                self.state.send_replace(Arc::new(State { resolved, file: file.to_owned(), fault: None }));
                let news = news.then(|| Event::Settings(Box::new(settings.route)));
                std::iter::once(Event::Healed(origin)).chain(news).collect()
            }
            Err(faults) => {
                metrics.settings_read(false);
                let fault = faults.join("\n");
                self.state.send_replace(Arc::new(State { fault: Some(fault), ..State::clone(&old) }));
                let event = |message| Event::Fault {
                    origin: origin.clone(),
                    message: format!("{message}; the settings of before stay"),
                };
                faults.into_iter().map(event).collect()
            }
        }
    }

    /// Tells the log what has changed, and what has not; changes the log itself.
    fn log(&self, file: &str, old: &Resolved, new: &Resolved) {
        let changed: Vec<_> = settings::changes(&old.settings, &new.settings).collect();
        if changed.iter().any(|(key, _)| *key == "log.level") {
            let level = &new.settings.process.log.level;
            if let Err(error) = self.log.set(level) {
                tracing::error!(level, %error, "the log level stays as it is");
            }
        }
        for (key, _) in changed.iter().filter(|(_, restart)| *restart == Some(Restart::Envoys)) {
            tracing::warn!(key, "needs a restart of the Envoys: it is read when their bootstrap is written");
        }
        for (key, waiting) in new.waiting.iter().filter(|(key, waiting)| old.waiting.get(*key) != Some(*waiting)) {
            let holds = settings::written(&new.settings, key);
            tracing::warn!(
                key,
                holds,
                waits = waiting.written(),
                "needs a restart of the controller; until then the value of before holds"
            );
        }
        warn_of_hidden(new, old);
        let changed: Vec<_> = changed.iter().map(|(key, _)| *key).collect();
        tracing::info!(file, changed = changed.join(", "), "settings applied");
    }
}

/// What the log calls the file.
const KIND: &str = "Settings";

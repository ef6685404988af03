//! Hot reload of the settings file: a valid change applies at once, and an invalid change has no effect.

use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;
use tokio::sync::{mpsc, watch};

use super::settings_args::{SettingsSource, warn_of_hidden};
use crate::channel::send_if_changed;
use crate::metrics::Metrics;
use crate::settings::{self, Resolved, Restart};
use crate::source::{self, Event, SourceError};
use crate::status::WriterSettings;
use crate::telemetry::LogControl;

/// The effective settings, and the faults of the file if it is invalid.
#[derive(Debug, Clone, Default)]
pub(super) struct State {
    /// The effective settings.
    pub resolved: Resolved,
    /// The file's name; empty if there is none.
    pub file: String,
    /// The faults of the file, one per line, if it is invalid.
    pub fault: Option<String>,
}

impl State {
    /// Returns the text of `/debug/settings`: the faults, then the effective settings.
    pub(super) fn describe(&self) -> String {
        let fault = self.fault.iter().flat_map(|fault| fault.lines()).map(|line| format!("# NOT APPLIED: {line}\n"));
        fault.collect::<String>() + &settings::print(&self.resolved, &self.file)
    }
}

/// The receivers of new settings.
pub(super) struct Receivers {
    /// The controller's loop.
    pub events: mpsc::Sender<Event>,
    /// Whether the loop translates objects. Envoy resources of a directory are served unchanged.
    pub translated: bool,
    /// The effective settings.
    pub state: watch::Sender<Arc<State>>,
    /// The settings of the status writer.
    pub status: watch::Sender<WriterSettings>,
    /// The log level.
    pub log: LogControl,
}

/// Watches the file of `source`, and sends new settings to `receivers`. Waits forever without a file.
pub(super) async fn follow(source: SettingsSource, receivers: Receivers, metrics: Metrics) -> Result<(), SourceError> {
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
            let news = receivers.apply(resolved, &name, &metrics);
            if receivers.events.send(Event::Together(news)).await.is_err() {
                break;
            }
        }
    };
    tokio::select! {
        ended = watching => ended,
        () = applying => Ok(()),
    }
}

impl Receivers {
    /// Applies the current content of the file. Returns the events for the controller.
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
                let now = WriterSettings::new(&settings);
                send_if_changed(&self.status, now);
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
                    message: format!("{message}; the previous settings stay effective"),
                    retry: None,
                    repeated: false,
                };
                faults.into_iter().map(event).collect()
            }
        }
    }

    /// Logs the changed keys and the keys that need a restart, and changes the log level.
    fn log(&self, file: &str, old: &Resolved, new: &Resolved) {
        let changed: Vec<_> = settings::changes(&old.settings, &new.settings).collect();
        if changed.iter().any(|(key, _)| *key == "log.level") {
            let level = &new.settings.process.log.level;
            if let Err(error) = self.log.set(level) {
                tracing::error!(level, %error, "the log level is unchanged");
            }
        }
        for (key, _) in changed.iter().filter(|(_, restart)| *restart == Some(Restart::Envoys)) {
            tracing::warn!(key, "needs a restart of the Envoys: their bootstrap contains the value");
        }
        for (key, waiting) in new.waiting.iter().filter(|(key, waiting)| old.waiting.get(*key) != Some(*waiting)) {
            let holds = settings::written(&new.settings, key);
            tracing::warn!(
                key,
                holds,
                waits = waiting.written(),
                "needs a restart of the controller; until then, the previous value applies"
            );
        }
        warn_of_hidden(new, old);
        let changed: Vec<_> = changed.iter().map(|(key, _)| *key).collect();
        tracing::info!(file, changed = changed.join(", "), "settings applied");
    }
}

/// The kind of the file in log lines.
const KIND: &str = "Settings";

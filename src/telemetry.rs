//! The log: one line an event, made to be read in `kubectl logs` and to be searched by machines.
//! A base module: it knows nothing of ours.
//!
//! Text is `time level message field=value …`, JSON one object a line. Everything goes to standard error, so that
//! standard output stays free for what a command was asked for. The level can be changed while the process runs.

mod text;

use std::fmt;
use std::io::IsTerminal;
use std::sync::{Arc, Mutex, PoisonError};

use tracing_subscriber::filter::{EnvFilter, LevelFilter};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, reload};

/// Libraries whose lower levels tell nothing about us, and two that log each failed request, which its caller then
/// tells with the object and what is done; a filter that names them overrides this.
const QUIET: &str = "h2=info,hyper=info,hyper_util=info,tower=info,rustls=info,mio=info,notify=info,\
                     kube_client::client::builder=off,kube_runtime::watcher=error";

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `2026-11-21T09:30:00.123Z INFO  published generation=4`
    Text,
    /// `{"timestamp":"2026-11-21T09:30:00.123Z","level":"INFO","message":"published","generation":4}`
    Json,
}

/// Why the log cannot be set up or changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The text is not a filter.
    #[error("{0}")]
    Filter(String),
    /// Another log is already set up in this process.
    #[error("the log is already set up: {0}")]
    AlreadySet(#[from] tracing_subscriber::util::TryInitError),
    /// The log has been taken down.
    #[error("the log cannot be changed any more: {0}")]
    Gone(#[from] reload::Error),
}

/// Reads and changes the level of the running process. Cheap to clone.
#[derive(Clone)]
pub struct LogControl {
    handle: reload::Handle<EnvFilter, Registry>,
    current: Arc<Mutex<String>>,
}

impl LogControl {
    /// The filter in force, as it was given.
    pub fn current(&self) -> String {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts another filter into force, in the syntax of [`check_filter`]. On an error the old one stays.
    pub fn set(&self, filter: &str) -> Result<(), Error> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        self.handle.reload(parse(filter)?)?;
        *current = filter.trim().to_owned();
        Ok(())
    }
}

impl fmt::Debug for LogControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LogControl").field(&self.current()).finish()
    }
}

/// Sets up the log of this process, on standard error.
pub fn init(format: Format, filter: &str) -> Result<LogControl, Error> {
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let (subscriber, control) = subscriber(format, filter, std::io::stderr, colour)?;
    subscriber.try_init()?;
    Ok(control)
}

/// A control that no log listens to, for tests of what uses one.
#[cfg(test)]
pub(crate) fn detached(filter: &str) -> LogControl {
    let (level, handle) = reload::Layer::new(EnvFilter::new(filter));
    // The layer must outlive the handle; a test process ends soon enough.
    std::mem::forget(level);
    LogControl { handle, current: Arc::new(Mutex::new(filter.to_owned())) }
}

/// Whether `filter` is one: a level (`off`, `error`, `warn`, `info`, `debug`, `trace`), `target=level`, or several of
/// these with commas between them: `info,lockgate_xds=debug`. Source: the directives of tracing-subscriber's
/// `EnvFilter`, less its bare targets, so that a misspelt level is an error and not a target that nobody has.
pub fn check_filter(filter: &str) -> Result<(), Error> {
    parse(filter).map(drop)
}

fn parse(filter: &str) -> Result<EnvFilter, Error> {
    let filter = filter.trim();
    let expected = "expected off, error, warn, info, debug or trace, or target=level, such as info,lockgate_xds=debug";
    if filter.is_empty() {
        return Err(Error::Filter(format!("empty filter; {expected}")));
    }
    // A directive with a span in brackets may have commas inside and is left to the parser.
    if !filter.contains('[') {
        for part in filter.split(',').map(str::trim) {
            let level = part.split_once('=').map_or(part, |(_, level)| level);
            if level.is_empty() || level.parse::<LevelFilter>().is_err() {
                return Err(Error::Filter(format!("\"{part}\" is not a filter; {expected}")));
            }
        }
    }
    EnvFilter::try_new(format!("{QUIET},{filter}"))
        .map_err(|error| Error::Filter(format!("\"{filter}\" is not a filter ({error}); {expected}")))
}

fn subscriber<W>(
    format: Format,
    filter: &str,
    writer: W,
    colour: bool,
) -> Result<(impl tracing::Subscriber + Send + Sync + use<W>, LogControl), Error>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let (level, handle) = reload::Layer::new(parse(filter)?);
    let lines = match format {
        Format::Text => tracing_subscriber::fmt::layer()
            .with_writer(writer)
            .with_ansi(colour)
            .fmt_fields(text::Fields)
            .event_format(text::Line)
            .boxed(),
        Format::Json => tracing_subscriber::fmt::layer()
            .with_writer(writer)
            .json()
            .with_timer(text::UtcMillis)
            .flatten_event(true)
            .with_current_span(true)
            .with_span_list(false)
            .boxed(),
    };
    let control = LogControl { handle, current: Arc::new(Mutex::new(filter.trim().to_owned())) };
    Ok((Registry::default().with(level).with(lines), control))
}

#[cfg(test)]
mod tests;

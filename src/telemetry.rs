//! The log: one line per event, for `kubectl logs` and for machines. A base module without dependencies on other
//! modules.
//!
//! Text lines have the form `time level message field=value …`; JSON lines contain one object each. All lines go to
//! standard error, so that standard output contains only the output of commands. The level can be changed at runtime.

mod printable;
mod text;

use std::fmt;
use std::io::IsTerminal;
use std::sync::{Arc, Mutex, PoisonError};

pub use printable::{is_printable, printable};
use tracing_subscriber::filter::{EnvFilter, LevelFilter};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, reload};

/// Libraries whose lower levels do not concern Lockgate. It includes those that log each failed request and each lost
/// watch, which the caller logs with the object and the consequence. A filter that names them overrides this.
const QUIET: &str = "h2=info,hyper=info,hyper_util=info,tower=info,rustls=info,mio=info,notify=warn,\
                     kube_client::client=error,kube_client::client::builder=off,kube_runtime::watcher=error";

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// `2026-11-21T09:30:00.123Z INFO  published generation=4`
    Text,
    /// `{"timestamp":"2026-11-21T09:30:00.123Z","level":"INFO","message":"published","generation":4}`
    Json,
}

/// The reason why the log cannot be set up or changed.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The text is not a valid filter.
    #[error("{0}")]
    Filter(String),
    /// Another log is already set up in this process.
    #[error("the log is already set up: {0}")]
    AlreadySet(#[from] tracing_subscriber::util::TryInitError),
    /// The log has been shut down.
    #[error("the log cannot be changed any more: {0}")]
    Gone(#[from] reload::Error),
}

/// Reads and changes the log level of the running process. A clone is cheap.
#[derive(Clone)]
pub struct LogControl {
    handle: reload::Handle<EnvFilter, Registry>,
    current: Arc<Mutex<String>>,
}

impl LogControl {
    /// Returns the effective filter as it was given.
    pub fn current(&self) -> String {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the filter, in the syntax of [`check_filter`]. On an error, the old filter stays.
    pub fn set(&self, filter: &str) -> Result<(), LogError> {
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
pub fn init(format: LogFormat, filter: &str) -> Result<LogControl, LogError> {
    let color = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let (subscriber, control) = subscriber(format, filter, std::io::stderr, color)?;
    subscriber.try_init()?;
    Ok(control)
}

/// Creates a control without a log, for tests.
#[cfg(test)]
pub(crate) fn detached(filter: &str) -> LogControl {
    let (level, handle) = reload::Layer::new(EnvFilter::new(filter));
    // The layer must outlive the handle. A test process ends soon enough.
    std::mem::forget(level);
    LogControl { handle, current: Arc::new(Mutex::new(filter.to_owned())) }
}

/// Checks that `filter` is valid: a level (`off`, `error`, `warn`, `info`, `debug`, `trace`), `target=level`, or
/// several of these separated by commas: `info,lockgate_xds=debug`.
///
/// Source: the directives of tracing-subscriber's `EnvFilter`, without bare targets. A misspelled level is therefore an
/// error instead of an unknown target.
pub fn check_filter(filter: &str) -> Result<(), LogError> {
    parse(filter).map(drop)
}

fn parse(filter: &str) -> Result<EnvFilter, LogError> {
    let filter = filter.trim();
    let expected = "expected off, error, warn, info, debug or trace, or target=level, such as info,lockgate_xds=debug";
    if filter.is_empty() {
        return Err(LogError::Filter(format!("empty filter; {expected}")));
    }
    // A directive with a span in brackets may contain commas, and is left to the parser.
    if !filter.contains('[') {
        for part in filter.split(',').map(str::trim) {
            let level = part.split_once('=').map_or(part, |(_, level)| level);
            if level.is_empty() || level.parse::<LevelFilter>().is_err() {
                return Err(LogError::Filter(format!("\"{part}\" is not a filter; {expected}")));
            }
        }
    }
    EnvFilter::try_new(format!("{QUIET},{filter}"))
        .map_err(|error| LogError::Filter(format!("\"{filter}\" is not a filter ({error}); {expected}")))
}

fn subscriber<W>(
    format: LogFormat,
    filter: &str,
    writer: W,
    color: bool,
) -> Result<(impl tracing::Subscriber + Send + Sync + use<W>, LogControl), LogError>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let (level, handle) = reload::Layer::new(parse(filter)?);
    let lines = match format {
        LogFormat::Text => tracing_subscriber::fmt::layer()
            .with_writer(writer)
            .with_ansi(color)
            .fmt_fields(text::Fields)
            .event_format(text::Line)
            .boxed(),
        LogFormat::Json => tracing_subscriber::fmt::layer()
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

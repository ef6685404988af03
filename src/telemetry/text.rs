//! The text format of log lines.

use std::fmt::{self, Debug, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

use super::{is_printable, printable};

/// Writes `time level message field=value …`, then the fields of the enclosing spans, outermost first.
pub(super) struct Line;

/// Writes `message field=value …`, which is the part of [`Line`] for an event and for each span.
pub(super) struct Fields;

/// Writes RFC 3339 in UTC with milliseconds: `2026-11-21T09:30:00.123Z`.
pub(super) struct UtcMillis;

impl<S, N> FormatEvent<S, N> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'w> FormatFields<'w> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        UtcMillis.format_time(&mut writer)?;
        let level = *event.metadata().level();
        match (writer.has_ansi_escapes(), color(level)) {
            (true, color) => write!(writer, " \x1b[{color}m{level:<5}\x1b[0m ")?,
            (false, _) => write!(writer, " {level:<5} ")?,
        }
        context.format_fields(writer.by_ref(), event)?;
        for span in context.event_scope().into_iter().flat_map(|scope| scope.from_root()) {
            let extensions = span.extensions();
            if let Some(fields) = extensions.get::<FormattedFields<N>>()
                && !fields.is_empty()
            {
                write!(writer, " {fields}")?;
            }
        }
        writeln!(writer)
    }
}

fn color(level: Level) -> u8 {
    match level {
        Level::ERROR => 31,
        Level::WARN => 33,
        Level::INFO => 32,
        Level::DEBUG => 34,
        Level::TRACE => 35,
    }
}

impl<'w> FormatFields<'w> for Fields {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut visitor = FieldWriter { writer: &mut writer, first: true, result: Ok(()) };
        fields.record(&mut visitor);
        visitor.result
    }
}

struct FieldWriter<'a, 'w> {
    writer: &'a mut Writer<'w>,
    first: bool,
    result: fmt::Result,
}

impl FieldWriter<'_, '_> {
    fn write(&mut self, field: &Field, value: &str) {
        if self.result.is_ok() {
            self.result = self.try_write(field, value);
        }
    }

    fn try_write(&mut self, field: &Field, value: &str) -> fmt::Result {
        if !std::mem::take(&mut self.first) {
            self.writer.write_char(' ')?;
        }
        if field.name() == "message" {
            return self.writer.write_str(&printable(value));
        }
        write!(self.writer, "{}=", field.name())?;
        let bare = !value.is_empty() && !value.contains(|c: char| c.is_whitespace() || !is_printable(c) || c == '"');
        if bare { self.writer.write_str(value) } else { write!(self.writer, "{value:?}") }
    }
}

impl Visit for FieldWriter<'_, '_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.write(field, value);
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.write(field, &value.to_string());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.write(field, &format!("{value:?}"));
    }
}

impl FormatTime for UtcMillis {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        write_time(writer, since_epoch.as_millis())
    }
}

/// Writes a time. Days are converted to a date by the algorithm "civil_from_days" of Howard Hinnant's
/// "chrono-Compatible Low-Level Date Algorithms". A year that starts in March puts the leap day last.
fn write_time(writer: &mut dyn Write, millis: u128) -> fmt::Result {
    let (days, millis) = (millis / 86_400_000 + 719_468, millis % 86_400_000);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year_of_era + u128::from(month <= 2);
    let (hour, minute, second) = (millis / 3_600_000, millis / 60_000 % 60, millis / 1_000 % 60);
    write!(writer, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", millis % 1_000)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    #[test]
    fn times_are_rfc3339_in_utc() {
        let written = |millis| {
            let mut text = String::new();
            super::write_time(&mut text, millis).unwrap();
            text
        };
        assert_eq!(written(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(written(951_782_399_999), "2000-02-28T23:59:59.999Z");
        assert_eq!(written(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(written(1_795_253_400_123), "2026-11-21T09:30:00.123Z");
        assert_eq!(written(4_107_542_400_000), "2100-03-01T00:00:00.000Z");
    }
}

//! The progress of a command that takes longer than a second, on standard error.
//!
//! On a terminal, it is one line that is updated and finally removed. Otherwise, such as in CI, it is a line every few seconds.

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The time without output. Most commands end earlier.
const QUIET: Duration = Duration::from_secs(1);
/// The minimum time between two lines without a terminal.
const PLAIN_INTERVAL: Duration = Duration::from_secs(5);
/// The interval of updates on a terminal.
const TICK: Duration = Duration::from_millis(200);
/// The maximum length of a line. A longer line would wrap on a terminal of 80 columns, and could not be removed.
const COLUMNS: usize = 78;

/// The progress of one command. The line disappears when this is dropped, which must happen before other output.
pub struct Progress {
    line: Arc<Mutex<Line>>,
    /// Closed to stop the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// Starts with the step `step`, such as `reading manifests`.
    pub fn start(step: impl Into<String>) -> Self {
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let form = if io::stderr().is_terminal() && !is_dumb { Form::Terminal } else { Form::Plain };
        Self::with(step.into(), form, Box::new(io::stderr()), Instant::now())
    }

    fn with(step: String, form: Form, out: Box<dyn Write + Send>, start: Instant) -> Self {
        let line = Arc::new(Mutex::new(Line { step, form, out, is_shown: false, last: None }));
        let (stop, stopped) = channel();
        let shown = line.clone();
        let draw = move || {
            while stopped.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                lock(&shown).draw(start.elapsed());
            }
        };
        // Without a thread, the command works the same and shows no progress.
        let thread = std::thread::Builder::new().name("progress".into()).spawn(draw).ok();
        Self { line, stop: Some(stop), thread }
    }

    /// Replaces the current step.
    pub fn step(&self, step: impl Into<String>) {
        lock(&self.line).step = step.into();
    }

    /// Writes a line to standard error that stays there.
    pub fn note(&self, text: &str) {
        let mut line = lock(&self.line);
        line.remove();
        // A closed standard error is not a fault of the command.
        let _ = writeln!(line.out, "{text}");
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        drop(self.stop.take());
        let _ = self.thread.take().map(JoinHandle::join);
        lock(&self.line).remove();
    }
}

fn lock(line: &Mutex<Line>) -> MutexGuard<'_, Line> {
    line.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// One line that is overwritten.
    Terminal,
    /// Lines that stay.
    Plain,
}

/// The line with the current step.
struct Line {
    step: String,
    form: Form,
    out: Box<dyn Write + Send>,
    /// Whether the line is on the terminal.
    is_shown: bool,
    /// The time of the last plain line, since the start.
    last: Option<Duration>,
}

impl Line {
    /// Writes the step if it is time to do so, `elapsed` after the start.
    fn draw(&mut self, elapsed: Duration) {
        let is_early = |last: Duration| elapsed < last + PLAIN_INTERVAL;
        if elapsed < QUIET || self.form == Form::Plain && self.last.is_some_and(is_early) {
            return;
        }
        let text = shortened(&self.step, &format!(" ({} s)", elapsed.as_secs()));
        let _ = match self.form {
            Form::Terminal => write!(self.out, "\r\x1b[K{text}"),
            Form::Plain => writeln!(self.out, "{text}"),
        };
        let _ = self.out.flush();
        self.is_shown = self.form == Form::Terminal;
        self.last = Some(elapsed);
    }

    /// Removes the line from the terminal.
    fn remove(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            let _ = write!(self.out, "\r\x1b[K");
            let _ = self.out.flush();
        }
    }
}

/// Returns `step` and `end` with at most [`COLUMNS`] characters. The middle of a longer step, such as of a path, is left out.
fn shortened(step: &str, end: &str) -> String {
    // A control character of a file name would move the cursor.
    let step: Vec<char> = step.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    let room = COLUMNS.saturating_sub(end.chars().count());
    if step.len() <= room {
        return step.iter().collect::<String>() + end;
    }
    let (head, tail) = (room / 2, room - room / 2 - 1);
    let kept = step.iter().take(head).chain(&['…']).chain(step.iter().skip(step.len() - tail));
    kept.collect::<String>() + end
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// A writer whose content the test can read.
    #[derive(Clone, Default)]
    struct Screen(Arc<Mutex<Vec<u8>>>);

    impl Write for Screen {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Screen {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    fn line(form: Form) -> (Line, Screen) {
        let screen = Screen::default();
        let step = "reading a.yaml".to_owned();
        (Line { step, form, out: Box::new(screen.clone()), is_shown: false, last: None }, screen)
    }

    fn draw_at(line: &mut Line, milliseconds: &[u64]) {
        milliseconds.iter().for_each(|at| line.draw(Duration::from_millis(*at)));
    }

    #[test]
    fn a_fast_command_shows_no_progress() {
        for form in [Form::Terminal, Form::Plain] {
            let (mut line, screen) = line(form);
            draw_at(&mut line, &[200, 400, 999]);
            line.remove();
            assert_eq!(screen.text(), "", "{form:?}");
        }
    }

    #[test]
    fn a_terminal_has_one_line_that_disappears() {
        let (mut line, screen) = line(Form::Terminal);
        draw_at(&mut line, &[1000]);
        line.step = "checking 3 objects".to_owned();
        draw_at(&mut line, &[1200]);
        line.remove();
        line.remove();
        let expected = "\r\x1b[Kreading a.yaml (1 s)\r\x1b[Kchecking 3 objects (1 s)\r\x1b[K";
        assert_eq!(screen.text(), expected);
    }

    #[test]
    fn without_a_terminal_there_is_a_line_every_few_seconds() {
        let (mut line, screen) = line(Form::Plain);
        draw_at(&mut line, &[1000, 1200, 5999, 6000, 10_999]);
        line.remove();
        assert_eq!(screen.text(), "reading a.yaml (1 s)\nreading a.yaml (6 s)\n");
    }

    #[test]
    fn a_long_step_fits_in_the_line() {
        let step = format!("reading {}/ü/end.yaml", "d".repeat(200));
        let text = shortened(&step, " (1 s)");
        assert_eq!(text.chars().count(), COLUMNS);
        assert!(text.starts_with("reading ddd") && text.ends_with("/ü/end.yaml (1 s)"), "{text}");
        assert_eq!(shortened("a\u{1b}[2J\n", ""), "a?[2J?");
    }

    #[test]
    fn notes_stay_and_the_thread_ends_with_the_command() {
        let screen = Screen::default();
        let start = Instant::now().checked_sub(Duration::from_secs(3)).unwrap();
        let progress = Progress::with("listing".to_owned(), Form::Terminal, Box::new(screen.clone()), start);
        let deadline = Instant::now() + Duration::from_secs(20);
        while !screen.text().contains("listing (") {
            assert!(Instant::now() < deadline, "no progress");
            std::thread::yield_now();
        }
        progress.note("cannot list Secrets");
        progress.step("translating");
        drop(progress);
        let text = screen.text();
        assert!(text.contains("\r\x1b[Kcannot list Secrets\n"), "{text:?}");
        let rest = text.split_once("Secrets\n").unwrap().1;
        assert!(rest.is_empty() || rest.ends_with("\r\x1b[K"), "{rest:?}");
        assert_eq!(Arc::strong_count(&screen.0), 1, "the writer is dropped");
    }
}

//! A directory of files as a source, watched with inotify: Kubernetes manifests or Envoy resources. The source can also be a single
//! file, or standard input.
//!
//! The source reads `*.yaml`, `*.yml`, and `*.json` in the directory and its subdirectories, except for names that
//! start with a dot. It follows symbolic links to files, so that a mounted ConfigMap or Secret works, but not links to
//! directories. A change is read when the writer closes the file or a rename puts it in place, so no partial content is
//! read.

mod content;
mod disk;
mod tree;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender as StdSender, channel};
use std::time::{Duration, Instant};

use lockgate_route::objects::Object;
use lockgate_xds::provenance::ObjectRef;
use lockgate_xds::snapshot::Resource;
use notify::EventKind;
use notify::event::{AccessKind, AccessMode, CreateKind, ModifyKind, RenameMode};
use tokio::sync::mpsc::Sender;

use super::{Event, SourceError, resources::FILE};

pub use disk::files;
use disk::{Disk, FileState};
use tree::{Difference, DirectoryItem, Parsed, Tree, Unreadable};

/// The delays of changes that may be incomplete.
#[derive(Clone, Copy)]
struct Delays {
    /// The time without writes after which a file is read although its writer has not closed it.
    held_open: Duration,
    /// The time after which the objects of a missing file are removed. Some editors move the old file away before they
    /// write the new one, and its hosts must stay available meanwhile.
    gone: Duration,
}

/// The maximum number of reported faults of one file. The others are counted.
const MAX_FAULTS: usize = 20;
const DELAYS: Delays = Delays { held_open: Duration::from_secs(1), gone: Duration::from_millis(15) };

/// The interval of checks for a directory that has disappeared.
const MISSING_INTERVAL: Duration = Duration::from_secs(1);

/// The name of standard input as a source.
pub const STANDARD_INPUT: &str = "-";

/// Watches the directory or the file of Kubernetes manifests `path`. [`STANDARD_INPUT`] is read once. Ends only if it cannot start, or when there is no receiver of
/// events.
pub async fn watch_manifests(path: PathBuf, events: Sender<Event>) -> Result<(), SourceError> {
    watch::<Object>(path, events, DELAYS).await
}

/// Watches the directory of Envoy resources `dir`, like [`watch_manifests`].
pub async fn watch_resources(dir: PathBuf, events: Sender<Event>) -> Result<(), SourceError> {
    watch::<Resource>(dir, events, DELAYS).await
}

/// Runs on a separate thread, because reading files blocks. The thread ends when this future is dropped.
async fn watch<C: DirectoryItem>(dir: PathBuf, events: Sender<Event>, delays: Delays) -> Result<(), SourceError> {
    let (inbox, messages) = channel();
    let _stop = Stop(inbox.clone());
    let (done, ended) = tokio::sync::oneshot::channel();
    let thread = std::thread::Builder::new().name("directory".into());
    let spawned = thread.spawn(move || {
        // A failure means that there is no receiver.
        let _ = done.send(run::<C>(dir, inbox, messages, &events, delays));
    });
    if spawned.is_err() {
        return Err(SourceError::Ended("directory"));
    }
    ended.await.unwrap_or(Err(SourceError::Ended("directory")))
}

enum Message {
    Changed(notify::Result<notify::Event>),
    Stop,
}

struct Stop(StdSender<Message>);

impl Drop for Stop {
    fn drop(&mut self) {
        let _ = self.0.send(Message::Stop);
    }
}

fn run<C: DirectoryItem>(
    dir: PathBuf,
    inbox: StdSender<Message>,
    messages: Receiver<Message>,
    events: &Sender<Event>,
    delays: Delays,
) -> Result<(), SourceError> {
    let watcher = notify::recommended_watcher(move |event| {
        let _ = inbox.send(Message::Changed(event));
    })
    .map_err(|error| SourceError::Watch { path: dir.clone(), error })?;
    let is_standard_input = dir.as_os_str() == STANDARD_INPUT;
    let mut directory = Directory::<C> {
        disk: Disk::new(dir, watcher),
        tree: Tree::default(),
        due: BTreeMap::new(),
        scan_at: None,
        lost: false,
        outbox: Vec::new(),
        listed: false,
        delays,
    };
    match is_standard_input {
        true => directory.read_standard_input(),
        false => directory.scan()?,
    }
    directory.outbox.extend(C::listed(directory.tree.all()));
    directory.listed = true;
    loop {
        let mut news = std::mem::take(&mut directory.outbox);
        let news = if news.len() > 1 { Some(Event::Together(news)) } else { news.pop() };
        if news.is_some_and(|news| events.blocking_send(news).is_err()) {
            return Ok(());
        }
        let next = directory.due.values().copied().chain(directory.scan_at).min();
        let mut message = match next {
            Some(at) => match messages.recv_timeout(at.saturating_duration_since(Instant::now())) {
                Ok(message) => Some(message),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            },
            None => match messages.recv() {
                Ok(message) => Some(message),
                Err(_) => return Ok(()),
            },
        };
        // A burst of inotify events is processed together.
        while let Some(received) = message {
            match received {
                Message::Changed(event) => directory.record(event),
                Message::Stop => return Ok(()),
            }
            message = messages.try_recv().ok();
        }
        directory.process_due();
    }
}

struct Directory<C: DirectoryItem> {
    disk: Disk,
    tree: Tree<C>,
    /// The time at which each changed file is read.
    due: BTreeMap<PathBuf, Instant>,
    /// The time at which the complete directory is scanned.
    scan_at: Option<Instant>,
    /// Whether the directory itself is missing.
    lost: bool,
    outbox: Vec<Event>,
    /// Whether the first read is complete. Changes are sent from then on.
    listed: bool,
    delays: Delays,
}

impl<C: DirectoryItem> Directory<C> {
    /// Schedules the reads that an inotify event requires.
    fn record(&mut self, event: notify::Result<notify::Event>) {
        let now = Instant::now();
        let event = match event {
            Ok(event) => event,
            Err(error) => {
                tracing::warn!(%error, "the watch of a directory failed; the directory is read again");
                self.scan_at = Some(now);
                return;
            }
        };
        if event.need_rescan() {
            self.scan_at = Some(now);
        }
        for path in &event.paths {
            let is_file = self.disk.is_relevant(path);
            match event.kind {
                EventKind::Access(AccessKind::Close(AccessMode::Write)) if is_file => self.set_due(path, now),
                EventKind::Access(_) | EventKind::Modify(ModifyKind::Name(RenameMode::Both)) => {}
                EventKind::Create(CreateKind::Folder) => self.scan_at = Some(now),
                // A new link is complete immediately; a new file is still to be written.
                EventKind::Create(_) if is_file && disk::is_link(path) => self.set_due(path, now),
                EventKind::Create(_) | EventKind::Modify(ModifyKind::Data(_)) if is_file => {
                    self.set_due(path, now + self.delays.held_open);
                }
                EventKind::Create(_) | EventKind::Modify(ModifyKind::Data(_)) => {}
                EventKind::Modify(ModifyKind::Metadata(_)) => {
                    if is_file && !self.due.contains_key(path) {
                        self.set_due(path, now);
                    }
                }
                EventKind::Modify(ModifyKind::Name(RenameMode::From)) | EventKind::Remove(_) => {
                    if self.disk.unwatch(path) {
                        self.scan_at = Some(now);
                    } else if is_file {
                        self.set_due(path, now + self.delays.gone);
                    }
                }
                EventKind::Modify(ModifyKind::Name(_)) if is_file => self.set_due(path, now),
                // A directory that was moved in, or the link with which a mounted ConfigMap is swapped.
                _ => self.scan_at = Some(now),
            }
        }
    }

    fn set_due(&mut self, path: &Path, at: Instant) {
        self.due.insert(path.to_path_buf(), at);
    }

    /// Performs all due reads and scans.
    fn process_due(&mut self) {
        let now = Instant::now();
        if self.scan_at.is_some_and(|at| at <= now) {
            self.scan_at = None;
            let root = ObjectRef::new(FILE, "", ".");
            match self.scan() {
                Ok(()) if self.lost => {
                    self.lost = false;
                    self.outbox.push(Event::Healed(root));
                }
                Ok(()) => {}
                Err(error) => {
                    self.scan_at = Some(now + MISSING_INTERVAL);
                    if !self.lost {
                        self.lost = true;
                        let message = format!("{error}; its previous content stays");
                        self.outbox.push(Event::Fault { origin: root, message, retry: None, repeated: false });
                    }
                }
            }
        }
        if self.lost {
            return;
        }
        let due: Vec<PathBuf> = self.due.iter().filter(|(_, at)| **at <= now).map(|(path, _)| path.clone()).collect();
        for path in due {
            self.due.remove(&path);
            self.read(&path);
        }
    }

    /// Scans the complete directory: reads new and changed files, and marks missing ones.
    fn scan(&mut self) -> Result<(), SourceError> {
        let found = self.disk.scan()?;
        for path in found.changed {
            if !self.due.contains_key(&path) {
                self.read(&path);
            }
        }
        let gone: Vec<PathBuf> =
            self.tree.files().map(|name| self.disk.path(name)).filter(|path| !found.all.contains(path)).collect();
        for path in gone {
            self.due.entry(path).or_insert_with(|| Instant::now() + self.delays.gone);
        }
        Ok(())
    }

    /// Reads standard input to its end.
    fn read_standard_input(&mut self) {
        let text = std::io::read_to_string(std::io::stdin());
        let content =
            text.map_or_else(|error| FileState::Unreadable(format!("cannot be read: {error}")), FileState::Text);
        self.apply(STANDARD_INPUT.into(), content);
    }

    /// Reads a file again.
    fn read(&mut self, path: &Path) {
        let content = self.disk.read(path);
        self.apply(self.disk.name(path), content);
    }

    /// Applies the content of the file `name`.
    fn apply(&mut self, name: Arc<str>, content: FileState) {
        let difference = match content {
            FileState::Unchanged => return,
            FileState::Gone => self.tree.remove(&name),
            FileState::Text(text) => self.tree.set(&name, C::parse(&name, &text)),
            FileState::Unreadable(why) => {
                let fault = Unreadable { message: why, key: None };
                self.tree.set(&name, Parsed { items: Vec::new(), faults: vec![fault] })
            }
        };
        let Difference { applied, removed, faults } = difference;
        for (path, faults) in faults {
            let origin = ObjectRef::new(FILE, "", &path);
            if faults.is_empty() {
                self.outbox.push(Event::Healed(origin));
                continue;
            }
            let more = faults.len().checked_sub(MAX_FAULTS).filter(|more| *more > 0);
            let more = more.map(|more| format!("{more} more faults are not listed"));
            let faults = faults.into_iter().take(MAX_FAULTS).chain(more);
            self.outbox.extend(faults.map(|message| Event::Fault {
                origin: origin.clone(),
                message,
                retry: None,
                repeated: false,
            }));
        }
        if self.listed {
            self.outbox.extend(C::changed(applied, removed));
        }
    }
}

#[cfg(test)]
mod tests;

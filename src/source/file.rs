//! A watched file, and its content after each change.
//!
//! The file may be written in place, replaced by a rename, or belong to a mounted ConfigMap, where a link beside it is
//! swapped. A check every two seconds finds changes that inotify does not report (network file systems, links out of
//! the directory).

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, EventKind, ModifyKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc::{self, Sender};
use tokio::time::Instant;

use super::SourceError;

/// The time without writes after which a file is read although its writer has not closed it.
const HELD_OPEN: Duration = Duration::from_secs(1);

/// The time for which a file may be missing, because some editors move the old one away before they write the new one.
const GONE: Duration = Duration::from_millis(200);

/// The interval of checks without an event.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// The content of a file, or the reason why it cannot be read: lower case, no full stop.
pub type FileContent = Result<String, String>;

/// Reads the file `path`.
pub fn read(path: &Path) -> FileContent {
    match fs::read(path) {
        Ok(bytes) => String::from_utf8(bytes).map_err(|error| {
            let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
            format!("line {line}: not UTF-8")
        }),
        Err(error) if error.kind() == ErrorKind::NotFound => Err("there is no such file".to_owned()),
        Err(error) => Err(format!("cannot be read: {error}")),
    }
}

/// Sends the content of the file `path` each time that it differs from `last`. Ends only if it cannot start, or when
/// there is no receiver. `path` is absolute.
pub async fn watch(path: PathBuf, last: FileContent, changes: Sender<FileContent>) -> Result<(), SourceError> {
    let directory = path.parent().unwrap_or(Path::new("/")).to_owned();
    let (inbox, mut events) = mpsc::unbounded_channel();
    let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        let _ = inbox.send(event);
    })
    .map_err(|error| SourceError::Watch { path: directory.clone(), error })?;
    let mut file = File { path, directory, watcher, watched: None, stamp: None, checked: None, last };
    file.check();
    // The file may have changed before it was watched.
    let mut due = Some(Instant::now());
    let mut look = tokio::time::interval(POLL_INTERVAL);
    loop {
        let at = due.unwrap_or_else(|| Instant::now() + POLL_INTERVAL);
        tokio::select! {
            event = events.recv() => match event {
                Some(Ok(event)) => due = file.due(&event, due),
                // Events were lost.
                Some(Err(_)) => due = due.or(Some(Instant::now())),
                None => return Err(SourceError::Ended("file")),
            },
            () = tokio::time::sleep_until(at), if due.is_some() => {
                due = None;
                if let Some(content) = file.changed()
                    && changes.send(content).await.is_err()
                {
                    return Ok(());
                }
            }
            _ = look.tick() => {
                if file.check() {
                    due = due.or(Some(Instant::now()));
                }
                if changes.is_closed() {
                    return Ok(());
                }
            }
        }
    }
}

/// The attributes that indicate a change of a file: device, inode, size, and modification time.
type Stamp = (u64, u64, u64, i64, i64);

struct File {
    path: PathBuf,
    directory: PathBuf,
    watcher: RecommendedWatcher,
    /// Device and inode of the watched directory.
    watched: Option<(u64, u64)>,
    /// The attributes at the last read.
    stamp: Option<Stamp>,
    /// The attributes at the last check.
    checked: Option<Stamp>,
    last: FileContent,
}

impl File {
    /// Returns the time to read the file after `event`. `due` is the time that was scheduled before.
    fn due(&self, event: &notify::Event, due: Option<Instant>) -> Option<Instant> {
        let now = Instant::now();
        let own = event.paths.contains(&self.path);
        match event.kind {
            EventKind::Access(AccessKind::Close(AccessMode::Write)) if own => Some(now),
            EventKind::Access(_) => due,
            EventKind::Create(_) | EventKind::Modify(ModifyKind::Data(_)) if own => Some(now + HELD_OPEN),
            EventKind::Remove(_) if own => Some(now + GONE),
            EventKind::Modify(ModifyKind::Name(_)) if own => {
                Some(now + if self.path.exists() { Duration::ZERO } else { GONE })
            }
            // The link with which a mounted ConfigMap is swapped, or the directory itself.
            _ => due.or(Some(now)),
        }
    }

    /// Returns the content of the file if it has changed.
    fn changed(&mut self) -> Option<FileContent> {
        self.stamp = stamp(&self.path);
        let content = read(&self.path);
        if content == self.last {
            return None;
        }
        self.last = content.clone();
        Some(content)
    }

    /// Watches the directory if it was replaced. Returns whether the file differs from its last read, and has not
    /// changed since the last check, so that no process is writing it.
    fn check(&mut self) -> bool {
        let directory = fs::metadata(&self.directory).ok().map(|metadata| (metadata.dev(), metadata.ino()));
        if directory.is_some() && directory != self.watched {
            let _ = self.watcher.unwatch(&self.directory);
            self.watched = match self.watcher.watch(&self.directory, RecursiveMode::NonRecursive) {
                Ok(()) => directory,
                // The periodic check is sufficient.
                Err(_) => None,
            };
        }
        let now = stamp(&self.path);
        let still = now == self.checked;
        self.checked = now;
        still && now != self.stamp
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino(), metadata.size(), metadata.mtime(), metadata.mtime_nsec()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use std::os::unix::fs::symlink;

    use super::*;

    struct Watched {
        directory: tempfile::TempDir,
        changes: mpsc::Receiver<FileContent>,
    }

    /// Watches `settings.yaml` in a directory that `prepare` has filled.
    fn watched(prepare: impl FnOnce(&Path)) -> Watched {
        let directory = tempfile::tempdir().unwrap();
        prepare(directory.path());
        let path = directory.path().join("settings.yaml");
        let (sender, changes) = mpsc::channel(10);
        let last = read(&path);
        tokio::spawn(watch(path, last, sender));
        Watched { directory, changes }
    }

    impl Watched {
        fn path(&self, name: &str) -> PathBuf {
            self.directory.path().join(name)
        }

        async fn next(&mut self) -> FileContent {
            tokio::time::timeout(Duration::from_secs(20), self.changes.recv()).await.unwrap().unwrap()
        }
    }

    #[tokio::test]
    async fn a_file_is_read_when_its_writer_closes_it_and_when_it_is_replaced() {
        let mut file = watched(|directory| fs::write(directory.join("settings.yaml"), "a").unwrap());
        fs::write(file.path("settings.yaml"), "b").unwrap();
        assert_eq!(file.next().await, Ok("b".to_owned()));
        fs::write(file.path("new"), "c").unwrap();
        fs::rename(file.path("new"), file.path("settings.yaml")).unwrap();
        assert_eq!(file.next().await, Ok("c".to_owned()));
        fs::remove_file(file.path("settings.yaml")).unwrap();
        assert_eq!(file.next().await, Err("there is no such file".to_owned()));
        fs::write(file.path("settings.yaml"), [b'\n', 0xff]).unwrap();
        let mut last = file.next().await;
        // An empty file may have been read between its creation and the write.
        while last.is_ok() {
            last = file.next().await;
        }
        assert_eq!(last, Err("line 2: not UTF-8".to_owned()));
    }

    #[tokio::test]
    async fn a_mounted_config_map_is_swapped_by_a_link() {
        let mut file = watched(|directory| {
            for (version, text) in [("..1", "a"), ("..2", "b")] {
                fs::create_dir(directory.join(version)).unwrap();
                fs::write(directory.join(version).join("settings.yaml"), text).unwrap();
            }
            symlink("..1", directory.join("..data")).unwrap();
            symlink("..data/settings.yaml", directory.join("settings.yaml")).unwrap();
        });
        symlink("..2", file.path("..data_tmp")).unwrap();
        fs::rename(file.path("..data_tmp"), file.path("..data")).unwrap();
        assert_eq!(file.next().await, Ok("b".to_owned()));
    }

    #[tokio::test]
    async fn a_link_out_of_the_directory_is_looked_at() {
        let elsewhere = tempfile::tempdir().unwrap();
        let target = elsewhere.path().join("target");
        fs::write(&target, "a").unwrap();
        let mut file = watched(|directory| symlink(&target, directory.join("settings.yaml")).unwrap());
        fs::write(&target, "changed").unwrap();
        assert_eq!(file.next().await, Ok("changed".to_owned()));
    }
}

//! The files of a directory: their names, their contents, and the watched directories.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Error, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use notify::{RecommendedWatcher, RecursiveMode, Watcher};

use crate::source::SourceError;

/// The state of a file when it is read.
pub enum FileState {
    /// Unchanged since the last read.
    Unchanged,
    /// This text.
    Text(String),
    /// The file does not exist.
    Gone,
    /// The file exists but cannot be read, for this reason.
    Unreadable(String),
}

/// The result of a scan.
pub struct Scan {
    /// All files, sorted.
    pub all: BTreeSet<PathBuf>,
    /// New files and files that differ from their last read, sorted.
    pub changed: Vec<PathBuf>,
}

/// The directory.
pub struct Disk {
    root: PathBuf,
    /// The only file of the directory that is read, if the source is a file.
    only: Option<PathBuf>,
    watcher: RecommendedWatcher,
    watched: BTreeSet<PathBuf>,
    seen: BTreeMap<PathBuf, Seen>,
}

/// The attributes that indicate a change of a file: device, inode, size, and modification time; and a hash of its
/// content.
struct Seen {
    stamp: (u64, u64, u64, i64, i64),
    hash: u64,
}

fn stamp(metadata: &fs::Metadata) -> (u64, u64, u64, i64, i64) {
    (metadata.dev(), metadata.ino(), metadata.size(), metadata.mtime(), metadata.mtime_nsec())
}

/// Returns whether `path` is a symbolic link or an additional name of a file.
pub fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink() || metadata.nlink() > 1)
}

/// Returns whether a file is read, by its path relative to the directory: neither it nor a directory above it is hidden.
fn is_eligible(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    let hidden = |path: &Path| path.components().any(|part| part.as_os_str().to_string_lossy().starts_with('.'));
    matches!(extension, Some("yaml" | "yml" | "json")) && !hidden(path) && !path.to_string_lossy().contains('\u{fffd}')
}

/// Returns the files that a directory source reads in `root`, sorted, without a watch, and the directories that cannot be read.
pub fn files(root: &Path) -> (Vec<PathBuf>, Vec<(PathBuf, Error)>) {
    let (mut files, mut unreadable, mut directories) = (Vec::new(), Vec::new(), vec![root.to_path_buf()]);
    while let Some(directory) = directories.pop() {
        let entries = match fs::read_dir(&directory).and_then(Iterator::collect::<Result<Vec<_>, _>>) {
            Ok(entries) => entries,
            Err(error) => {
                unreadable.push((directory, error));
                continue;
            }
        };
        for entry in entries {
            let path = entry.path();
            if entry.file_type().is_ok_and(|file_type| file_type.is_dir()) {
                if !entry.file_name().to_string_lossy().starts_with('.') {
                    directories.push(path);
                }
            } else if path.strip_prefix(root).is_ok_and(is_eligible) {
                files.push(path);
            }
        }
    }
    files.sort();
    unreadable.sort_by(|(one, _), (other, _)| one.cmp(other));
    (files, unreadable)
}

impl Disk {
    /// Creates the state of the directory or the file `path`. `watcher` watches its directories. The directory of a file is
    /// watched, because editors replace files.
    pub fn new(path: PathBuf, watcher: RecommendedWatcher) -> Self {
        let above = path.parent().filter(|_| path.is_file()).map(Path::to_path_buf);
        let (root, only) = match above {
            Some(above) => (above, Some(path)),
            None => (path, None),
        };
        Self { root, only, watcher, watched: BTreeSet::new(), seen: BTreeMap::new() }
    }

    /// Returns the name of the file `path`, relative to the directory.
    pub fn name(&self, path: &Path) -> Arc<str> {
        path.strip_prefix(&self.root).unwrap_or(path).to_string_lossy().into()
    }

    /// Returns the path of the file `name`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Returns whether `path` is the only file, or its name is eligible: neither it nor a directory above it is hidden.
    pub fn is_relevant(&self, path: &Path) -> bool {
        if let Some(only) = &self.only {
            return path == only;
        }
        path.strip_prefix(&self.root).is_ok_and(is_eligible)
    }

    /// Ends the watch of the directory `path`, which no longer exists there. Returns whether it was watched.
    pub fn unwatch(&mut self, path: &Path) -> bool {
        let watched = self.watched.remove(path);
        if watched {
            // It fails if the system has already ended the watch.
            let _ = self.watcher.unwatch(path);
        }
        watched
    }

    /// Scans the directory and its subdirectories, and watches each of them before its files are read. The error states
    /// that the directory itself cannot be read or watched.
    pub fn scan(&mut self) -> Result<Scan, SourceError> {
        let mut found = Scan { all: BTreeSet::new(), changed: Vec::new() };
        let mut directories = vec![self.root.clone()];
        while let Some(directory) = directories.pop() {
            let is_root = directory == self.root;
            match self.scan_one(&directory, &mut directories, &mut found) {
                Err(error) if is_root => {
                    self.unwatch(&directory);
                    return Err(error);
                }
                // The subdirectory existed a moment ago, so another event follows.
                Err(error) => tracing::warn!(%error, "a subdirectory cannot be read"),
                Ok(()) => {}
            }
        }
        let differs = |path: &&PathBuf| match (self.seen.get(*path), fs::metadata(path)) {
            (Some(seen), Ok(metadata)) => seen.stamp != stamp(&metadata),
            _ => true,
        };
        found.changed = found.all.iter().filter(differs).cloned().collect();
        Ok(found)
    }

    fn scan_one(
        &mut self,
        directory: &Path,
        directories: &mut Vec<PathBuf>,
        found: &mut Scan,
    ) -> Result<(), SourceError> {
        let unreadable = |error: Error| SourceError::Directory { path: directory.to_path_buf(), error };
        // This check comes first, because the error of the system is clearer than the error of the watcher.
        fs::read_dir(directory).map_err(unreadable)?;
        if !self.watched.contains(directory) {
            self.watcher
                .watch(directory, RecursiveMode::NonRecursive)
                .map_err(|error| SourceError::Watch { path: directory.to_path_buf(), error })?;
            self.watched.insert(directory.to_path_buf());
        }
        for entry in fs::read_dir(directory).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let path = entry.path();
            if entry.file_type().is_ok_and(|file_type| file_type.is_dir()) {
                if self.only.is_none() && !entry.file_name().to_string_lossy().starts_with('.') {
                    directories.push(path);
                }
            } else if self.is_relevant(&path) {
                found.all.insert(path);
            }
        }
        Ok(())
    }

    /// Reads the file `path`.
    pub fn read(&mut self, path: &Path) -> FileState {
        let read = || -> Result<(fs::Metadata, Vec<u8>), Error> {
            let metadata = fs::metadata(path)?;
            if !metadata.is_file() {
                return Err(Error::new(ErrorKind::NotFound, "not a file"));
            }
            Ok((metadata, fs::read(path)?))
        };
        match read() {
            Ok((metadata, bytes)) => {
                let hash = xxhash_rust::xxh3::xxh3_64(&bytes);
                let before = self.seen.insert(path.to_path_buf(), Seen { stamp: stamp(&metadata), hash });
                if before.is_some_and(|before| before.hash == hash) {
                    return FileState::Unchanged;
                }
                match String::from_utf8(bytes) {
                    Ok(text) => FileState::Text(text),
                    Err(error) => {
                        let at = error.utf8_error().valid_up_to();
                        let line = error.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
                        FileState::Unreadable(format!("line {line}: not UTF-8"))
                    }
                }
            }
            Err(error) => {
                self.seen.remove(path);
                match error.kind() {
                    ErrorKind::NotFound => FileState::Gone,
                    _ => FileState::Unreadable(format!("cannot be read: {error}")),
                }
            }
        }
    }
}

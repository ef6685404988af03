//! The export directory. Readers always see complete files. Files with unchanged content are not written.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

/// The temporary name of a file that is being written. There is one writer at a time, so one name is sufficient.
const DRAFT: &str = ".lockgate.draft";
/// The lock file of the process that writes to the directory.
const LOCK: &str = ".lockgate.lock";

/// Modes of files for the owner only, and of files for all users.
const SECRET_MODE: u32 = 0o600;
const PUBLIC_MODE: u32 = 0o644;

/// The reason why a directory cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// The system reports an error.
    #[error("cannot {action} {}: {error}", path.display())]
    Io {
        /// The failed operation.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
    /// Another process writes to the directory. Two writers would overwrite each other's files.
    #[error("{}: another lockgate export writes there", .0.display())]
    Taken(PathBuf),
    /// A resource cannot be encoded in this format.
    #[error("{file}: cannot be written in this format: {error}")]
    Format {
        /// The file.
        file: String,
        /// The reason.
        error: String,
    },
}

/// A directory with exported files.
#[derive(Debug)]
pub(super) struct Disk {
    path: PathBuf,
    directory: File,
    /// Hash of the content of each file.
    files: BTreeMap<String, u64>,
    _lock: File,
}

impl Disk {
    /// Opens the directory at `path`, and creates it if it does not exist.
    ///
    /// # Errors
    ///
    /// If it cannot be created or opened, or if another process writes to it.
    pub fn open(path: &Path) -> Result<Self, DiskError> {
        fs::create_dir_all(path).map_err(failed("make", path))?;
        let directory = File::open(path).map_err(failed("open", path))?;
        let lock = path.join(LOCK);
        let options = OpenOptions::new().create(true).append(true).mode(SECRET_MODE).open(&lock);
        let lock_file = options.map_err(failed("open", &lock))?;
        match lock_file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Err(DiskError::Taken(path.to_owned())),
            Err(fs::TryLockError::Error(error)) => return Err(failed("lock", &lock)(error)),
        }
        // A process that was killed during a write leaves a draft, which may contain private keys.
        remove_draft(&path.join(DRAFT))?;
        Ok(Self { path: path.to_owned(), directory, files: BTreeMap::new(), _lock: lock_file })
    }

    /// Reads and remembers the files whose names satisfy `ours`. Returns their names and contents.
    ///
    /// # Errors
    ///
    /// If the directory or a file cannot be read.
    pub fn read(&mut self, ours: impl Fn(&str) -> bool) -> Result<Vec<(String, Vec<u8>)>, DiskError> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(failed("list", &self.path))? {
            let entry = entry.map_err(failed("list", &self.path))?;
            names.extend(entry.file_name().into_string().ok().filter(|name| ours(name)));
        }
        names.sort();
        let mut files = Vec::new();
        for name in names {
            let path = self.path.join(&name);
            let content = fs::read(&path).map_err(failed("read", &path))?;
            self.files.insert(name.clone(), xxh3_64(&content));
            files.push((name, content));
        }
        Ok(files)
    }

    /// Replaces the content of the file `name` atomically. Returns whether the content has changed.
    ///
    /// # Errors
    ///
    /// If it cannot be written. The file is then unchanged, and its draft is removed.
    pub fn write(&mut self, name: &str, content: &[u8], secret: bool) -> Result<bool, DiskError> {
        let hash = xxh3_64(content);
        if self.files.get(name) == Some(&hash) {
            return Ok(false);
        }
        let (draft, path) = (self.path.join(DRAFT), self.path.join(name));
        remove_draft(&draft)?;
        let mode = if secret { SECRET_MODE } else { PUBLIC_MODE };
        let written = write_draft(&draft, content, mode)
            .map_err(failed("write", &draft))
            .and_then(|()| fs::rename(&draft, &path).map_err(failed("rename a file to", &path)));
        if let Err(error) = written {
            // The first error is reported. The next write removes a draft that cannot be removed now.
            let _ = remove_draft(&draft);
            return Err(error);
        }
        self.files.insert(name.to_owned(), hash);
        Ok(true)
    }

    /// Removes the file `name`. Returns whether it existed.
    ///
    /// # Errors
    ///
    /// If it cannot be removed.
    pub fn remove(&mut self, name: &str) -> Result<bool, DiskError> {
        let path = self.path.join(name);
        let removed = match fs::remove_file(&path) {
            Ok(()) => true,
            Err(error) if error.kind() == ErrorKind::NotFound => false,
            Err(error) => return Err(failed("remove", &path)(error)),
        };
        self.files.remove(name);
        Ok(removed)
    }

    /// Flushes the names to disk. No later write can become visible without the earlier ones.
    ///
    /// # Errors
    ///
    /// If the system reports an error.
    pub fn sync(&self) -> Result<(), DiskError> {
        self.directory.sync_all().map_err(failed("sync", &self.path))
    }

    /// Returns the path of the file `name`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

/// Writes and flushes a draft before it is renamed. Otherwise, a machine that loses power could restart with an empty
/// file.
fn write_draft(draft: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().create_new(true).write(true).mode(mode).open(draft)?;
    file.write_all(content)?;
    file.sync_all()
}

/// Removes a draft if it exists.
fn remove_draft(draft: &Path) -> Result<(), DiskError> {
    match fs::remove_file(draft) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(failed("remove", draft)(error)),
        _ => Ok(()),
    }
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> DiskError {
    let path = path.to_owned();
    move |error| DiskError::Io { action, path, error }
}

//! The files to check.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::check::Manifests;
use crate::source::{directory, file};

/// The minimum size of files that the command announces, because they take seconds.
const ANNOUNCED_SIZE: u64 = 16 << 20;

/// The read manifests.
pub struct Input {
    /// The manifests.
    pub manifests: Manifests,
    /// Whether a file cannot be read.
    pub is_partial: bool,
}

/// Reads files, directories, and standard input (`-`). An unreadable file is a finding, and does not affect other files.
///
/// Errors: a path that does not exist, or a directory without manifests.
pub fn read(paths: &[PathBuf]) -> anyhow::Result<Input> {
    let mut input = Input { manifests: Manifests::default(), is_partial: false };
    for path in paths {
        let name = path.display().to_string();
        if name == "-" {
            let mut bytes = Vec::new();
            io::stdin().lock().read_to_end(&mut bytes).context("cannot read standard input")?;
            input.add(&name, String::from_utf8(bytes).map_err(|_| "not UTF-8".to_owned()));
        } else if path.is_dir() {
            let files = directory::files(path)?;
            if files.is_empty() {
                bail!("{name}: the directory has no *.yaml, *.yml, or *.json files");
            }
            files.iter().for_each(|file| input.file(file));
        } else if path.try_exists().with_context(|| name.clone())? {
            input.file(path);
        } else {
            bail!("{name}: there is no such file or directory");
        }
    }
    Ok(input)
}

impl Input {
    fn file(&mut self, path: &Path) {
        let name = path.display().to_string();
        let size = path.metadata().map_or(0, |metadata| metadata.len());
        if size >= ANNOUNCED_SIZE {
            let _ = writeln!(io::stderr(), "reading {name}: {} MiB", size >> 20);
        }
        self.add(&name, file::read(path));
    }

    fn add(&mut self, name: &str, content: Result<String, String>) {
        match content {
            Ok(text) => self.manifests.add(name, text),
            Err(why) => {
                self.is_partial = true;
                self.manifests.add_unreadable(name, why);
            }
        }
    }
}

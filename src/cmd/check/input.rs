//! The files to check.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::super::progress::Progress;
use crate::check::Manifests;
use crate::source::{directory, file};

/// The read manifests.
pub struct Input {
    /// The manifests.
    pub manifests: Manifests,
    /// Whether a file cannot be read.
    pub is_partial: bool,
}

/// Reads files, directories, and standard input (`-`). `namespace` is the namespace of objects without one. An unreadable file or directory is a finding, and does not affect others.
///
/// Errors: a path that does not exist, or a directory without manifests.
pub fn read<'a>(
    paths: impl IntoIterator<Item = &'a PathBuf>,
    namespace: Option<&str>,
    progress: &Progress,
) -> anyhow::Result<Input> {
    let manifests = Manifests::in_namespace(namespace.map(str::to_owned));
    let mut input = Input { manifests, is_partial: false };
    for path in paths {
        let name = path.display().to_string();
        if name == "-" {
            progress.step("reading standard input");
            let mut bytes = Vec::new();
            io::stdin().lock().read_to_end(&mut bytes).context("cannot read standard input")?;
            // The command before the pipe has probably failed.
            if bytes.trim_ascii().is_empty() {
                bail!("standard input is empty; expected Kubernetes YAML or JSON");
            }
            input.add(&name, String::from_utf8(bytes).map_err(|_| "not UTF-8".to_owned()));
        } else if path.is_dir() {
            let (files, unreadable) = directory::files(path);
            if files.is_empty() && unreadable.is_empty() {
                bail!("{name}: the directory has no *.yaml, *.yml, or *.json files");
            }
            for (directory, error) in unreadable {
                input.add(&directory.display().to_string(), Err(format!("the directory cannot be read: {error}")));
            }
            for (index, file) in files.iter().enumerate() {
                progress.step(format!("reading file {} of {}: {}", index + 1, files.len(), file.display()));
                input.file(file);
            }
        } else if path.try_exists().with_context(|| name.clone())? {
            progress.step(format!("reading {name}"));
            input.file(path);
        } else if name.contains("://") {
            bail!("{name}: URLs are not read; pipe the content to lockgate, with `-` as the argument");
        } else {
            bail!("{name}: there is no such file or directory");
        }
    }
    Ok(input)
}

impl Input {
    fn file(&mut self, path: &Path) {
        self.add(&path.display().to_string(), file::read(path));
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

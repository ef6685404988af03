//! The program `lockgate export`.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::lockgate::{binary, run};
use crate::process::Process;
use crate::{Source, ports, wait_until};

/// A directory of files, and the program that maintains it.
pub struct Export {
    process: Process,
    args: Vec<String>,
    files: tempfile::TempDir,
    log: tempfile::TempDir,
    flags: Vec<String>,
    /// The port of Envoy's plain HTTP listener.
    pub http: u16,
    /// The port of Envoy's TLS listener.
    pub https: u16,
}

impl Export {
    /// Starts the program, and waits until the files are complete.
    pub async fn start(source: &Source, flags: &[&str]) -> Self {
        let mut export = Self::launch(source, flags);
        export.wait_complete().await;
        export
    }

    /// Starts the program.
    ///
    /// # Panics
    /// If it was not built.
    pub fn launch(source: &Source, flags: &[&str]) -> Self {
        let [files, log] = ["files-", "export-"]
            .map(|prefix| tempfile::Builder::new().prefix(prefix).tempdir().expect("a temporary directory"));
        let [http, https, stats] = [(); 3].map(|()| ports::free());
        let (flag, path) = match source {
            Source::Manifests(path) => ("--manifests", path),
            Source::Resources(path) => ("--resources", path),
            Source::Kubeconfig(path) => ("--kubeconfig", path),
        };
        let mut args = vec!["export".to_owned(), flag.into(), path.display().to_string()];
        args.extend(["--dir".to_owned(), files.path().display().to_string()]);
        for (flag, port) in [("--http-port", http), ("--https-port", https), ("--stats-port", stats)] {
            args.extend([flag.to_owned(), port.to_string()]);
        }
        let flags: Vec<String> = flags.iter().map(ToString::to_string).collect();
        args.extend(flags.clone());
        let process = Process::start("lockgate export", &binary(), &args, &log.path().join("log"));
        Self { process, args, files, log, flags, http, https }
    }

    /// Waits until the last file exists.
    pub async fn wait_complete(&mut self) {
        let (files, process) = (self.files.path().to_owned(), &mut self.process);
        wait_until("the file of listeners", async || {
            process.assert_running();
            names(&files).iter().any(|name| name.starts_with("listeners."))
        })
        .await;
    }

    /// Kills the program.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts the program again with the same flags and log file.
    pub fn restart(&mut self) {
        self.process.kill();
        self.process = Process::start("lockgate export", &binary(), &self.args, &self.log.path().join("log"));
    }

    /// Returns the log.
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// Returns the directory of the files.
    pub fn path(&self) -> &Path {
        self.files.path()
    }

    /// Returns the path of a file.
    pub fn file(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    /// Returns the inode and modification time of each file, except hidden ones. Both change with each write.
    ///
    /// # Panics
    /// If the metadata of an existing file cannot be read.
    pub fn files(&self) -> BTreeMap<String, (u64, i64, i64)> {
        let look = |name: String| match std::fs::metadata(self.file(&name)) {
            Ok(data) => Some((name, (data.ino(), data.mtime(), data.mtime_nsec()))),
            // The export has removed it since the names were listed.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => panic!("{name}: {error}"),
        };
        names(self.files.path()).into_iter().filter_map(look).collect()
    }

    /// Replaces the content of a file, by a rename or in place.
    ///
    /// # Panics
    /// If that fails.
    pub fn overwrite(&self, name: &str, content: &str, rename: bool) {
        let draft = self.log.path().join("draft");
        let written = if rename { &draft } else { &self.file(name) };
        std::fs::write(written, content).expect("a file written");
        if rename {
            std::fs::rename(&draft, self.file(name)).expect("a file moved");
        }
    }

    /// Returns the output of `lockgate bootstrap` for an Envoy with the files at `directory`.
    pub fn bootstrap(&self, directory: &Path, admin: u16) -> String {
        let (directory, admin) = (directory.display().to_string(), format!("127.0.0.1:{admin}"));
        let mut args = vec!["bootstrap", "--mode", "files", "--dir", &directory, "--admin-address", &admin];
        for pair in self.flags.windows(2) {
            match pair[0].as_str() {
                "--format" => args.extend(["--file-format", &pair[1]]),
                "--reload" => args.extend(["--reload", &pair[1]]),
                _ => {}
            }
        }
        run(&args)
    }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).expect("the directory of the export");
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter(|name| !name.starts_with('.')).collect()
}

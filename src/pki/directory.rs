//! Certificates from a directory: custom files, or a mounted Secret of cert-manager.
//!
//! Kubernetes changes a mount by moving a link (`..data`). A user changes the files one by one. The directory is therefore read
//! when the changes have ended.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecursiveMode, Watcher};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::channel::send_if_changed;

use super::{AUTHORITIES, CERTIFICATE, KEY, Material};

/// The time without changes after which a changed directory is read.
const QUIET: Duration = Duration::from_millis(100);
/// The maximum time for which continuous changes delay a read.
const RESTLESS: Duration = Duration::from_secs(2);
/// The interval of reads without changes. Links may lead to files in other directories, which are not watched.
const ANYWAY: Duration = Duration::from_secs(60);

/// Whether authorities are required.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// Authorities are required.
    Needed,
    /// Authorities are optional.
    IfAny,
}

/// Reads the files of `directory`.
///
/// # Errors
///
/// The file that cannot be read, and the reason.
pub async fn read(directory: &Path, trust: Trust) -> Result<Material, String> {
    let read = async |name: &str| {
        let file = directory.join(name);
        match tokio::fs::read(&file).await {
            Err(error) if name == AUTHORITIES && trust == Trust::IfAny && error.kind() == io::ErrorKind::NotFound => {
                Ok(Vec::new())
            }
            read => read.map_err(|error| format!("{}: {error}", file.display())),
        }
    };
    Ok(Material { certificate: read(CERTIFICATE).await?, key: read(KEY).await?, authorities: read(AUTHORITIES).await? })
}

/// Sends the files of `directory` to `supply` whenever they change, until there is no receiver.
pub async fn follow(directory: PathBuf, trust: Trust, supply: watch::Sender<Option<Result<Material, String>>>) {
    let (changed, mut changes) = mpsc::channel(1);
    let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        let read = |kind: &EventKind| match kind {
            EventKind::Access(access) => *access != AccessKind::Close(AccessMode::Write),
            _ => false,
        };
        // Reads are not changes. If a change is already waiting, further changes are dropped.
        if !event.is_ok_and(|event| read(&event.kind)) {
            let _ = changed.try_send(());
        }
    });
    let mut watcher = watcher.inspect_err(|error| cannot_watch(&directory, error)).ok();
    let mut watched = true;
    loop {
        // The watch is renewed each time, because another directory may have this name now.
        if let Some(watcher) = &mut watcher {
            let result = watcher.watch(&directory, RecursiveMode::NonRecursive);
            if let (Err(error), true) = (&result, watched) {
                cannot_watch(&directory, error);
            }
            watched = result.is_ok();
        }
        let current = Some(read(&directory, trust).await);
        send_if_changed(&supply, current);
        let regular = tokio::time::sleep(ANYWAY);
        tokio::select! {
            () = supply.closed() => return,
            () = regular => continue,
            Some(()) = changes.recv() => {}
        }
        let restless = Instant::now() + RESTLESS;
        while let Ok(Some(())) = tokio::time::timeout_at(restless.min(Instant::now() + QUIET), changes.recv()).await {}
    }
}

fn cannot_watch(directory: &Path, error: &notify::Error) {
    let (directory, every) = (directory.display(), ANYWAY.as_secs());
    tracing::warn!(%error, "cannot watch {directory} for new certificates; it is read every {every} s");
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    type Supplied = watch::Receiver<Option<Result<Material, String>>>;

    fn write(directory: &Path, content: &str) {
        for name in [CERTIFICATE, KEY, AUTHORITIES] {
            fs::write(directory.join(name), format!("{content} {name}")).unwrap();
        }
    }

    async fn supplied(supplied: &mut Supplied, content: &str) {
        let expected = format!("{content} {KEY}").into_bytes();
        let arrived =
            supplied.wait_for(|told| told.as_ref().is_some_and(|told| told.as_ref().is_ok_and(|m| m.key == expected)));
        tokio::time::timeout(Duration::from_secs(20), arrived).await.expect(content).unwrap();
    }

    fn start(directory: &Path) -> Supplied {
        let (supply, supplied) = watch::channel(None);
        tokio::spawn(follow(directory.to_owned(), Trust::Needed, supply));
        supplied
    }

    #[tokio::test]
    async fn files_can_change_one_by_one() {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), "first");
        let mut told = start(directory.path());
        supplied(&mut told, "first").await;
        for content in ["second", "third"] {
            write(directory.path(), content);
            supplied(&mut told, content).await;
        }
        fs::remove_file(directory.path().join(KEY)).unwrap();
        let lost = told.wait_for(|told| told.as_ref().is_some_and(Result::is_err)).await.unwrap().clone();
        assert!(lost.unwrap().unwrap_err().contains("tls.key: No such file"));
        write(directory.path(), "fourth");
        supplied(&mut told, "fourth").await;
    }

    #[tokio::test]
    async fn a_mounted_secret_can_change() {
        let mount = tempfile::tempdir().unwrap();
        let at = mount.path();
        let swap = |content: &str| {
            fs::create_dir(at.join(format!("..{content}"))).unwrap();
            write(&at.join(format!("..{content}")), content);
            symlink(format!("..{content}"), at.join("..data_tmp")).unwrap();
            fs::rename(at.join("..data_tmp"), at.join("..data")).unwrap();
        };
        swap("first");
        for name in [CERTIFICATE, KEY, AUTHORITIES] {
            symlink(format!("..data/{name}"), at.join(name)).unwrap();
        }
        let mut told = start(at);
        supplied(&mut told, "first").await;
        for content in ["second", "third"] {
            swap(content);
            supplied(&mut told, content).await;
        }
    }
}

//! A directory like the kubelet's mount of a ConfigMap or a Secret. All files change atomically through a symbolic
//! link.

use std::os::unix::fs::symlink;
use std::path::Path;

/// A mount.
pub struct Mount {
    directory: tempfile::TempDir,
    number: u32,
}

impl Mount {
    /// Creates a mount with these files.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn new(files: &[(&str, &str)]) -> Self {
        let directory = tempfile::Builder::new().prefix("mount-").tempdir().expect("a temporary directory");
        let mut mount = Self { directory, number: 0 };
        mount.swap(files);
        mount
    }

    /// Replaces all files.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn swap(&mut self, files: &[(&str, &str)]) {
        self.number += 1;
        let new = format!("..{}", self.number);
        let at = |name: &str| self.path().join(name);
        std::fs::create_dir(at(&new)).expect("a directory");
        for (name, content) in files {
            std::fs::write(at(&new).join(name), content).expect("a file written");
        }
        let old = std::fs::read_link(at("..data")).ok();
        symlink(&new, at("..data_tmp")).expect("a link");
        std::fs::rename(at("..data_tmp"), at("..data")).expect("a link moved");
        if let Some(old) = old {
            std::fs::remove_dir_all(self.path().join(old)).expect("the old directory removed");
        }
        for name in files.iter().map(|(name, _)| at(name)).filter(|name| !name.is_symlink()) {
            symlink(Path::new("..data").join(name.file_name().expect("a name")), &name).expect("a link");
        }
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the path as text.
    ///
    /// # Panics
    /// If it is not UTF-8.
    pub fn text(&self) -> &str {
        self.path().to_str().expect("a path in UTF-8")
    }
}

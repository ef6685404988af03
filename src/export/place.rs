//! The place where Envoy reads the files, and the method by which it detects changes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::google::protobuf as google;
use lockgate_xds::snapshot::ResourceType;

use super::FileFormat;
use super::layout::file_name;

/// The link of a mounted ConfigMap to its files. The links in the mount itself lead through this link. Links of new
/// files appear only after it has changed, when Envoy may already have read the list of files.
const CURRENT: &str = "..data";

/// The place where Envoy reads the files, and the method by which it detects changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvoyDirectory {
    /// The directory from Envoy's point of view.
    pub directory: PathBuf,
    /// The format of the files.
    pub format: FileFormat,
    /// The method by which Envoy detects changes.
    pub reload: Reload,
}

/// The method by which Envoy detects a changed file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reload {
    /// The file is renamed into its place.
    Rename,
    /// The directory is a mounted ConfigMap or Secret: the kubelet renames the link `CURRENT` to change all files.
    Directory,
    /// Envoy polls at this interval. Source: `PathConfigSource.poll_interval`, since Envoy 1.40.
    Poll(Duration),
}

impl EnvoyDirectory {
    /// Returns the path of a file from Envoy's point of view.
    pub fn path(&self, kind: ResourceType, name: &str) -> PathBuf {
        let file = file_name(kind, name, self.format);
        match self.reload {
            Reload::Directory => self.directory.join(CURRENT).join(file),
            Reload::Rename | Reload::Poll(_) => self.directory.join(file),
        }
    }

    /// Builds the reference to the file with the resource `name` of type `kind`.
    pub fn config_source(&self, kind: ResourceType, name: &str) -> core_v3::ConfigSource {
        let mut path = core_v3::PathConfigSource { path: text(&self.path(kind, name)), ..Default::default() };
        match self.reload {
            Reload::Rename => {}
            Reload::Directory => {
                let directory = text(&self.directory);
                path.watched_directory = Some(core_v3::WatchedDirectory { path: directory, ..Default::default() });
            }
            Reload::Poll(interval) => {
                path.poll_interval = Some(google::Duration {
                    seconds: i64::try_from(interval.as_secs()).unwrap_or(i64::MAX),
                    nanos: interval.subsec_nanos() as i32,
                });
            }
        }
        core_v3::ConfigSource {
            resource_api_version: core_v3::ApiVersion::V3 as i32,
            config_source_specifier: Some(core_v3::config_source::ConfigSourceSpecifier::PathConfigSource(path)),
            ..Default::default()
        }
    }
}

/// Converts a path to text for protobuf.
fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

//! Where objects come from: an API server or a directory of YAML; both give the same [`Event`]s.
//!
//! An object is cut down to what translation reads as it comes in ([`lockgate_route::objects`]).

pub mod cluster;
pub mod decode;
pub mod directory;
pub mod file;
pub mod kept;
pub mod kinds;
mod names;
pub mod resources;
pub mod secret;
pub mod yaml;

use std::path::PathBuf;

use lockgate_route::objects::{Kept, Kind, Object, ObjectKey};
use lockgate_route::settings::Settings;
use lockgate_xds::provenance::ObjectRef;
use lockgate_xds::snapshot::{Resource, ResourceType};
use thiserror::Error;

/// What a source tells the controller's loop. Sent in the order in which it happened; applied one by one.
#[derive(Debug)]
pub enum Event {
    /// All there is of one kind: the first list, or a list after a lost watch.
    Listed(Kind, Vec<Object>),
    /// One object is new or has changed.
    Applied(Object),
    /// One object is gone.
    Deleted(Kind, ObjectKey),
    /// All resources of a directory of resources, at its first reading.
    ResourcesListed(Vec<Resource>),
    /// What one file of resources holds now, and what it held before and no longer holds.
    ResourcesChanged {
        /// New or changed.
        applied: Vec<Resource>,
        /// Gone.
        removed: Vec<(ResourceType, std::sync::Arc<str>)>,
    },
    /// The source met a fault that its owner should read: a file that does not parse, a list that the API server
    /// refuses. What was there before stays.
    Fault {
        /// The file or kind that it is about.
        origin: ObjectRef,
        /// File, document, line and field where known; what is wrong; what was done instead.
        message: String,
    },
    /// An earlier fault of this origin is healed.
    Healed(ObjectRef),
    /// The last good content of Secrets that other replicas have, once they were asked.
    Kept(Vec<Kept>),
    /// Somebody asks for resources in a form that is not made yet. It comes from those who serve, not from a source.
    Wanted,
    /// The settings have changed.
    Settings(Box<Settings>),
    /// What happened at one stroke, as a file that was saved: applied at one stroke too. An Ingress that was pointed to
    /// another Service must not be served between the two.
    Together(Vec<Event>),
}

/// Why a source ended, or could not start.
#[derive(Debug, Error)]
pub enum SourceError {
    /// The directory cannot be read: it does not exist, is not a directory, or may not be opened.
    #[error("cannot read the directory \"{}\": {error}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The directory cannot be watched, for instance because the user has no inotify watches left.
    #[error("cannot watch the directory \"{}\": {error}", path.display())]
    Watch {
        /// The directory.
        path: PathBuf,
        /// Why.
        error: notify::Error,
    },
    /// There is no usable kubeconfig, nor the environment of a pod.
    #[error("cannot find out how to reach the API server: {0}")]
    Config(String),
    /// The client cannot be built from its configuration: a certificate that does not parse, an unusable credential.
    #[error("cannot build the client for the API server: {0}")]
    Client(String),
    /// The source's own thread or task ended without a reason: a fault of ours.
    #[error("the source \"{0}\" ended unexpectedly")]
    Ended(&'static str),
}

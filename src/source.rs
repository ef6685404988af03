//! Sources of objects: an API server or a directory of YAML. Both produce the same [`Event`]s.
//!
//! A source reduces each object to the fields that the translation reads ([`lockgate_route::objects`]).

pub mod claims;
pub mod cluster;
mod credentials;
pub mod decode;
pub mod directory;
pub mod file;
#[cfg(test)]
mod fuzz;
pub mod gateway;
pub mod kept;
pub mod kinds;
pub mod manifest;
mod names;
mod native;
pub mod resources;
pub mod secret;

use std::path::PathBuf;
use std::time::Duration;

use lockgate_route::explain::Request;
use lockgate_route::objects::{Kept, Kind, Object, ObjectKey};
use lockgate_route::settings::Settings;
use lockgate_route::translate::explained::{Answer, RequestDestination};
use lockgate_xds::provenance::ObjectRef;
use lockgate_xds::snapshot::{Resource, ResourceType};
use thiserror::Error;
use tokio::sync::oneshot;

/// An event for the controller's loop. Events are sent in the order of their occurrence and applied one by one.
#[derive(Debug)]
pub enum Event {
    /// All objects of one kind: the initial list, or a list after a lost watch.
    Listed(Kind, Vec<Object>),
    /// A new or changed object.
    Applied(Object),
    /// A deleted object.
    Deleted(Kind, ObjectKey),
    /// Whether the objects of an optional kind may be read. If not, it is unknown whether there are any.
    Readable {
        /// The kind.
        kind: Kind,
        /// The namespace; empty for all.
        namespace: std::sync::Arc<str>,
        /// Whether the API server permits it.
        readable: bool,
    },
    /// All resources of a directory of resources, after the first read.
    ResourcesListed(Vec<Resource>),
    /// The changes of one file of resources.
    ResourcesChanged {
        /// New or changed resources.
        applied: Vec<Resource>,
        /// Removed resources.
        removed: Vec<(ResourceType, std::sync::Arc<str>)>,
    },
    /// A fault of the source that the operator should know: a file that does not parse, or a list that the API server
    /// rejects. The previous objects stay.
    Fault {
        /// The faulty file or kind.
        origin: ObjectRef,
        /// The file, document, line, and field if known; the fault; and the consequence.
        message: String,
        /// The time until the next attempt, if there is one.
        retry: Option<Duration>,
        /// Whether the fault lasts, and was reported less than a minute ago.
        repeated: bool,
    },
    /// An earlier fault of this origin is resolved.
    Healed(ObjectRef),
    /// The last good content of Secrets from other replicas.
    Kept(Vec<Kept>),
    /// A client requests resources in a form that does not exist yet. The xDS server sends this event, not a source.
    ViewRequested,
    /// A request to explain by the current model. A debug page sends this event, not a source.
    Explain(Box<(RequestDestination, Request)>, oneshot::Sender<Vec<Answer>>),
    /// The settings have changed.
    Settings(Box<Settings>),
    /// Events that belong together, such as the events of a saved file, and that are applied together. If an Ingress moves
    /// to another Service, no intermediate state must be served.
    Together(Vec<Event>),
}

/// The reason why a source ended or could not start.
#[derive(Debug, Error)]
pub enum SourceError {
    /// The directory cannot be read: it does not exist, is not a directory, or access is denied.
    #[error("cannot read the directory \"{}\": {error}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The reason.
        error: std::io::Error,
    },
    /// The directory cannot be watched, for example because the user has no inotify watches left.
    #[error("cannot watch the directory \"{}\": {error}", path.display())]
    Watch {
        /// The directory.
        path: PathBuf,
        /// The reason.
        error: notify::Error,
    },
    /// There is neither a usable kubeconfig nor the environment of a pod.
    #[error("cannot find out how to reach the API server: {0}")]
    Config(String),
    /// The client cannot be created from its configuration, such as an invalid certificate or credential.
    #[error("cannot build the client for the API server: {0}")]
    Client(String),
    /// The thread or task of the source ended without a reason, which is a bug.
    #[error("the source \"{0}\" ended unexpectedly")]
    Ended(&'static str),
}

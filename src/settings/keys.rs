//! The keys of the settings file: the field, the format, and the documentation of each key. The reference, the schema,
//! `config print`, and the parser of the file use them.

use serde_json::Value as Json;

use super::values::ValueFormat;
use super::values::lists::List;
use super::values::names::{
    AnnotationName, ClassName, ControllerName, FreeText, HostPort, IpAddress, MediaType, Name, Namespace, ObjectName,
    Reachable, Socket,
};
use super::values::numbers::{
    Body, Buffer, Byte, Compressible, Connections, Count, FleetCount, HeadersSize, Heap, JsonBody, NamespaceSize,
    Passes, Percent, Port, PortOrNone, Positive, Streams,
};
use super::values::policy::{EnvoyHeader, HeaderName, Headers, LogField, LogFile, LogLine, Runtime, Tags};
use super::values::process::{Certificates, Directory, Identity, LogFilter, TemplateFile};
use super::values::retries::RetryCondition;
use super::values::services::{Descriptors, PathPrefix, TextMap};
use super::values::times::{Limit, Seconds, Time, Wait};
use super::values::tls::{CipherSuite, Curve, RedirectStatus, Version};
use super::values::wasm::Modules;
use super::values::words::Word;
use super::values::{Bool, Maybe};
use super::{
    AccessLogFormat, AccessLogLevel, AuthorizationProtocol, CompressionAlgorithm, ConnectionBalancer, DnsLookupFamily,
    EscapedSlashes, HttpVersion, NamespaceOwnership, ProxyProtocolMode, RestrictingAnnotations, RestrictingPolicies,
    RouteDiscoveryMode, ServerHeader, Settings, Underscores,
};
use crate::telemetry;
use crate::yaml::{Node, Wrong};

/// A key of the settings file.
#[derive(Clone, Copy)]
pub struct SettingsKey {
    /// The path, with dots: `timeouts.connect`.
    pub path: &'static str,
    /// The documentation of the effect.
    pub doc: &'static str,
    /// The format of the value, in words.
    pub describe: fn() -> String,
    /// Parses a value into the settings. Returns whether there was a valid one.
    pub read: fn(&mut Settings, &Node, &mut Vec<Wrong>) -> bool,
    /// Returns the value of the settings in the format of the file.
    pub show: fn(&Settings) -> Json,
    /// Copies the value from other settings.
    pub copy: fn(&mut Settings, &Settings),
    /// Returns the JSON schema of the value.
    pub schema: fn() -> Json,
    /// The restart that a change needs to take effect, if any.
    pub restart: Option<Restart>,
}

/// The restart that a change of a key needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    /// The Envoys, whose bootstrap contains the key.
    Envoys,
    /// The controller.
    Controller,
}

impl Restart {
    /// Returns the text for the documentation of such a key.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Envoys => "needs a restart of the Envoys",
            Self::Controller => "needs a restart of the controller",
        }
    }
}

macro_rules! key {
    ($path:literal, $format:ty, $($field:ident).+, $doc:expr) => {
        key!(@ $path, $format, $($field).+, $doc, None)
    };
    ($path:literal, $format:ty, $($field:ident).+, $doc:expr, $restart:expr) => {
        key!(@ $path, $format, $($field).+, $doc, Some($restart))
    };
    (@ $path:literal, $format:ty, $($field:ident).+, $doc:expr, $restart:expr) => {
        SettingsKey {
            path: $path,
            doc: $doc,
            describe: <$format as ValueFormat>::describe,
            read: |settings, node, wrong| match <$format as ValueFormat>::read(node, wrong) {
                Some(value) => {
                    settings.$($field).+ = value;
                    true
                }
                None => false,
            },
            show: |settings| <$format as ValueFormat>::show(&settings.$($field).+),
            copy: |to, from| to.$($field).+.clone_from(&from.$($field).+),
            schema: <$format as ValueFormat>::schema,
            restart: $restart,
        }
    };
}

mod clients;
mod process;
mod selection;
mod services;
mod table;
mod upstream;

pub use table::{GROUPS, KEYS, changes, check_json, check_value, key, written};

//! The translation of Gateway API: Gateways declare listeners, and routes attach to them.
//!
//! A Gateway is parsed with the ListenerSets that name it ([`listener`]). A route is parsed with the Gateways and
//! ListenerSets that it names ([`parser`]), and attached to some of their listeners ([`attach`]). Its rules become
//! routes that all its hosts share ([`http_route`]), or the destination of connections ([`stream_route`]). The
//! translator then merges the routes of each host of an Envoy listener ([`virtual_host`]), or selects the oldest
//! destination.

pub mod attach;
pub mod attached;
mod authorities;
mod backend;
mod backends;
pub mod budget;
pub mod client_certificates;
pub mod dialects;
mod external_auth;
mod filters;
pub mod fleet;
pub mod foreign_policies;
mod grpc_route;
pub mod hostname;
pub mod http_policies;
pub mod http_policy;
pub mod http_route;
pub mod listener;
mod matches;
pub mod parser;
pub mod policies;
pub mod policy;
mod report;
mod service;
pub mod session;
pub mod size;
pub mod stream_route;
mod timeouts;
pub mod virtual_host;
pub(in crate::translate) mod web_keys;

pub use fleet::FleetReport;
pub use policies::PolicyReports;
pub use report::{GatewayReport, ListenerReport, Reports, SetReport};
pub use service::{HOME, TARGET_PORTS, home, is_at_home, service_key};

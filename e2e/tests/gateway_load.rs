//! Changes of Gateways and their routes under load, through a real Envoy: no request may fail but those that must.
//!
//! Envoy drains within two seconds, so a connection that a change drains is closed within the test.

mod cost;
mod deleted;
mod framing;
mod grants;
mod listeners;
mod moves;
mod policies;
mod rates;
mod sessions;
mod site;
mod sizes;
mod tenants;
mod web_keys;
mod weights;

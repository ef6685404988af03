//! BackendPolicies through a real Envoy: endpoints that fail, hang, and come back, zones, HTTP/3, and changes of policies
//! under load.

mod balancing;
mod examples;
mod failover;
mod health;
mod http3;
mod site;
mod streams;
mod traffic;
mod zones;

//! BackendPolicies through a real Envoy: endpoints that fail, hang, and come back, zones, and changes of policies
//! under load.

mod balancing;
mod failover;
mod health;
mod site;
mod streams;
mod traffic;
mod zones;

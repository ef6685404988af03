//! Attacks by a tenant, a pod, and an xDS client on the real program, a real Envoy, and a real API server.
//!
//! Each module contains one attack. Each test performs the attack, and asserts that the victim is not affected and that
//! the attacker's object states the reason of the rejection.

mod answers;
mod clients;
mod copies;
mod debug_pages;
mod endpoints;
mod floods;
mod full_disk;
mod headers;
mod host_grants;
mod identities;
mod key_pairs;
mod loops;
mod ownership;
mod paths;
mod probes;
mod regexes;
mod rejections;
mod shared_hosts;
mod site;
mod terminating;
mod undecodable;

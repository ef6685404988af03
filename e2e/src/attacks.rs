//! The objects and requests of attackers. `tests/isolation/` tests each attack alone, and `tests/cluster/hostile.rs`
//! runs all of them against one installation.

pub mod floods;
pub mod framing;
pub mod key_pairs;
pub mod regexes;
pub mod roles;
pub mod tokens;
pub mod undecodable;

//! The objects and requests of attackers, for the tests of one attack each (`tests/isolation/`) and for the spec with all of
//! them against one installation (`tests/cluster/hostile.rs`).

pub mod floods;
pub mod key_pairs;
pub mod regexes;
pub mod roles;
pub mod undecodable;

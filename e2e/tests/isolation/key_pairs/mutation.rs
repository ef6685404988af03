//! Random changes of good certificates and keys.

use super::Material;
use super::verdicts::{Subject, pem};

/// A reproducible source of numbers (splitmix64).
pub struct Numbers(u64);

impl Numbers {
    /// One that starts with `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).expect("a usize")
    }

    /// A mutation of one of the materials, and its description.
    pub fn subject(&mut self, material: &[Material]) -> (String, Subject) {
        let which = self.below(material.len());
        let mut changed = material[which].clone();
        match self.below(10) {
            0..=4 => {
                let what = self.mutate(&mut changed.chain[0]);
                (format!("material {which}, leaf, {what}"), changed.subject())
            }
            5 => {
                let mut issuer = changed.chain[changed.chain.len() - 1].clone();
                let what = self.mutate(&mut issuer);
                changed.chain.push(issuer);
                (format!("material {which}, issuer, {what}"), changed.subject())
            }
            6 => {
                let mut authority = changed.chain[changed.chain.len() - 1].clone();
                let what = self.mutate(&mut authority);
                let pem = pem("CERTIFICATE", &authority);
                (format!("material {which}, authority, {what}"), Subject::Authorities(pem))
            }
            _ => {
                let what = self.mutate(&mut changed.key);
                (format!("material {which}, key, {what}"), changed.subject())
            }
        }
    }

    fn mutate(&mut self, der: &mut Vec<u8>) -> String {
        let (at, value) = (self.below(der.len()), self.next().to_le_bytes()[0]);
        match self.below(10) {
            0..=3 => {
                der[at] = value;
                format!("byte {at} = {value:#x}")
            }
            4 | 5 => {
                let (other, second) = (self.below(der.len()), self.next().to_le_bytes()[0]);
                (der[at], der[other]) = (value, second);
                format!("byte {at} = {value:#x}, byte {other} = {second:#x}")
            }
            6 | 7 => {
                der[at] ^= 1 << (value % 8);
                format!("byte {at} with bit {} flipped", value % 8)
            }
            8 => {
                der.insert(at, value);
                format!("{value:#x} inserted at {at}")
            }
            _ => {
                der.truncate(at);
                format!("the first {at} bytes")
            }
        }
    }
}

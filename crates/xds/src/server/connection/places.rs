//! The number of connections, in total and for each address.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use super::Limits;

/// The pool of places for connections.
#[derive(Debug, Default)]
pub(in crate::server) struct Places {
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by_address: BTreeMap<IpAddr, usize>,
}

/// A place of one connection, which is free again when it is dropped.
#[derive(Debug)]
pub(in crate::server) struct Place {
    places: Arc<Places>,
    address: IpAddr,
}

impl Places {
    /// Acquires a place for a client at `address`.
    ///
    /// # Errors
    /// The exceeded limit.
    pub fn acquire(self: &Arc<Self>, address: IpAddr, limits: &Limits) -> Result<Place, &'static str> {
        let address = address.to_canonical();
        let mut taken = self.lock();
        if taken.all >= limits.connections {
            return Err("too many connections");
        }
        let own = taken.by_address.entry(address).or_default();
        if *own >= limits.max_per_address() {
            return Err("too many connections from this address");
        }
        *own += 1;
        taken.all += 1;
        Ok(Place { places: self.clone(), address })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.lock();
        taken.all -= 1;
        if let Some(own) = taken.by_address.get_mut(&self.address) {
            *own -= 1;
            if *own == 0 {
                taken.by_address.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn one_address_gets_half_of_the_places() {
        let (places, limits) = (Arc::new(Places::default()), Limits { connections: 4, ..Limits::default() });
        let take = |address: &str| places.acquire(address.parse().unwrap(), &limits);
        let first = take("192.0.2.1").unwrap();
        let _second = take("::ffff:192.0.2.1").unwrap();
        assert_eq!(take("192.0.2.1").unwrap_err(), "too many connections from this address");
        drop(first);
        let _third = take("192.0.2.1").unwrap();
        let _fourth = take("192.0.2.2").unwrap();
        let fifth = take("192.0.2.3").unwrap();
        assert_eq!(take("192.0.2.4").unwrap_err(), "too many connections");
        drop(fifth);
        assert!(take("192.0.2.4").is_ok());
        assert_eq!(places.lock().by_address.len(), 2, "nothing is remembered of those who left");
    }
}

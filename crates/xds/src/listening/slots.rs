//! A bounded pool of connections. A full pool evicts its oldest connection instead of refusing new ones.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// A pool of connections with a limit for all of them and a limit for each address.
///
/// A slot is needed for milliseconds, so a client with an old slot is slow or hostile. A full pool therefore evicts the
/// oldest slot of the address at its limit, otherwise of the address with the most slots. If it refused new
/// connections, a few silent connections could lock out all other clients.
#[derive(Debug)]
pub struct Slots {
    most: usize,
    share: usize,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    /// Slots by number; a smaller number is older.
    by_number: BTreeMap<u64, (IpAddr, Arc<Notify>)>,
    by_address: BTreeMap<IpAddr, BTreeSet<u64>>,
    next: u64,
}

/// A slot, held until it is dropped or evicted.
#[derive(Debug)]
pub struct Slot {
    slots: Arc<Slots>,
    number: u64,
    eviction: Arc<Notify>,
}

impl Slots {
    /// Creates a pool of at most `most` slots, and at most `share` slots for each address.
    pub fn new(most: usize, share: usize) -> Arc<Self> {
        Arc::new(Self { most: most.max(1), share: share.max(1), held: Mutex::default() })
    }

    /// Enters the pool. If it is full, the oldest slot is evicted.
    pub fn enter(self: &Arc<Self>, address: IpAddr) -> Slot {
        let group = group(address);
        let mut held = self.lock();
        let own = held.by_address.get(&group).map_or(0, BTreeSet::len);
        if own >= self.share {
            held.evict(group);
        } else if held.by_number.len() >= self.most {
            // If several addresses have the most slots, the address with the oldest slot loses a slot.
            let most = held.by_address.iter().max_by_key(|(_, numbers)| {
                (numbers.len(), std::cmp::Reverse(numbers.first().copied().unwrap_or_default()))
            });
            if let Some(crowded) = most.map(|(address, _)| *address) {
                held.evict(crowded);
            }
        }
        let (number, eviction) = (held.next, Arc::<Notify>::default());
        held.next += 1;
        held.by_number.insert(number, (group, eviction.clone()));
        held.by_address.entry(group).or_default().insert(number);
        Slot { slots: self.clone(), number, eviction }
    }

    /// Returns the number of slots.
    pub fn len(&self) -> usize {
        self.lock().by_number.len()
    }

    /// Returns whether there are no slots.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    /// Evicts the oldest slot of `address`.
    fn evict(&mut self, address: IpAddr) {
        let oldest = self.by_address.get(&address).and_then(|numbers| numbers.first().copied());
        if let Some((_, eviction)) = oldest.and_then(|number| self.remove(number)) {
            eviction.notify_one();
        }
    }

    fn remove(&mut self, number: u64) -> Option<(IpAddr, Arc<Notify>)> {
        let removed = self.by_number.remove(&number)?;
        if let Some(numbers) = self.by_address.get_mut(&removed.0) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.by_address.remove(&removed.0);
            }
        }
        Some(removed)
    }
}

impl Slot {
    /// Waits until the slot is evicted.
    pub async fn evicted(&self) {
        self.eviction.notified().await;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.lock().remove(self.number);
    }
}

/// Returns the counted address: an IPv4 address, or an IPv6 network, because one machine has 2^64 IPv6 addresses.
fn group(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from(u128::from(address) & !u128::from(u64::MAX))),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use futures::FutureExt;

    use super::*;

    fn enter(slots: &Arc<Slots>, address: &str) -> Slot {
        slots.enter(address.parse().unwrap())
    }

    fn is_evicted(slot: &Slot) -> bool {
        slot.evicted().now_or_never().is_some()
    }

    #[test]
    fn an_address_at_its_limit_evicts_its_own_oldest_slot() {
        let slots = Slots::new(4, 2);
        let victim = enter(&slots, "192.0.2.9");
        let first = enter(&slots, "192.0.2.1");
        let second = enter(&slots, "::ffff:192.0.2.1");
        let third = enter(&slots, "192.0.2.1");
        assert_eq!([&victim, &first, &second, &third].map(is_evicted), [false, true, false, false]);
        assert_eq!(slots.len(), 3);
        drop(first);
        assert_eq!(slots.len(), 3, "an evicted slot is not counted twice");
    }

    #[test]
    fn a_full_pool_evicts_the_oldest_slot_of_the_address_with_the_most() {
        let slots = Slots::new(4, 3);
        let victim = enter(&slots, "192.0.2.9");
        let attacker = ["192.0.2.1", "192.0.2.1", "192.0.2.1"].map(|address| enter(&slots, address));
        let late = enter(&slots, "192.0.2.8");
        assert_eq!(attacker.each_ref().map(is_evicted), [true, false, false]);
        assert!(!is_evicted(&victim) && !is_evicted(&late));
        drop((victim, attacker, late));
        assert!(slots.is_empty() && slots.lock().by_address.is_empty(), "nothing is remembered");
    }

    #[test]
    fn addresses_of_one_ipv6_network_count_as_one() {
        let slots = Slots::new(100, 2);
        let all = ["2001:db8::1", "2001:db8::2", "2001:db8::3", "2001:db8:0:1::1"].map(|at| enter(&slots, at));
        assert_eq!(all.each_ref().map(is_evicted), [true, false, false, false]);
    }
}

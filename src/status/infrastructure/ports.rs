//! The allocation of the ports on which Envoy listens for Gateways. The Services of the Gateways store them.

use std::collections::BTreeSet;

use lockgate_route::objects::Transport;
use lockgate_route::translate::gateway::{HOME, is_at_home};
use xxhash_rust::xxh3::xxh3_64;

pub use lockgate_route::translate::gateway::TARGET_PORTS as RANGE;

/// The ports that one Service needs.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The first port of the home of the Gateway.
    pub home: u16,
    /// The ports of the Gateway.
    pub wanted: &'a [(Transport, u16)],
    /// The ports that the Service has: transport, port of the Gateway, and port of Envoy.
    pub existing: &'a [(Transport, u16, u16)],
}

/// A port of a Gateway and its port of Envoy. `None`: no port is free.
pub type Allocation = (Transport, u16, Option<u16>);

/// Allocates a port of Envoy for each port of `requests`, which are in the order of precedence. The result has the same order.
///
/// A port stays as long as the Service has it, unless it is reserved. If several Services have the same port, the first Gateway
/// with the port in its home keeps it, otherwise the first Gateway. A new port is neither in `taken` nor in any request, because
/// Envoys may still listen there for another Gateway. The search for a new port starts at a hash of the port within the home of
/// the Gateway. A Service that is deleted and created again therefore gets the same ports, and two leaders with different
/// knowledge rarely choose the same port.
pub fn allocate(requests: &[Request], taken: &BTreeSet<u16>, reserved: &BTreeSet<u16>) -> Vec<Vec<Allocation>> {
    let mut used: BTreeSet<u16> = reserved.clone();
    let none = |(transport, port): &(Transport, u16)| (*transport, *port, None);
    let mut allocated: Vec<Vec<Allocation>> =
        requests.iter().map(|request| request.wanted.iter().map(none).collect()).collect();
    for at_home in [true, false] {
        for (request, ports) in requests.iter().zip(&mut allocated) {
            for (transport, port, target) in ports {
                let same = |one: &&(Transport, u16, u16)| (one.0, one.1) == (*transport, *port);
                let existing = request.existing.iter().find(same).map(|(_, _, target)| *target);
                let existing = existing.filter(|target| RANGE.contains(target));
                let existing = existing.filter(|target| is_at_home(request.home, *target) == at_home);
                *target = target.or(existing.filter(|target| used.insert(*target)));
            }
        }
    }
    used.extend(taken);
    used.extend(requests.iter().flat_map(|request| request.existing).map(|(_, _, target)| *target));
    for (request, ports) in requests.iter().zip(&mut allocated) {
        for (transport, port, target) in ports.iter_mut().filter(|(_, _, target)| target.is_none()) {
            *target = candidates(request.home, *transport, *port).find(|candidate| !used.contains(candidate));
            used.extend(*target);
        }
    }
    allocated
}

/// Returns the ports of Envoy for a port of the Gateway with this home, in the order of the search: the home first.
fn candidates(home: u16, transport: Transport, port: u16) -> impl Iterator<Item = u16> {
    let size = u64::from(RANGE.end() - RANGE.start()) + 1;
    let hash = xxh3_64(format!("{transport:?} {port}").as_bytes()) % u64::from(HOME);
    let first = u64::from(home - RANGE.start());
    let positions = (hash..u64::from(HOME)).chain(0..hash).chain(u64::from(HOME)..size);
    positions.filter_map(move |position| Some(RANGE.start() + u16::try_from((first + position) % size).ok()?))
}

#[cfg(test)]
mod tests {
    use lockgate_route::translate::gateway::home;

    use super::*;

    const TCP: Transport = Transport::Tcp;

    /// Returns the request of the Gateway with this uid.
    fn request<'a>(uid: &str, wanted: &'a [(Transport, u16)], existing: &'a [(Transport, u16, u16)]) -> Request<'a> {
        Request { home: home(uid), wanted, existing }
    }

    fn targets(requests: &[Request], taken: &[u16], reserved: &[u16]) -> Vec<Vec<Option<u16>>> {
        let set = |ports: &[u16]| ports.iter().copied().collect();
        let allocated = allocate(requests, &set(taken), &set(reserved));
        allocated.iter().map(|ports| ports.iter().map(|(_, _, target)| *target).collect()).collect()
    }

    #[test]
    fn ports_are_unique_in_the_range_and_stay() {
        let keys: Vec<String> = (0..200).map(|i| format!("gateway-{i}")).collect();
        let wanted = [(TCP, 80), (TCP, 443), (Transport::Udp, 443)];
        let new: Vec<Request> = keys.iter().map(|key| request(key, &wanted, &[])).collect();
        let allocated = allocate(&new, &BTreeSet::new(), &BTreeSet::new());
        let all: BTreeSet<u16> = allocated.iter().flatten().filter_map(|(_, _, target)| *target).collect();
        assert_eq!(all.len(), 600);
        assert!(all.iter().all(|port| RANGE.contains(port)));

        // The Services now have the ports, and half of them are gone.
        let stored: Vec<Vec<(Transport, u16, u16)>> = allocated
            .iter()
            .map(|ports| {
                ports.iter().map(|(transport, port, target)| (*transport, *port, target.unwrap_or(0))).collect()
            })
            .collect();
        let left: Vec<Request> = (100..200).map(|i| request(&keys[i], &wanted, &stored[i])).collect();
        assert_eq!(allocate(&left, &BTreeSet::new(), &BTreeSet::new()), allocated[100..]);
        // Without knowledge of the Services, the choice is the same if there is no collision.
        assert_eq!(targets(&[request(&keys[0], &wanted, &[])], &[], &[]), targets(&new[..1], &[], &[]));
    }

    #[test]
    fn the_first_of_two_services_with_one_port_keeps_it() {
        let (old, young) = ("old", "young");
        let (wanted, existing) = ([(TCP, 80)], [(TCP, 80, 12_345)]);
        let both = [request(old, &wanted, &existing), request(young, &wanted, &existing)];
        let found = targets(&both, &[], &[]);
        assert_eq!(found[0], [Some(12_345)]);
        assert!(found[1][0].is_some_and(|port| port != 12_345));
        // Two ports of one Service.
        let twice = [(TCP, 80, 12_345), (TCP, 81, 12_345)];
        let found = targets(&[request(old, &[(TCP, 80), (TCP, 81)], &twice)], &[], &[]);
        assert!(found[0][0] == Some(12_345) && found[0][1].is_some_and(|port| port != 12_345), "{found:?}");
    }

    #[test]
    fn an_older_gateway_does_not_take_a_port_of_the_home_of_another() {
        let at_home = home("victim");
        let (wanted, existing) = ([(TCP, 80)], [(TCP, 80, at_home)]);
        let found = targets(&[request("old", &wanted, &existing), request("victim", &wanted, &existing)], &[], &[]);
        assert_eq!(found[1], [Some(at_home)]);
        assert!(found[0][0].is_some_and(|port| port != at_home), "{found:?}");
    }

    #[test]
    fn a_port_is_not_used_again_while_a_service_has_it() {
        let (a, b) = ("a", "b");
        let first = targets(&[request(b, &[(TCP, 80)], &[])], &[], &[])[0][0].unwrap_or(0);
        // `a` no longer needs the port, and its Service still has it.
        let existing = [(TCP, 8080, first)];
        let found = targets(&[request(a, &[], &existing), request(b, &[(TCP, 80)], &[])], &[], &[]);
        assert_ne!(found[1], [Some(first)]);
        assert_ne!(targets(&[request(b, &[(TCP, 80)], &[])], &[first], &[])[0], [Some(first)]);
        assert_ne!(targets(&[request(b, &[(TCP, 80)], &[])], &[], &[first])[0], [Some(first)]);
    }

    #[test]
    fn reserved_ports_and_ports_outside_the_range_are_replaced() {
        let (a, wanted) = ("a", [(TCP, 80)]);
        for target in [8080, 30_000, 15_000] {
            let found = targets(&[request(a, &wanted, &[(TCP, 80, target)])], &[], &[15_000]);
            assert!(found[0][0].is_some_and(|port| port != target && RANGE.contains(&port)), "{target}");
        }
    }

    #[test]
    fn without_a_free_port_the_others_keep_theirs() {
        let (old, new) = ("old", "new");
        let all: Vec<u16> = RANGE.collect();
        let existing = [(TCP, 80, 20_000)];
        let requests = [request(new, &[(TCP, 80)], &[]), request(old, &[(TCP, 80)], &existing)];
        assert_eq!(targets(&requests, &all, &[]), [[None], [Some(20_000)]]);
    }
}

//! Free TCP ports, and the address of this machine.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr, TcpListener, UdpSocket};
use std::sync::Mutex;

static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// A port on which nothing listens, and which this process has not given out before. Below the range from which the
/// kernel takes the ports of outgoing connections, so that none of those gets in between.
///
/// # Panics
/// If there is none.
pub fn free() -> u16 {
    const FIRST: u16 = 12_000;
    const COUNT: u16 = 20_000;
    let mut given = GIVEN.lock().unwrap();
    let start = (std::process::id() * 61 % u32::from(COUNT)) as u16;
    let port = (0..COUNT)
        .map(|i| FIRST + (start + i) % COUNT)
        .find(|port| !given.contains(port) && TcpListener::bind((Ipv6Addr::UNSPECIFIED, *port)).is_ok())
        .expect("a free port");
    given.insert(port);
    port
}

/// The address by which this machine reaches others; `None` if it has no address but loopback. Nothing is sent.
pub fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    socket.local_addr().ok().map(|address| address.ip()).filter(|address| !address.is_loopback())
}

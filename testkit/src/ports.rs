//! Free ports that are likely to stay free.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::sync::{Mutex, PoisonError};

use anyhow::{bail, ensure};

use crate::smtp_sink;
use endpoints::Service;

/// Below the range that the kernel uses for outgoing connections (from 32768 on Linux). So no
/// outgoing connection can take a service's port while the service restarts.
const RANGE: std::ops::Range<u16> = 15_000..32_000;
const SMTP_SINK: (&str, u16) = (smtp_sink::PROCESS_NAME, smtp_sink::DEMO_PORT);
const TRIES_MAX: u32 = 1_000;

/// How many ports a program keeps reserved. A reservation costs a file descriptor, so the oldest ones are given up.
const RESERVED_MAX: usize = 400;

/// A free loopback port, reserved for this program: neither it nor another program gets the same one. So a
/// service finds its port free when it restarts.
pub(crate) fn free() -> anyhow::Result<u16> {
    static RESERVED: Mutex<VecDeque<UdpSocket>> = Mutex::new(VecDeque::new());
    let mut reserved = RESERVED.lock().unwrap_or_else(PoisonError::into_inner);
    for _ in 0..TRIES_MAX {
        // Random, because other programs search for ports at the same time.
        let port = rand::random_range(RANGE);
        if let Some(reservation) = reserve(port) {
            reserved.push_back(reservation);
            if reserved.len() > RESERVED_MAX {
                reserved.pop_front();
            }
            return Ok(port);
        }
    }
    bail!(
        "no free port found between {} and {}",
        RANGE.start,
        RANGE.end
    )
}

/// Reserves a TCP port by binding the UDP port of the same number. The kernel gives it to one program, and frees it
/// when that program ends.
fn reserve(port: u16) -> Option<UdpSocket> {
    let reservation = UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).ok()?;
    is_free(port).then_some(reservation)
}

/// Fails if a fixed port is in use.
pub(crate) fn require_all_free() -> anyhow::Result<()> {
    let services = Service::ALL.map(|service| (service.name(), service.demo_port()));
    let operators = Service::ALL.map(|service| (service.name(), service.operator_demo_port()));
    let all = services.into_iter().chain(operators);
    for (name, port) in all.chain([SMTP_SINK]) {
        ensure!(
            is_free(port),
            "port {port} of {name} is in use: find the process with `ss -ltnp 'sport = :{port}'` \
             and stop it, or start with `--ports free`"
        );
    }
    Ok(())
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_is_reserved_while_no_service_listens_on_it() {
        let port = free().unwrap();
        assert!(is_free(port), "no service listens yet");
        assert!(reserve(port).is_none(), "another program got the same port");
    }

    #[test]
    fn port_with_a_listener_is_not_free() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert!(reserve(listener.local_addr().unwrap().port()).is_none());
    }
}

//! Free ports that are likely to stay free.

use std::collections::HashSet;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Mutex, PoisonError};

use anyhow::{bail, ensure};

use crate::smtp_sink;
use endpoints::Service;

/// Below the range that the kernel uses for outgoing connections (from 32768 on Linux). So no
/// outgoing connection can take a service's port while the service restarts.
const RANGE: std::ops::Range<u16> = 15_000..32_000;
const SMTP_SINK: (&str, u16) = (smtp_sink::PROCESS_NAME, smtp_sink::DEMO_PORT);
const TRIES_MAX: u32 = 1_000;

/// A free loopback port, never the same one twice in this program.
pub(crate) fn free() -> anyhow::Result<u16> {
    static TAKEN: Mutex<Option<HashSet<u16>>> = Mutex::new(None);
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    let taken = taken.get_or_insert_default();
    for _ in 0..TRIES_MAX {
        // Random, because other programs search for ports at the same time.
        let port = rand::random_range(RANGE);
        if !taken.contains(&port) && is_free(port) {
            taken.insert(port);
            return Ok(port);
        }
    }
    bail!(
        "no free port found between {} and {}",
        RANGE.start,
        RANGE.end
    )
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

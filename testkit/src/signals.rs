//! Stop signals.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Receives Ctrl-C and SIGTERM.
#[derive(Debug)]
pub struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
}

/// Which signal arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Ctrl-C. The terminal sends it to every foreground process.
    Interrupt,
    /// SIGTERM, sent to this process only.
    Terminate,
}

impl StopSignals {
    /// From now on neither signal ends the program by itself.
    pub fn listen() -> anyhow::Result<Self> {
        Ok(StopSignals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for the next signal.
    pub async fn next(&mut self) -> Stop {
        tokio::select! {
            _ = self.interrupt.recv() => Stop::Interrupt,
            _ = self.terminate.recv() => Stop::Terminate,
        }
    }
}

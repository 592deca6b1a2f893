//! The crash windows as data: where a process can die between two durable steps, what is durable
//! then, what repairs it, and where to find the code, the SQL and the test.
//!
//! ARCHITECTURE.md shows the table that [`table`] renders. The tidy tests check both
//! against the repository: every place exists, and every crash point in the code belongs to a window.

mod table;
mod windows;

pub use table::table;
pub use windows::windows;

/// One window. Places are written `path#name`: a file of the repository and a name in it.
#[derive(Debug)]
pub struct Window {
    /// The number that tests and documents cite.
    pub number: u8,
    /// Which process dies, and when.
    pub dies: &'static str,
    /// What is durable at that moment.
    pub durable: &'static str,
    /// What repairs it.
    pub repaired_by: &'static str,
    pub points: Points,
    /// Where the window is in the code.
    pub code: &'static [&'static str],
    /// The statement that makes the repair safe.
    pub sql: &'static [&'static str],
    /// Tests that kill, or pause, a process in this window.
    pub tests: &'static [&'static str],
}

/// How a test reaches the window.
#[derive(Debug)]
pub enum Points {
    /// Crash points, each with the services that have it. One point may serve several windows.
    At(&'static [(&'static str, &'static str)]),
    /// No crash point, and why.
    None(&'static str),
}

impl Window {
    /// The crash points of this window with their services; empty if it has none.
    pub fn points(&self) -> &'static [(&'static str, &'static str)] {
        match self.points {
            Points::At(points) => points,
            Points::None(_) => &[],
        }
    }
}

//! The windows, in the order of their numbers.

mod charge_path;
mod other_paths;

use crate::Window;

/// Every window. A change that adds a durable step, or something between two, adds one.
pub fn windows() -> impl Iterator<Item = &'static Window> {
    charge_path::WINDOWS.iter().chain(other_paths::WINDOWS)
}

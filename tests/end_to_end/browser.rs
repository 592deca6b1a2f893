//! The console's page in a real browser, in front of a real system.

mod driver;
mod faces;
mod orders;
mod proof;
mod stage;

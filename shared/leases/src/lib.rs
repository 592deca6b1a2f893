#![doc = include_str!("../README.md")]

mod clock;
mod queues;
mod recorder;
mod starter;
mod worker;

pub use clock::{Clock, LeaseEnd};
pub use queues::{Queues, Range};
pub use recorder::{Record, Recorder, WhenUnreachable};
pub use starter::{Reservation, Starter};
pub use worker::{Done, LeaseRequest, STORE_WAIT_MAX, Settings, Share, Work, Worker};

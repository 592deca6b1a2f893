#![doc = include_str!("../README.md")]

mod recorder;
mod worker;

pub use recorder::{Record, Recorder, WhenUnreachable};
pub use worker::{Done, LeaseRequest, Settings, Work, Worker};

//! Tests that hold the repository to what it says about itself. There is no library here: run
//! `cargo test -p tidy`, which needs neither Postgres nor Kafka.

#[cfg(test)]
mod crash_windows;
#[cfg(test)]
mod lengths;
#[cfg(test)]
mod links;
#[cfg(test)]
mod manifests;
#[cfg(test)]
mod repository;
#[cfg(test)]
mod settings;
#[cfg(test)]
mod test_names;
#[cfg(test)]
mod words;

//! Tests that compare the documents with the code and enforce the project's style. There is no
//! library here: run `cargo test -p tidy`, which needs neither Postgres nor Kafka.

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
mod tables;
#[cfg(test)]
mod test_names;
#[cfg(test)]
mod words;

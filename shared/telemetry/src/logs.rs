//! Log lines: JSON for machines, pretty for people, filtered by `RUST_LOG`.

use tracing_subscriber::EnvFilter;

use crate::Error;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    Json,
    Pretty,
}

pub(crate) fn init(format: Format) -> Result<(), Error> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter);
    match format {
        Format::Json => builder.json().flatten_event(true).try_init(),
        Format::Pretty => builder.compact().try_init(),
    }
    .map_err(Error::Logs)
}

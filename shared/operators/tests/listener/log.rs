//! Everything that this program logs. One subscriber for all tests: with one per test, whether a line is
//! logged depends on the tests that run at the same time.

use std::io::Write;
use std::sync::{Mutex, Once};

use tracing_subscriber::fmt::MakeWriter;

static LINES: Mutex<Vec<u8>> = Mutex::new(Vec::new());
static START: Once = Once::new();

/// Starts to collect lines of every level. Later calls do nothing.
pub(crate) fn collect() {
    START.call_once(|| {
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_writer(Lines);
        tracing::subscriber::set_global_default(subscriber.finish()).unwrap();
    });
}

pub(crate) fn text() -> String {
    String::from_utf8(LINES.lock().unwrap().clone()).unwrap()
}

struct Lines;

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LINES.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Lines;

    fn make_writer(&'a self) -> Lines {
        Lines
    }
}

//! Shows progress while the system starts.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

const SPINNER_TICK: Duration = Duration::from_millis(80);

/// Reports steps on standard error: spinners on a terminal, one line per step otherwise.
#[derive(Debug, Clone)]
pub struct Progress {
    quiet: bool,
    /// Only on a terminal. Steps may overlap.
    spinners: Option<MultiProgress>,
}

impl Progress {
    /// With `quiet` nothing is printed.
    pub fn new(quiet: bool) -> Self {
        let visible = !quiet && std::io::stderr().is_terminal();
        Progress {
            quiet,
            spinners: visible.then(MultiProgress::new),
        }
    }

    /// Runs one step and prints how long it took.
    pub async fn step<T>(
        &self,
        name: &str,
        work: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        let started = Instant::now();
        let spinner = self.spinner(name);
        let result = work.await;
        spinner.finish_and_clear();
        let mark = if result.is_ok() { '✓' } else { '✗' };
        self.line(&format!(
            "{mark} {name} {:.1} s",
            started.elapsed().as_secs_f64()
        ));
        result
    }

    fn line(&self, text: &str) {
        match &self.spinners {
            _ if self.quiet => {}
            None => eprintln!("{text}"),
            // Printed above the spinners. A closed terminal needs no line.
            Some(spinners) => spinners.println(text).unwrap_or_default(),
        }
    }

    fn spinner(&self, name: &str) -> ProgressBar {
        let Some(spinners) = &self.spinners else {
            return ProgressBar::hidden();
        };
        let spinner = spinners.add(ProgressBar::new_spinner().with_message(name.to_owned()));
        // An invalid style leaves the default one, which shows the same.
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
            spinner.set_style(style);
        }
        spinner.enable_steady_tick(SPINNER_TICK);
        spinner
    }
}

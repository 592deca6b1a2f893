//! The services' own counters, read from `/metrics`. A process that restarts begins at zero; the totals
//! here continue.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::Context as _;
use endpoints::Service;

use crate::app::App;

/// Metrics that the console shows. Other lines are skipped without being stored.
const WANTED: [&str; 16] = [
    "idempotency_outcomes_total",
    "http_requests_total",
    "outbox_published_total",
    "outbox_unpublished_rows",
    "inbox_processed_total",
    "inbox_duplicates_total",
    "inbox_retries_total",
    "inbox_lag_messages",
    "inbox_parked_messages",
    "psp_calls_total",
    "charges_in_flight",
    "payments_open",
    "receipt_tries_total",
    "psp_charges_total",
    "psp_refunds_total",
    "psp_replays_total",
];
/// Longest wait for one process: a paused process must not delay the state.
const TIMEOUT: Duration = Duration::from_millis(400);
/// Series of one process that are kept; a service exports far fewer of the wanted ones.
const SERIES_MAX: usize = 500;

/// Totals of every process since the console first saw it.
#[derive(Default)]
pub(super) struct Totals {
    processes: HashMap<String, Process>,
}

#[derive(Default)]
struct Process {
    is_up: bool,
    /// The last value of each series, and the sum of all increases. A gauge has no sum.
    series: HashMap<String, (f64, f64)>,
}

impl Totals {
    pub(super) async fn read(&mut self, app: &App) {
        let urls = Service::ALL
            .into_iter()
            .flat_map(|service| app.endpoints().urls.get(service));
        let texts = urls.map(|url| async move { (url, fetch(&app.http, url).await) });
        for (url, text) in futures_util::future::join_all(texts).await {
            let process = self.processes.entry(url.clone()).or_default();
            process.is_up = text.is_ok();
            process.add(&text.unwrap_or_default());
        }
    }

    /// Whether a process responded; none before the first read.
    pub(super) fn is_up(&self, url: &str) -> Option<bool> {
        Some(self.processes.get(url)?.is_up)
    }

    /// The sum of a metric over all processes, of the series that have all these labels. None if no
    /// process has it.
    pub(super) fn total(&self, urls: &[String], name: &str, labels: &[&str]) -> Option<f64> {
        let processes = urls.iter().filter_map(|url| self.processes.get(url));
        let values = processes
            .flat_map(|process| &process.series)
            .filter_map(|(series, it)| {
                let rest = series.strip_prefix(name)?;
                let is_it = rest.is_empty() || rest.starts_with('{');
                let has_all = labels.iter().all(|label| rest.contains(label));
                let value = if is_gauge(name) { it.0 } else { it.1 };
                (is_it && has_all).then_some(value)
            });
        values.fold(None, |sum, value| Some(sum.unwrap_or_default() + value))
    }
}

impl Process {
    fn add(&mut self, text: &str) {
        for (series, value) in text.lines().filter_map(wanted) {
            if !self.series.contains_key(series) && self.series.len() >= SERIES_MAX {
                continue;
            }
            let (last, sum) = self.series.entry(series.to_owned()).or_default();
            // A smaller value means that the process restarted, so the whole value is new.
            *sum += if value < *last { value } else { value - *last };
            *last = value;
        }
    }
}

fn is_gauge(name: &str) -> bool {
    !name.ends_with("_total")
}

/// The series and value of a line, if it is wanted.
fn wanted(line: &str) -> Option<(&str, f64)> {
    let (series, value) = line.rsplit_once(' ')?;
    let name = series.split('{').next()?;
    WANTED.contains(&name).then_some(())?;
    Some((series, value.parse().ok()?))
}

/// The text of `GET /metrics`.
pub(crate) async fn fetch(http: &reqwest::Client, url: &str) -> anyhow::Result<String> {
    let response = http
        .get(format!("{url}/metrics"))
        .timeout(TIMEOUT)
        // Not traced: the last digit says so.
        .header("traceparent", UNTRACED)
        .send()
        .await
        .and_then(reqwest::Response::error_for_status);
    let response = response.with_context(|| format!("GET {url}/metrics"))?;
    response.text().await.context("reading the metrics")
}

/// A trace context whose trace is not recorded.
const UNTRACED: &str = "00-00000000000000000000000000000c05-00000000000000c0-00";

/// The sum of a metric in one text.
pub(crate) fn sum(text: &str, name: &str) -> f64 {
    let values = text
        .lines()
        .filter_map(wanted)
        .filter(|(series, _)| series.split('{').next() == Some(name));
    values.map(|(_, value)| value).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_continue_after_a_restart() {
        let mut totals = Totals::default();
        let mut read = |text: &str| {
            totals
                .processes
                .entry("u".to_owned())
                .or_default()
                .add(text)
        };
        read("# HELP\ninbox_duplicates_total 3\noutbox_unpublished_rows 7\nother_total 1");
        read("inbox_duplicates_total 5\noutbox_unpublished_rows 9");
        read("inbox_duplicates_total 1\noutbox_unpublished_rows 2");
        let urls = ["u".to_owned()];
        assert_eq!(
            totals.total(&urls, "inbox_duplicates_total", &[]),
            Some(6.0)
        );
        assert_eq!(
            totals.total(&urls, "outbox_unpublished_rows", &[]),
            Some(2.0)
        );
        assert_eq!(totals.total(&urls, "other_total", &[]), None);
    }

    #[test]
    fn series_are_added_up_by_their_labels() {
        let mut totals = Totals::default();
        let text = "psp_calls_total{call=\"charge\",outcome=\"captured\"} 4\n\
                    psp_calls_total{call=\"charge\",outcome=\"unknown\"} 1\n\
                    psp_calls_total{call=\"refund\",outcome=\"unknown\"} 2";
        totals
            .processes
            .entry("u".to_owned())
            .or_default()
            .add(text);
        let total = |labels| totals.total(&["u".to_owned()], "psp_calls_total", labels);
        assert_eq!(total(&["call=\"charge\""]), Some(5.0));
        assert_eq!(total(&["outcome=\"unknown\""]), Some(3.0));
        assert_eq!(sum(text, "psp_calls_total"), 7.0);
    }
}

//! The timeline as lines for a terminal.

use std::fmt::Write as _;

use chrono::{DateTime, Utc};
use steps::{Severity, Source, Step};

use crate::order_timeline::OrderTimeline;

/// Longest fact in the text; `--json` has the whole fact.
const FACT_CHARS_MAX: usize = 80;

/// The timeline with one line per step, in aligned columns. The facts of a step are below it.
pub fn text(timeline: &OrderTimeline) -> String {
    let mut page = String::new();
    let _ = writeln!(page, "order {}  {}", timeline.order_id, timeline.summary);
    let facts = [
        ("key", &timeline.key),
        ("fingerprint", &timeline.fingerprint),
        ("reference", &timeline.reference),
    ];
    for (name, value) in facts {
        if let Some(value) = value {
            let _ = writeln!(page, "{name:<12} {value}");
        }
    }
    if let Some(charges) = timeline.charges_in_books {
        let refunds = timeline.refunds_in_books.unwrap_or_default();
        let _ = writeln!(page, "books        charges: {charges}, refunds: {refunds}");
    }
    page.push('\n');
    let start = timeline.steps.first().map(|step| step.at);
    for step in &timeline.steps {
        write_step(&mut page, step, start);
    }
    for missing in &timeline.missing {
        let (service, reason) = (&missing.service, &missing.reason);
        let _ = writeln!(page, "\n{service} did not respond: {reason}");
    }
    for note in &timeline.notes {
        let _ = writeln!(page, "\nnote: {note}");
    }
    page
}

fn write_step(page: &mut String, step: &Step, start: Option<DateTime<Utc>>) {
    let time = step.at.format("%H:%M:%S%.3f");
    let since = start.map_or(0, |start| (step.at - start).num_milliseconds());
    let commit = step.commit.as_deref().unwrap_or("–");
    let mark = match (step.severity, step.source) {
        (Severity::Fault, _) => '!',
        (Severity::Money, _) => '$',
        (Severity::Duplicate, _) => '=',
        (Severity::Normal, Source::Observed) => '~',
        (Severity::Normal, Source::Table) => ' ',
    };
    let service = &step.service;
    let since = format!("+{}.{:03} s", since / 1_000, since % 1_000);
    let _ = writeln!(
        page,
        "{time}  {since:>11}  {service:<11}{mark} {:<48} commit {commit}",
        step.what
    );
    if let Some(event) = &step.event {
        let _ = writeln!(page, "{:40}event {} {}", "", event.event_type, event.id);
    }
    for (name, value) in &step.facts {
        let mut short: String = value.chars().take(FACT_CHARS_MAX).collect();
        if short.len() < value.len() {
            short.push('…');
        }
        let _ = writeln!(page, "{:40}{name}: {}", "", short.replace('\n', " "));
    }
}

#[cfg(test)]
mod tests {
    use endpoints::Service;
    use steps::Part;
    use uuid::Uuid;

    use super::*;
    use crate::merge;

    #[test]
    fn steps_are_aligned_and_missing_parts_are_named() {
        let at = |ms| DateTime::from_timestamp_millis(ms).unwrap();
        let mut part = Part::new("payment", Uuid::from_u128(7));
        part.steps = vec![
            Step::new(at(0), "payments", "attempt 1 stored").fact("tries", "2\n".repeat(90)),
            Step::new(at(1_900), "payments", "attempt 1 is captured")
                .commit(Some("731".to_owned()))
                .severity(Severity::Money),
        ];
        let responses = vec![
            (Service::Payment, Ok(part.finish())),
            (Service::Psp, Err("connection closed".to_owned())),
        ];
        let text = text(&merge(Uuid::from_u128(7), responses));
        let lines: Vec<&str> = text.lines().filter(|it| it.contains("commit")).collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert_eq!(lines[0].find("commit"), lines[1].find("commit"), "{text}");
        assert!(lines[1].contains("+1.900 s") && lines[1].contains("$ attempt 1"));
        assert!(text.contains('…'), "{text}");
        assert!(
            text.contains("psp did not respond: connection closed"),
            "{text}"
        );
    }
}

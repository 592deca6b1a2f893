use serde_json::Value;

use crate::lab;

/// The smallest run with a real system, and what is made of its report.
#[test]
fn smallest_bench_reports_its_ratios_and_costs() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (json, html) = (path("bench.json"), path("bench.html"));
    let only = ["--only", "relay,end_to_end"];
    let mut arguments = vec!["bench", "--smoke", "--kafka", "embedded"];
    arguments.extend(only);
    arguments.extend(["--json", &json, "--html", &html]);
    let output = lab(&arguments);
    assert!(output.status.success(), "{output:?}");

    let report: Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    for ratio in ["relay", "end_to_end"] {
        let median = report["ratios"][ratio]["median"].as_f64();
        assert!(median.is_some_and(|it| it > 0.0), "{ratio}: {report:#}");
    }
    assert_eq!(report["absent"]["intake"], "not selected");
    for cost in ["cpu_us", "wal_bytes", "rows_written", "round_trips"] {
        let median = report["per_order"][cost]["median"].as_f64();
        assert!(median.is_some_and(|it| it > 0.0), "{cost}: {report:#}");
    }
    assert!(report["orders"].as_u64() > Some(0));
    assert!(std::fs::read_to_string(&html).unwrap().contains("</svg>"));

    let plan = lab(&["capacity", "--from", &json, "--rate", "1000"]);
    let text = String::from_utf8(plan.stdout).unwrap();
    assert!(text.contains("Kafka brokers"), "{text}");
}

#[test]
fn unreadable_baseline_ends_the_bench_before_it_starts() {
    let output = lab(&["bench", "--against", "no-such-file.json"]);
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("no-such-file.json"), "{error}");
}

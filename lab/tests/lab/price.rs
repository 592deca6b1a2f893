//! What the bench and the image build do without unprotected programs.

use std::path::Path;

use crate::lab;

pub(crate) const SERVICES: [&str; 4] = ["order", "payment", "fulfilment", "receipt"];

/// The directory of the protected programs.
pub(crate) fn programs() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_lab")).parent().unwrap()
}

#[test]
fn bench_ends_at_once_without_unprotected_services() {
    let bench = |dir: &str| {
        let output = lab(&["bench", "--only", "price", "--unprotected-binaries", dir]);
        assert_eq!(output.status.code(), Some(1));
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.starts_with("error: "), "{error}");
        error
    };
    let missing = bench("no-such-dir");
    assert!(
        missing.contains("no-such-dir/order is missing"),
        "{missing}"
    );
    // It would compare the services with themselves.
    let protected = bench(programs().to_str().unwrap());
    assert!(
        protected.contains("order is not built with the feature"),
        "{protected}"
    );
}

#[test]
fn image_build_checks_every_program_of_the_image() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/Dockerfile");
    let dockerfile = std::fs::read_to_string(path).unwrap();
    let (before, rest) = dockerfile.split_once("refuse-unprotected.sh").unwrap();
    let (checked, after) = rest.split_once("\n\n").unwrap();
    assert!(before.contains("AS build") && !before.contains("AS services"));
    let words = after.split_whitespace();
    let copied: Vec<&str> = words.filter_map(|it| it.strip_prefix("/src/")).collect();
    assert!(copied.len() >= SERVICES.len(), "{copied:?}");
    for program in copied {
        assert!(
            checked.split_whitespace().any(|it| it == program),
            "{program}"
        );
    }
}

//! The printed list: one line per check. A failed check also shows what was seen instead.

#[derive(Default)]
pub(super) struct Checklist {
    passed: usize,
    total: usize,
}

impl Checklist {
    /// Prints one line. `seen` is `Ok` with the proof, or `Err` with what was seen instead.
    pub(super) fn check(&mut self, promise: &str, seen: Result<String, String>) {
        self.total += 1;
        match seen {
            Ok(proof) => {
                self.passed += 1;
                println!("  ✓ {promise}  ({proof})");
            }
            Err(seen) => {
                println!("  ✗ {promise}");
                println!("      seen instead: {seen}");
            }
        }
    }

    pub(super) fn passed(&self) -> usize {
        self.passed
    }

    pub(super) fn total(&self) -> usize {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::Checklist;

    #[test]
    fn failed_check_counts_in_the_total_only() {
        let mut checklist = Checklist::default();
        checklist.check("a", Ok("seen".to_owned()));
        checklist.check("b", Err("something else".to_owned()));
        assert_eq!((checklist.passed(), checklist.total()), (1, 2));
    }
}

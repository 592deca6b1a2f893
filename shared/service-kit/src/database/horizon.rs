//! The point up to which every row of a table is visible.
//!
//! A queue reads its index from the front. While any snapshot is held open (a dump, a query on a
//! standby), Postgres cannot remove the entries of rows that left the queue, and every step would
//! read them all. So a step starts at a floor. The floor may pass a row only if the row has left the
//! queue permanently, and rows do not become visible in the order of their ids or times: a transaction
//! may get a low id and commit late.
//!
//! A transaction that writes to a table holds a lock on it until it ends, and takes the lock before
//! it computes ids and times. So take a mark (the last id, or the time) and list the writers after
//! it. Once those writers have ended, no row up to the mark can appear any more. This depends on
//! writers of this table only: neither readers nor long transactions elsewhere hold the mark back.

use sqlx::PgConnection;

/// Finds marks up to which every row of a table is visible.
#[derive(Clone, Debug)]
pub struct Horizon<T> {
    waiting: Option<Mark<T>>,
}

#[derive(Clone, Debug)]
struct Mark<T> {
    at: T,
    /// Transactions that may still write a row up to the mark.
    writers: Vec<String>,
}

impl<T> Default for Horizon<T> {
    fn default() -> Self {
        Self { waiting: None }
    }
}

impl<T: Copy> Horizon<T> {
    /// Returns the last mark if all its writers have ended, and waits for a new one. `at` must have
    /// been read before `writers`.
    pub fn observe(&mut self, at: T, writers: Vec<String>) -> Option<T> {
        let passed = match &self.waiting {
            Some(mark) if mark.writers.iter().any(|it| writers.contains(it)) => return None,
            Some(mark) => Some(mark.at),
            None => None,
        };
        // Without writers, every row up to the new mark is visible already.
        let passed = if writers.is_empty() { Some(at) } else { passed };
        self.waiting = Some(Mark { at, writers });
        passed
    }
}

/// The transactions of other sessions that hold a lock for writing on the table. A writer that waits
/// for its lock has not computed any id or time yet.
pub async fn writers(connection: &mut PgConnection, table: &str) -> sqlx::Result<Vec<String>> {
    sqlx::query_scalar(
        "select distinct virtualtransaction from pg_locks
         where locktype = 'relation' and granted and relation = $1::text::regclass
           and database = (select oid from pg_database where datname = current_database())
           and mode in ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock',
                        'AccessExclusiveLock')
           and pid is distinct from pg_backend_pid()",
    )
    .bind(table)
    .fetch_all(connection)
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writers(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn mark_passes_when_its_writers_have_ended() {
        let mut horizon = Horizon::default();
        assert_eq!(horizon.observe(10, writers(&["a", "b"])), None);
        assert_eq!(horizon.observe(20, writers(&["b", "c"])), None);
        assert_eq!(horizon.observe(30, writers(&["c", "d"])), Some(10));
        // The mark 20 was not kept: its writers were not waited for.
        assert_eq!(horizon.observe(40, writers(&["d"])), None);
        assert_eq!(horizon.observe(50, writers(&["e"])), Some(30));
    }

    #[test]
    fn mark_without_writers_passes_immediately() {
        let mut horizon = Horizon::default();
        assert_eq!(horizon.observe(10, Vec::new()), Some(10));
        assert_eq!(horizon.observe(20, writers(&["a"])), Some(10));
        assert_eq!(horizon.observe(30, Vec::new()), Some(30));
    }
}

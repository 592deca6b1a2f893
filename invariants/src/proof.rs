//! The checker for long-running use: the cost of a step depends on what is new, not on the history.
//!
//! It keeps a small entry per order in memory and the sums over all entries. A step reads what may have
//! changed, replaces those entries, and corrects the sums:
//!
//! 1. orders that are new, and orders that are not terminal;
//! 2. in the provider's own books: charges and refunds that are new or were pending, orders that just became
//!    terminal, orders with a problem, and the next few charges of a walk over the whole books. The walk finds
//!    what a position cannot show: a row that was inserted with an old id, or changed manually.
//!
//! Orders are read before the books, so the charge of a shipped order is in the books that are read later. In
//! the opposite order, new work would look like a violation.

mod books;
mod entry;
mod orders;
mod state;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use sqlx::PgPool;
use uuid::Uuid;

use books::Books;
use entry::{Entry, OrderStatus, Totals};
use orders::{NewOrders, OrderRow};
pub use state::{Money, ProofState, Verdict};

use crate::ledger::{Ledger, OrderEntry};
use crate::{Databases, Violation, payments};

/// Most open orders whose status one step reads. If there are more, the next steps read the others.
const OPEN_READ_MAX: usize = 5_000;
/// Orders per query; keeps one bind message well below a megabyte.
const ORDERS_PER_QUERY_MAX: usize = 5_000;
/// Problems in a state; a broken system may have thousands.
const PROBLEMS_SHOWN_MAX: usize = 50;
/// Orders with a problem that each step reads again, so that it notices a repair.
const PROBLEMS_READ_MAX: usize = 1_000;

/// The incremental checker. One task steps it; its memory grows with the number of orders, by about 100
/// bytes each.
pub struct Proof {
    databases: Databases,
    new_orders: NewOrders,
    books: Books,
    orders: HashMap<Uuid, Entry>,
    /// Orders that are not terminal. The next step reads those after `open_after`.
    open: BTreeSet<Uuid>,
    open_after: Uuid,
    /// Charges without an order: direct charges, and those that nothing explains.
    others: BTreeMap<String, Other>,
    /// Orders to read from the books. Kept until a step has read them all: a step may fail.
    touched: BTreeSet<String>,
    totals: Totals,
    problems: BTreeMap<String, Vec<Violation>>,
}

/// The charges of a reference that does not name an order.
struct Other {
    is_direct: bool,
    entry: OrderEntry,
}

impl Proof {
    pub fn new(databases: Databases) -> Self {
        Self {
            databases,
            new_orders: NewOrders::default(),
            books: Books::default(),
            orders: HashMap::new(),
            open: BTreeSet::new(),
            open_after: Uuid::nil(),
            others: BTreeMap::new(),
            touched: BTreeSet::new(),
            totals: Totals::default(),
            problems: BTreeMap::new(),
        }
    }

    /// Reads what may have changed. The first steps read the history in bounded parts; until then the verdict
    /// is unknown. A step that fails loses nothing: the next one reads the rest.
    pub async fn step(&mut self) -> anyhow::Result<ProofState> {
        let orders_done = self.read_orders().await?;
        let mut psp = pinned(&self.databases.psp).await?;
        let books_done = self.books.changed(&mut psp, &mut self.touched).await?;
        let with_problem = self.problems.keys().take(PROBLEMS_READ_MAX);
        self.touched.extend(with_problem.cloned());
        let touched: Vec<String> = self.touched.iter().cloned().collect();
        for some in touched.chunks(ORDERS_PER_QUERY_MAX) {
            let ledger = Ledger::of(&mut psp, some).await?;
            self.apply(some, &ledger).await?;
        }
        psp.rollback().await?;
        self.touched.clear();
        Ok(self.state(orders_done && books_done))
    }

    /// Reads new orders and the status of open ones. An order that became terminal is read from the books again:
    /// its charge must be there, whatever the charge's id. Returns whether all new orders were read.
    async fn read_orders(&mut self) -> anyhow::Result<bool> {
        let mut connection = pinned(&self.databases.order).await?;
        let (rows, done) = self.new_orders.next(&mut connection).await?;
        let open = self.open.range(self.open_after..).take(OPEN_READ_MAX);
        let mut open: Vec<Uuid> = open.copied().collect();
        self.open_after = match open.len() < OPEN_READ_MAX {
            true => Uuid::nil(),
            false => open.pop().unwrap_or_default(),
        };
        let known = orders::by_id(&mut connection, &open).await?;
        connection.rollback().await?;
        for row in known.into_iter().chain(rows) {
            let before = self.orders.get(&row.id).map(|entry| entry.status);
            self.set_status(&row, row.status);
            if before != Some(row.status) && row.status != OrderStatus::Open {
                self.touched.insert(row.id.to_string());
            }
        }
        Ok(done)
    }

    /// Replaces the entries of these references with those of the books.
    async fn apply(&mut self, references: &[String], ledger: &Ledger) -> anyhow::Result<()> {
        self.find_orders(references, ledger).await?;
        let mut others = Vec::new();
        for reference in references {
            let entry = ledger.get(reference).cloned().unwrap_or_default();
            let id = Uuid::parse_str(reference).ok();
            match id.filter(|id| self.orders.contains_key(id)) {
                Some(id) => self.set_money(id, entry),
                None => others.push((reference.clone(), entry)),
            }
        }
        let names = others.iter().map(|(reference, _)| reference.as_str());
        let direct = payments::direct(&self.databases.payment, names).await?;
        for (reference, entry) in others {
            let is_direct = direct.contains(&reference);
            self.set_other(reference, Other { is_direct, entry });
        }
        Ok(())
    }

    /// Reads the orders of charges that contradict the known status: the order was placed after the orders were
    /// read, or was reopened since. Such a status is newer than the books, so the order counts as open until the
    /// next step, unless it still ended without money.
    async fn find_orders(&mut self, references: &[String], ledger: &Ledger) -> anyhow::Result<()> {
        let charged = references.iter().filter(|it| ledger.get(it).is_some());
        let ids = charged.filter_map(|reference| Uuid::parse_str(reference).ok());
        let is_doubtful = |id: &Uuid| {
            let entry = self.orders.get(id);
            entry.is_none_or(|entry| entry.status == OrderStatus::Unpaid)
        };
        let ids: Vec<Uuid> = ids.filter(is_doubtful).collect();
        if ids.is_empty() {
            return Ok(());
        }
        let mut connection = pinned(&self.databases.order).await?;
        let rows = orders::by_id(&mut connection, &ids).await?;
        connection.rollback().await?;
        for row in rows {
            let status = match row.status {
                OrderStatus::Unpaid => OrderStatus::Unpaid,
                _ => OrderStatus::Open,
            };
            self.set_status(&row, status);
        }
        Ok(())
    }

    fn set_status(&mut self, row: &OrderRow, status: OrderStatus) {
        let money = self.orders.get(&row.id).map(|entry| entry.money.clone());
        let entry = Entry {
            status,
            amount: row.amount,
            money: money.unwrap_or_default(),
        };
        self.set(row.id, entry);
    }

    fn set_money(&mut self, id: Uuid, money: OrderEntry) {
        if let Some(known) = self.orders.get(&id) {
            let entry = Entry {
                money: entry::Charges::new(money, known.amount),
                ..known.clone()
            };
            self.set(id, entry);
        }
    }

    /// Replaces an order's entry, and its share of the sums and of the problems.
    fn set(&mut self, id: Uuid, entry: Entry) {
        match entry.status {
            OrderStatus::Open => self.open.insert(id),
            _ => self.open.remove(&id),
        };
        self.totals.add(&entry, 1);
        let name = id.to_string();
        let found = entry.violations(&name);
        if let Some(before) = self.orders.insert(id, entry) {
            self.totals.add(&before, -1);
        }
        self.set_problems(name, found);
    }

    fn set_other(&mut self, reference: String, other: Other) {
        let found = match other.is_direct {
            true => other.entry.violations(&reference),
            false if other.entry.charges == 0 => Vec::new(),
            false => {
                let charged = other.entry.charged;
                let detail = format!("{reference}: charged {charged}, not recorded");
                vec![Violation::of("L5 books = payments", &reference, detail)]
            }
        };
        self.totals.add_other(&other.entry, other.is_direct, 1);
        if let Some(before) = self.others.insert(reference.clone(), other) {
            self.totals.add_other(&before.entry, before.is_direct, -1);
        }
        self.set_problems(reference, found);
    }

    fn set_problems(&mut self, name: String, found: Vec<Violation>) {
        match found.is_empty() {
            true => self.problems.remove(&name),
            false => self.problems.insert(name, found),
        };
    }

    fn state(&self, is_complete: bool) -> ProofState {
        let problems = self.problems.values().flatten();
        let verdict = match is_complete {
            true => Verdict::of(problems.clone()),
            false => Verdict::Unknown,
        };
        let shown = problems.take(PROBLEMS_SHOWN_MAX).filter(|_| is_complete);
        ProofState {
            verdict,
            loaded: is_complete,
            accepted: self.orders.len() as i64,
            charged_once: self.totals.charged_once,
            charged_more: self.totals.charged_more,
            not_charged_yet: self.totals.not_charged_yet,
            ended_uncharged: self.totals.ended_uncharged,
            money: self.totals.money(),
            problems: shown.cloned().collect(),
        }
    }
}

/// A transaction whose statements use indexes, even on tables without statistics.
async fn pinned(pool: &PgPool) -> anyhow::Result<sqlx::Transaction<'static, sqlx::Postgres>> {
    let mut tx = pool.begin().await?;
    sqlx::raw_sql(
        "set transaction read only; set local enable_seqscan = off;
         set local enable_bitmapscan = off; set local enable_sort = off;
         set local enable_hashjoin = off; set local enable_mergejoin = off;
         set local plan_cache_mode = force_custom_plan; set local jit = off",
    )
    .execute(&mut *tx)
    .await?;
    Ok(tx)
}

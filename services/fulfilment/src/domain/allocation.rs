//! Giving out stock to a batch of orders: all lines of an order or none, first come first served.

use std::collections::BTreeMap;

use events::Line;
use uuid::Uuid;

/// What one order asks for.
#[derive(Clone, Debug)]
pub struct Demand<'a> {
    pub order_id: Uuid,
    pub lines: &'a [Line],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Ship,
    OutOfStock,
}

impl Decision {
    /// Why it does not ship, if it does not.
    pub const fn reason(self) -> Option<&'static str> {
        match self {
            Self::Ship => None,
            Self::OutOfStock => Some("out_of_stock"),
        }
    }
}

/// Decides for each demand in turn, and returns what is to be taken from each SKU in all.
pub fn allocate(
    mut available: BTreeMap<String, i64>,
    demands: &[Demand<'_>],
) -> (Vec<Decision>, BTreeMap<String, i64>) {
    let mut taken: BTreeMap<String, i64> = BTreeMap::new();
    let decisions = demands
        .iter()
        .map(|demand| {
            let wanted = per_sku(demand.lines);
            let in_stock = |(sku, quantity): (&&str, &i64)| {
                available.get(*sku).is_some_and(|left| left >= quantity)
            };
            if !wanted.iter().all(in_stock) {
                return Decision::OutOfStock;
            }
            for (sku, quantity) in wanted {
                if let Some(left) = available.get_mut(sku) {
                    *left -= quantity;
                }
                *taken.entry(sku.to_owned()).or_default() += quantity;
            }
            Decision::Ship
        })
        .collect();
    (decisions, taken)
}

/// The same SKU may stand on two lines; only their sum can be compared with the shelf.
fn per_sku(lines: &[Line]) -> BTreeMap<&str, i64> {
    let mut wanted = BTreeMap::new();
    for line in lines {
        *wanted.entry(line.sku.as_str()).or_default() += i64::from(line.quantity);
    }
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(sku: &str, quantity: u32) -> Line {
        Line {
            sku: sku.to_owned(),
            quantity,
        }
    }

    fn decide(shelf: &[(&str, i64)], orders: &[&[Line]]) -> (Vec<Decision>, BTreeMap<String, i64>) {
        let shelf = shelf
            .iter()
            .map(|(sku, left)| ((*sku).to_owned(), *left))
            .collect();
        let demand = |lines| Demand {
            order_id: Uuid::nil(),
            lines,
        };
        let demands: Vec<Demand<'_>> = orders.iter().map(|lines| demand(*lines)).collect();
        allocate(shelf, &demands)
    }

    #[test]
    fn stock_goes_to_who_comes_first_until_it_is_gone() {
        let two = [line("A", 2)];
        let (decisions, taken) = decide(&[("A", 5)], &[&two, &two, &two]);
        assert_eq!(
            decisions,
            [Decision::Ship, Decision::Ship, Decision::OutOfStock]
        );
        assert_eq!(taken["A"], 4);
    }

    #[test]
    fn an_order_that_cannot_have_everything_takes_nothing() {
        let both = [line("A", 1), line("B", 1)];
        let (decisions, taken) = decide(&[("A", 1), ("B", 0)], &[&both, &[line("A", 1)]]);
        assert_eq!(decisions, [Decision::OutOfStock, Decision::Ship]);
        assert_eq!(taken, BTreeMap::from([("A".to_owned(), 1)]));
    }

    #[test]
    fn two_lines_of_one_sku_are_added_up() {
        let (decisions, _) = decide(&[("A", 3)], &[&[line("A", 2), line("A", 2)]]);
        assert_eq!(decisions, [Decision::OutOfStock]);
    }

    #[test]
    fn a_sku_that_nobody_has_heard_of_is_out_of_stock() {
        let (decisions, taken) = decide(&[], &[&[line("NEW", 1)]]);
        assert_eq!(decisions, [Decision::OutOfStock]);
        assert!(taken.is_empty());
    }
}

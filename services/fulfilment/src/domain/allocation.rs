//! Allocates stock to a batch of orders: all lines of an order or none, first come first served.

use std::collections::BTreeMap;

use events::Line;

use crate::domain::{Decision, RejectionReason};

/// Decides for each order in turn. Returns the decisions, and the total to reserve for each SKU.
pub fn allocate(
    mut available: BTreeMap<String, i64>,
    orders: &[&[Line]],
) -> (Vec<Decision>, BTreeMap<String, i64>) {
    let mut reserved: BTreeMap<String, i64> = BTreeMap::new();
    let decisions = orders
        .iter()
        .map(|lines| {
            let wanted = per_sku(*lines);
            let in_stock = |(sku, quantity): (&&str, &i64)| {
                available.get(*sku).is_some_and(|left| left >= quantity)
            };
            if !wanted.iter().all(in_stock) {
                return Decision::Reject(RejectionReason::OutOfStock);
            }
            for (sku, quantity) in wanted {
                if let Some(left) = available.get_mut(sku) {
                    *left -= quantity;
                }
                *reserved.entry(sku.to_owned()).or_default() += quantity;
            }
            Decision::Ship
        })
        .collect();
    (decisions, reserved)
}

/// Adds up the lines of each SKU. Two lines may name the same SKU, and only their sum can be
/// compared with the stock.
pub fn per_sku<'a>(lines: impl IntoIterator<Item = &'a Line>) -> BTreeMap<&'a str, i64> {
    let mut wanted = BTreeMap::new();
    for line in lines {
        *wanted.entry(line.sku.as_str()).or_default() += i64::from(line.quantity);
    }
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUT_OF_STOCK: Decision = Decision::Reject(RejectionReason::OutOfStock);

    fn line(sku: &str, quantity: u32) -> Line {
        Line {
            sku: sku.to_owned(),
            quantity,
        }
    }

    fn stock(skus: &[(&str, i64)]) -> BTreeMap<String, i64> {
        skus.iter()
            .map(|(sku, available)| ((*sku).to_owned(), *available))
            .collect()
    }

    #[test]
    fn stock_goes_to_the_first_orders_until_it_is_gone() {
        let two = [line("A", 2)];
        let (decisions, reserved) = allocate(stock(&[("A", 5)]), &[&two, &two, &two]);
        assert_eq!(decisions, [Decision::Ship, Decision::Ship, OUT_OF_STOCK]);
        assert_eq!(reserved["A"], 4);
    }

    #[test]
    fn order_with_one_missing_sku_reserves_nothing() {
        let both = [line("A", 1), line("B", 1)];
        let one = [line("A", 1)];
        let (decisions, reserved) = allocate(stock(&[("A", 1), ("B", 0)]), &[&both, &one]);
        assert_eq!(decisions, [OUT_OF_STOCK, Decision::Ship]);
        assert_eq!(reserved, stock(&[("A", 1)]));
    }

    #[test]
    fn two_lines_of_one_sku_are_added_up() {
        let (decisions, _) = allocate(stock(&[("A", 3)]), &[&[line("A", 2), line("A", 2)]]);
        assert_eq!(decisions, [OUT_OF_STOCK]);
    }

    #[test]
    fn unknown_sku_is_out_of_stock() {
        let (decisions, reserved) = allocate(stock(&[]), &[&[line("NEW", 1)]]);
        assert_eq!(decisions, [OUT_OF_STOCK]);
        assert!(reserved.is_empty());
    }
}

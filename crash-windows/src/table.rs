//! The windows as a Markdown table, for ARCHITECTURE.md.

use std::fmt::Write as _;

use crate::{Points, Window, windows};

/// Header and rows, ending with a line break.
pub fn table() -> String {
    let mut text = String::from(
        "| # | what dies, and when | what is durable | what repairs it | crash point | code | SQL | test |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for window in windows() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", row(window));
    }
    text
}

fn row(window: &Window) -> String {
    let points = match window.points {
        Points::At(points) => points
            .iter()
            .map(|(_, point)| format!("`{point}`"))
            .fold(Vec::new(), |mut all, point| {
                if !all.contains(&point) {
                    all.push(point);
                }
                all
            })
            .join(", "),
        Points::None(reason) => format!("none: {reason}"),
    };
    format!(
        "| {} | {} | {} | {} | {points} | {} | {} | {} |",
        window.number,
        window.dies,
        window.durable,
        window.repaired_by,
        places(window.code),
        places(window.sql),
        places(window.tests),
    )
}

/// Links to the files, named by what to look for in them.
fn places(places: &[&str]) -> String {
    if places.is_empty() {
        return "–".to_owned();
    }
    let links = places.iter().map(|place| {
        let (path, name) = place.split_once('#').unwrap_or((place, place));
        format!("[`{name}`]({path})")
    });
    links.collect::<Vec<_>>().join(", ")
}

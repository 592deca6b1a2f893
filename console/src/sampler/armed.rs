//! Which provider faults are still armed. Asked only while the page shows one.

use reqwest::Method;
use serde::Deserialize;

use crate::actions::provider_faults::{ID_PREFIX, url};
use crate::app::App;
use crate::state::Armed;

/// The body of `GET /admin/faults`.
#[derive(Deserialize)]
struct Faults {
    data: Vec<Fault>,
}

#[derive(Deserialize)]
struct Fault {
    id: u64,
    times: Option<u32>,
    fired: u32,
}

/// Forgets faults that were applied as often as they should, or were cleared by someone else.
pub(super) async fn refresh(app: &App) {
    let is_fault = |armed: &Armed| armed.id.starts_with(ID_PREFIX);
    if !app.hub.memory().armed.iter().any(is_fault) {
        return;
    }
    // A provider that is down keeps its faults on the page until it responds.
    let Ok(listed) = app.operator.call(Method::GET, &url(app), None).await else {
        return;
    };
    let Ok(listed) = serde_json::from_value::<Faults>(listed) else {
        return;
    };
    let waiting = |fault: &&Fault| fault.times.is_none_or(|times| fault.fired < times);
    let waiting: Vec<String> = listed
        .data
        .iter()
        .filter(waiting)
        .map(|it| it.id.to_string())
        .collect();
    let number = |armed: &Armed| {
        armed
            .id
            .rsplit_once(':')
            .map(|(_, number)| number.to_owned())
    };
    let mut memory = app.hub.memory();
    memory.armed.retain(|armed| {
        !is_fault(armed) || number(armed).is_some_and(|number| waiting.contains(&number))
    });
}

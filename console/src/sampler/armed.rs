//! Removes applied faults from the page. It asks the provider only while the page shows a fault.

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

/// Forgets faults that were applied as often as they were armed for, or were cleared outside the console.
pub(super) async fn refresh(app: &App) {
    let is_fault = |armed: &Armed| armed.id.starts_with(ID_PREFIX);
    if !app.hub.memory().armed.iter().any(is_fault) {
        return;
    }
    // While the provider is down, its faults stay on the page.
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

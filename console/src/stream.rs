//! `GET /api/stream`: states, moves and marks as server-sent events, and `GET /api/state`.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State as Extract;
use axum::http::{StatusCode, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream::{self, Stream};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::hub::StreamEvent;
use crate::problem::Problem;

/// Most streams that may be open at the same time.
const PAGES_MAX: usize = 16;
/// Interval of comments that keep an idle connection open.
const HEARTBEAT: Duration = Duration::from_secs(5);

pub(crate) async fn state(Extract(app): Extract<Arc<App>>) -> Response {
    // A client that polls does not count as an open page, but must get a fresh proof too.
    app.check_soon();
    app.sample_soon().await;
    let json = app.hub.states().borrow().to_string();
    ([(header::CONTENT_TYPE, "application/json")], json).into_response()
}

pub(crate) async fn stream(Extract(app): Extract<Arc<App>>) -> Result<Response, Problem> {
    if app.hub.pages() >= PAGES_MAX {
        let detail = format!("{PAGES_MAX} pages are already open. Close one and reload this page.");
        return Err(Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "too_many_pages",
            detail,
        ));
    }
    // A receiver of events counts as a page, and wakes the sampler.
    let events = app.hub.events();
    app.check_soon();
    app.sample_soon().await;
    let mut states = app.hub.states();
    // The first state is sent immediately.
    states.mark_changed();
    let feed = Feed {
        states,
        events,
        stop: app.stop.clone(),
    };
    let keep_alive = KeepAlive::new().interval(HEARTBEAT).text("alive");
    Ok(Sse::new(feed.stream())
        .keep_alive(keep_alive)
        .into_response())
}

struct Feed {
    states: watch::Receiver<Arc<str>>,
    events: broadcast::Receiver<StreamEvent>,
    stop: CancellationToken,
}

impl Feed {
    fn stream(self) -> impl Stream<Item = Result<Event, Infallible>> {
        stream::unfold(self, |mut feed| async move {
            let event = feed.next().await?;
            Some((Ok(event), feed))
        })
    }

    /// The next event; none when the console stops. A page that falls behind gets the latest state and
    /// loses old moves and marks. The marks are in the state too.
    async fn next(&mut self) -> Option<Event> {
        loop {
            tokio::select! {
                () = self.stop.cancelled() => return None,
                changed = self.states.changed() => {
                    changed.ok()?;
                    let json = self.states.borrow_and_update().clone();
                    return Some(Event::default().event("state").data(&*json));
                }
                event = self.events.recv() => match event {
                    Ok(event) => return Some(Event::default().event(event.name).data(&*event.json)),
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return None,
                },
            }
        }
    }
}

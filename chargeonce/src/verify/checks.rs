//! The checks of the API, most basic first. Each adds one line per promise to the checklist.

use uuid::Uuid;

use super::checklist::Checklist;
use super::outcomes::Accepted;
use endpoints::client::{ApiResponse, Client, new_key, order_body};

/// One more than the longest key that a client may send.
const KEY_TOO_LONG_CHARS: usize = 256;

/// The order that the later checks repeat.
pub(super) struct Placed {
    key: String,
    body: String,
    response: ApiResponse,
    pub(super) order_id: Uuid,
}

pub(super) async fn place(checklist: &mut Checklist, client: &Client) -> Option<Placed> {
    let promise = "an order with a new key is created: 201, not marked as a replay";
    let (key, body) = (new_key("verify"), order_body(2));
    let placed = match client.place(&key, &body).await {
        Ok(response) if response.status == 201 && !response.replayed => {
            response.order_id().map(|order_id| Placed {
                key,
                body,
                response,
                order_id,
            })
        }
        Ok(response) => Err(anyhow::anyhow!("{} {}", response.summary(), response.body)),
        Err(error) => Err(error),
    };
    match placed {
        Ok(placed) => {
            checklist.check(promise, Ok(format!("201, order {}", placed.order_id)));
            Some(placed)
        }
        Err(error) => {
            checklist.check(promise, Err(format!("{error:#}")));
            None
        }
    }
}

pub(super) async fn replay(checklist: &mut Checklist, client: &Client, first: &Placed) {
    let again = client.place(&first.key, &first.body).await;
    checklist.check(
        "the same request again replays status and body byte for byte",
        same_response(&again, first),
    );
    checklist.check(
        "the replay carries Idempotent-Replayed: true",
        match &again {
            Ok(response) if response.replayed => Ok("header present".to_owned()),
            Ok(response) => Err(format!("{} without the header", response.summary())),
            Err(error) => Err(format!("{error:#}")),
        },
    );
    // The same JSON with different white space and member order is the same request.
    let reordered = reorder(&first.body);
    let again = client.place(&first.key, &reordered).await;
    checklist.check(
        "the same content with other white space and member order replays too",
        same_response(&again, first),
    );
}

pub(super) async fn quoted_key(checklist: &mut Checklist, client: &Client, first: &Placed) {
    let again = client
        .place(&format!("\"{}\"", first.key), &first.body)
        .await;
    checklist.check(
        "a quoted key means the same key",
        same_response(&again, first),
    );
}

pub(super) async fn other_body(checklist: &mut Checklist, client: &Client, first: &Placed) {
    let other = client.send(Some(&first.key), &order_body(3)).await;
    checklist.check(
        "the same key with another body is rejected: 422",
        rejected(&other, 422),
    );
    let again = client.place(&first.key, &first.body).await;
    checklist.check(
        "the original request still replays after that",
        same_response(&again, first),
    );
}

pub(super) async fn bad_keys(checklist: &mut Checklist, client: &Client) {
    let body = order_body(1);
    let missing = client.send(None, &body).await;
    checklist.check("no key: 400", rejected(&missing, 400));
    let malformed = [
        ("an empty key: 400", String::new()),
        (
            "a key of 256 characters: 400",
            "k".repeat(KEY_TOO_LONG_CHARS),
        ),
        ("a key with a space inside: 400", "two words".to_owned()),
    ];
    for (promise, key) in malformed {
        let response = client.send(Some(&key), &body).await;
        checklist.check(promise, rejected(&response, 400));
    }
}

/// The same key of another tenant makes a separate order.
pub(super) async fn other_tenant(
    checklist: &mut Checklist,
    client: &Client,
    other_key: &str,
    first: &Placed,
) -> Option<Accepted> {
    let other = client.with_api_key(other_key);
    let seen = match other.place(&first.key, &first.body).await {
        Ok(response) if response.status == 201 => response.order_id(),
        Ok(response) => Err(anyhow::anyhow!("{}", response.summary())),
        Err(error) => Err(error),
    };
    let promise = "the same key of another tenant makes a separate order";
    match seen {
        Ok(id) if id != first.order_id => {
            checklist.check(promise, Ok(format!("order {id}")));
            Some(Accepted { owner: other, id })
        }
        Ok(id) => {
            checklist.check(promise, Err(format!("the first tenant's order {id}")));
            None
        }
        Err(error) => {
            checklist.check(promise, Err(format!("{error:#}")));
            None
        }
    }
}

fn same_response(again: &anyhow::Result<ApiResponse>, first: &Placed) -> Result<String, String> {
    match again {
        Ok(again) if again.status == first.response.status && again.body == first.response.body => {
            Ok(format!("{}, same {} bytes", again.status, again.body.len()))
        }
        Ok(again) => Err(format!(
            "{} {} instead of {} {}",
            again.status, again.body, first.response.status, first.response.body
        )),
        Err(error) => Err(format!("{error:#}")),
    }
}

fn rejected(response: &anyhow::Result<ApiResponse>, status: u16) -> Result<String, String> {
    match response {
        Ok(response) if response.status == status => match response.problem() {
            Some((code, false)) => Ok(code),
            Some((code, true)) => Err(format!("{status} {code}, but marked retryable")),
            None => Err(format!(
                "{status}, but not a problem document: {} {}",
                response.content_type, response.body
            )),
        },
        Ok(response) => Err(format!("{} {}", response.summary(), response.body)),
        Err(error) => Err(format!("{error:#}")),
    }
}

/// The same JSON document with its members in another order and with white space between them.
fn reorder(body: &str) -> String {
    let Ok(serde_json::Value::Object(members)) = serde_json::from_str(body) else {
        return body.to_owned();
    };
    let members: Vec<String> = members
        .iter()
        .rev()
        .map(|(name, value)| format!("  \"{name}\" : {value}"))
        .collect();
    format!("{{\n{}\n}}", members.join(",\n"))
}

#[cfg(test)]
mod tests {
    use super::{order_body, reorder};

    #[test]
    fn reordering_changes_bytes_but_not_content() {
        let body = order_body(2);
        let other = reorder(&body);
        assert_ne!(body, other);
        let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(parse(&body), parse(&other));
    }
}

//! The questions themselves, most basic first. Each leaves one line per promise on the checklist.

use uuid::Uuid;

use super::checklist::Checklist;
use super::outcomes::Accepted;
use endpoints::client::{ApiResponse, Client, new_key, order_body};

/// The longest key a client may send is 255 characters.
const KEY_TOO_LONG_CHARS: usize = 256;

/// The order that the later checks repeat.
pub(super) struct Placed {
    key: String,
    body: String,
    answer: ApiResponse,
    pub(super) order_id: Uuid,
}

pub(super) async fn place(checklist: &mut Checklist, client: &Client) -> Option<Placed> {
    let promise = "an order with a new key is created: 201, not marked as a replay";
    let (key, body) = (new_key("verify"), order_body(2));
    let placed = match client.place(&key, &body).await {
        Ok(answer) if answer.status == 201 && !answer.replayed => {
            answer.order_id().map(|order_id| Placed {
                key,
                body,
                answer,
                order_id,
            })
        }
        Ok(answer) => Err(anyhow::anyhow!("{} {}", answer.summary(), answer.body)),
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
        same_answer(&again, first),
    );
    checklist.check(
        "the replay says so: Idempotent-Replayed: true",
        match &again {
            Ok(answer) if answer.replayed => Ok("header present".to_owned()),
            Ok(answer) => Err(format!("{} without the header", answer.summary())),
            Err(error) => Err(format!("{error:#}")),
        },
    );
    // The same JSON with other white space and member order is the same request.
    let reordered = reorder(&first.body);
    let again = client.place(&first.key, &reordered).await;
    checklist.check(
        "the same content in another JSON spelling is a replay too",
        same_answer(&again, first),
    );
}

pub(super) async fn quoted_key(checklist: &mut Checklist, client: &Client, first: &Placed) {
    let again = client
        .place(&format!("\"{}\"", first.key), &first.body)
        .await;
    checklist.check(
        "a quoted key means the same key",
        same_answer(&again, first),
    );
}

pub(super) async fn other_body(checklist: &mut Checklist, client: &Client, first: &Placed) {
    let other = client.send(Some(&first.key), &order_body(3)).await;
    checklist.check(
        "the same key with another body is refused: 422",
        refused(&other, 422),
    );
    let again = client.place(&first.key, &first.body).await;
    checklist.check(
        "and the original still replays after that",
        same_answer(&again, first),
    );
}

pub(super) async fn bad_keys(checklist: &mut Checklist, client: &Client) {
    let body = order_body(1);
    let missing = client.send(None, &body).await;
    checklist.check("no key: 400", refused(&missing, 400));
    let malformed = [
        ("an empty key: 400", String::new()),
        (
            "a key of 256 characters: 400",
            "k".repeat(KEY_TOO_LONG_CHARS),
        ),
        ("a key with a space inside: 400", "two words".to_owned()),
    ];
    for (promise, key) in malformed {
        let answer = client.send(Some(&key), &body).await;
        checklist.check(promise, refused(&answer, 400));
    }
}

/// The same key in another tenant's hands is another order.
pub(super) async fn other_tenant(
    checklist: &mut Checklist,
    client: &Client,
    other_key: &str,
    first: &Placed,
) -> Option<Accepted> {
    let other = client.with_api_key(other_key);
    let seen = match other.place(&first.key, &first.body).await {
        Ok(answer) if answer.status == 201 => answer.order_id(),
        Ok(answer) => Err(anyhow::anyhow!("{}", answer.summary())),
        Err(error) => Err(error),
    };
    let promise = "another tenant's same key is an order of its own";
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

fn same_answer(again: &anyhow::Result<ApiResponse>, first: &Placed) -> Result<String, String> {
    match again {
        Ok(again) if again.status == first.answer.status && again.body == first.answer.body => {
            Ok(format!("{}, same {} bytes", again.status, again.body.len()))
        }
        Ok(again) => Err(format!(
            "{} {} instead of {} {}",
            again.status, again.body, first.answer.status, first.answer.body
        )),
        Err(error) => Err(format!("{error:#}")),
    }
}

fn refused(answer: &anyhow::Result<ApiResponse>, status: u16) -> Result<String, String> {
    match answer {
        Ok(answer) if answer.status == status => match answer.problem() {
            Some((code, false)) => Ok(code),
            Some((code, true)) => Err(format!("{status} {code}, but marked retryable")),
            None => Err(format!(
                "{status}, but not a problem document: {} {}",
                answer.content_type, answer.body
            )),
        },
        Ok(answer) => Err(format!("{} {}", answer.summary(), answer.body)),
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
    fn reordering_changes_the_bytes_and_not_the_content() {
        let body = order_body(2);
        let other = reorder(&body);
        assert_ne!(body, other);
        let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(parse(&body), parse(&other));
    }
}

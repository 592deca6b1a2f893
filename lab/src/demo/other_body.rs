//! Chapter: a key that was used before, on a request that is not the same.

use anyhow::ensure;

use super::story::{Placed, Story, say, show_answer};
use endpoints::client::order_body;

pub(super) async fn tell(story: &mut Story<'_>, first: &Placed) -> anyhow::Result<()> {
    story.chapter("The key is reused for another order");
    let other = order_body(7);
    story.show_request(&first.key, &other);
    let refused = story.client.send(Some(&first.key), &other).await?;
    show_answer(&refused);
    ensure!(
        refused.status == 422,
        "a reused key was answered {}",
        refused.summary()
    );
    say(
        "Refused: replaying the old answer would hide a bug of the client, running it would break the key's promise.",
    );
    Ok(())
}

//! Chapter: the client did not hear the answer and sends its request again.

use anyhow::ensure;

use super::story::{Placed, Story, say};

pub(super) async fn tell(story: &mut Story<'_>, first: &Placed) -> anyhow::Result<()> {
    story.chapter("The client retries: the same key, the same body");
    let again = story.send(&first.key, &first.body).await?;
    ensure!(again.replayed, "the retry was not marked as a replay");
    ensure!(
        again.status == first.answer.status && again.body == first.answer.body,
        "the retry's answer differs from the first one"
    );
    say("The very bytes of the first answer, the same order id. Nothing was done twice.");
    Ok(())
}

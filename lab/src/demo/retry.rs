//! Chapter: the client lost the response and sends its request again.

use anyhow::ensure;

use super::context::{Demo, Placed, explain};

pub(super) async fn run(demo: &mut Demo<'_>, first: &Placed) -> anyhow::Result<()> {
    demo.chapter("The client sends the same request again, with the same key");
    let again = demo.send(&first.key, &first.body).await?;
    ensure!(again.replayed, "the retry was not marked as a replay");
    ensure!(
        again.status == first.response.status && again.body == first.response.body,
        "the retry and the first request got different responses"
    );
    explain("The response is the stored one, byte for byte. No second order exists.");
    Ok(())
}

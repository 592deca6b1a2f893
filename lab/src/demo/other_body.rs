//! Chapter: a used key with a different body.

use anyhow::ensure;
use endpoints::client::order_body;

use super::context::{Demo, Placed, explain, print_response};

pub(super) async fn run(demo: &mut Demo<'_>, first: &Placed) -> anyhow::Result<()> {
    demo.chapter("The key of the first order is reused for a different order");
    let other = order_body(7);
    demo.print_request(&first.key, &other);
    let rejected = demo.client.send(Some(&first.key), &other).await?;
    print_response(&rejected);
    ensure!(
        rejected.status == 422,
        "a reused key got the response {}",
        rejected.summary()
    );
    explain("The request is rejected and nothing is stored. A replay would hide the client's bug,");
    explain("and a second order under the same key would break the promise of the key.");
    Ok(())
}

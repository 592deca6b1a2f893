use payment::store::open::{self, Attempts, Open};
use wiremock::ResponseTemplate;

use crate::provider::{captures, first_answers, refunds};
use crate::refusals::refuse;
use crate::world::{LONG, World};

async fn look(world: &World) -> Open {
    open::count(&mut world.pool.acquire().await.unwrap())
        .await
        .unwrap()
}

async fn step(world: &World) {
    world.pass_time().await;
    let answers = world.stepper(LONG).call().await;
    world.record(&answers).await.unwrap();
}

fn counts(open: Open) -> [i64; 3] {
    [open.pending.count, open.unknown.count, open.refunds]
}

#[tokio::test]
async fn what_is_open_is_counted_by_status_and_what_is_settled_is_not() {
    let world = World::create().await;
    assert_eq!(look(&world).await, Open::default());
    let order = world.open_new().await;
    assert_eq!(counts(look(&world).await), [1, 0, 0]);

    first_answers(&world.psp, 1, ResponseTemplate::new(500)).await;
    captures(&world.psp).await;
    step(&world).await;
    assert_eq!(counts(look(&world).await), [0, 1, 0]);
    step(&world).await;
    assert_eq!(counts(look(&world).await), [0, 0, 0]);

    refuse(&world, order, 1).await;
    assert_eq!(counts(look(&world).await), [0, 0, 1]);
    refunds(&world.psp).await;
    step(&world).await;
    assert_eq!(counts(look(&world).await), [0, 0, 0]);
}

#[tokio::test]
async fn the_age_is_that_of_the_oldest_of_its_status() {
    let world = World::create().await;
    world.open_new().await;
    world
        .execute("update payments set created_at = now() - interval '300 seconds'")
        .await;
    world.open_new().await;
    let Attempts {
        count,
        oldest_seconds,
    } = look(&world).await.pending;
    assert_eq!(count, 2);
    assert!((300.0..330.0).contains(&oldest_seconds), "{oldest_seconds}");
    assert_eq!(look(&world).await.unknown, Attempts::default());
}

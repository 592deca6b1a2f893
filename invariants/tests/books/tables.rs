//! Real tables of order, payment and provider, filled manually.

use invariants::{Databases, Proof, ProofState};
use sqlx::PgPool;
use uuid::Uuid;

use crate::migrated;

/// Steps after which a small history must be read.
const STEPS_MAX: usize = 50;

/// Order, payment and provider, migrated. The proof reads no other database.
pub(crate) struct Tables {
    pub(crate) order: PgPool,
    pub(crate) payment: PgPool,
    pub(crate) psp: PgPool,
    pub(crate) order_url: String,
    pub(crate) psp_url: String,
}

impl Tables {
    pub(crate) async fn create() -> Self {
        let order_url = migrated::order().await;
        let payment_url = migrated::payment().await;
        let psp_url = migrated::psp().await;
        let open = |url: &str| PgPool::connect_lazy(url).unwrap();
        Self {
            order: open(&order_url),
            payment: open(&payment_url),
            psp: open(&psp_url),
            order_url,
            psp_url,
        }
    }

    pub(crate) fn proof(&self) -> Proof {
        Proof::new(Databases {
            order: self.order.clone(),
            payment: self.payment.clone(),
            fulfilment: self.order.clone(),
            receipt: self.order.clone(),
            psp: self.psp.clone(),
        })
    }

    /// Adds shipped orders, each with its charge, one per second since some days ago. Half of them are another principal's.
    pub(crate) async fn add_history(&self, orders: i32, days_ago: i32) -> Vec<Uuid> {
        let ids: Vec<Uuid> = sqlx::query_scalar(
            "insert into orders (id, principal_id, customer_id, status, version, amount, currency,
                                 payment_method, content_hash, correlation_id, created_at)
             select gen_random_uuid(), case n % 2 when 0 then 'acme' else 'globex' end, 'c', 'shipped',
                    3, 5000, 'USD', 'pm', '', 'corr',
                    now() - make_interval(days => $2) + make_interval(secs => n)
             from generate_series(1, $1) as n returning id",
        )
        .bind(orders)
        .bind(days_ago)
        .fetch_all(&self.order)
        .await
        .unwrap();
        sqlx::query(
            "insert into charges (id, idempotency_key, reference, amount, currency, payment_method,
                                  status, created_at)
             select (lpad(to_hex((extract(epoch from now()) * 1000)::bigint - $2 * 86400000::bigint
                                 + n * 1000), 12, '0')
                     || '7' || substr(md5(reference), 1, 3) || '8' || substr(md5(reference), 4, 15)
                    )::uuid,
                    'pay:' || reference || ':1', reference, 5000, 'USD', 'pm', 'captured', now()
             from unnest($1::text[]) with ordinality as shipped (reference, n)",
        )
        .bind(ids.iter().map(Uuid::to_string).collect::<Vec<_>>())
        .bind(days_ago)
        .execute(&self.psp)
        .await
        .unwrap();
        ids
    }

    pub(crate) async fn add_order(&self, status: &str) -> Uuid {
        sqlx::query_scalar(
            "insert into orders (id, principal_id, customer_id, status, amount, currency,
                                 payment_method, content_hash, correlation_id)
             values (gen_random_uuid(), 'acme', 'c', $1, 5000, 'USD', 'pm', '', 'corr')
             returning id",
        )
        .bind(status)
        .fetch_one(&self.order)
        .await
        .unwrap()
    }

    pub(crate) async fn set_status(&self, order: Uuid, status: &str) {
        sqlx::query("update orders set status = $2 where id = $1")
            .bind(order)
            .bind(status)
            .execute(&self.order)
            .await
            .unwrap();
    }

    /// Adds a charge of 5000 under this id.
    pub(crate) async fn add_charge(&self, id: Uuid, reference: &str, status: &str) {
        sqlx::query(
            "insert into charges (id, idempotency_key, reference, amount, currency, payment_method,
                                  status, created_at, outcome, settles_at)
             values ($1, 'k', $2, 5000, 'USD', 'pm', $3, now(), 'captured', now())",
        )
        .bind(id)
        .bind(reference)
        .bind(status)
        .execute(&self.psp)
        .await
        .unwrap();
    }

    pub(crate) async fn add_refund(&self, charge: Uuid, status: &str) {
        sqlx::query(
            "insert into refunds (id, charge_id, idempotency_key, reference, amount, currency,
                                  status, created_at, outcome, settles_at)
             values ($1, $2, 'back', 'r', 5000, 'USD', $3, now(), 'refunded', now())",
        )
        .bind(Uuid::now_v7())
        .bind(charge)
        .bind(status)
        .execute(&self.psp)
        .await
        .unwrap();
    }

    pub(crate) async fn change_books(&self, sql: &'static str, id: Uuid) {
        let changed = sqlx::query(sql).bind(id).execute(&self.psp).await.unwrap();
        assert_eq!(changed.rows_affected(), 1, "{sql}");
    }
}

/// Steps until everything is read.
pub(crate) async fn load(proof: &mut Proof) -> ProofState {
    for _ in 0..STEPS_MAX {
        let state = proof.step().await.unwrap();
        if state.loaded {
            return state;
        }
    }
    panic!("the history was not read in {STEPS_MAX} steps");
}

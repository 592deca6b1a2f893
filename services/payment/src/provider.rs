//! The interface to a payment provider: the operations that this service needs.
//!
//! Charger, recorder and reconciler know only this trait and [`ProviderAnswer`]. Everything about a
//! provider's protocol (addresses, statuses, error codes) is in its implementation; [`crate::psp`] is
//! the one for the mock provider.

use std::pin::Pin;

use crate::domain::books::Page;
use crate::domain::{Leased, ProviderAnswer, ProviderCall};

/// The result of a call.
pub type AnswerFuture<'a> = Pin<Box<dyn Future<Output = ProviderAnswer> + Send + 'a>>;
pub type BooksPage<'a> = Pin<Box<dyn Future<Output = anyhow::Result<Page>> + Send + 'a>>;

/// A leased row with the trace that the call belongs to. The call must end before the lease does.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    pub leased: &'a Leased,
    pub traceparent: Option<&'a str>,
}

/// A payment provider. Calls never fail: without a response the answer is
/// [`ProviderAnswer::Unknown`].
pub trait Provider: Send + Sync {
    /// Takes the money, once per [`Leased::key`].
    fn charge<'a>(&'a self, call: Call<'a>, payment_method: &'a str) -> AnswerFuture<'a>;
    /// Looks up what the key did, and whether the same order was charged under another key.
    fn look_up_charge<'a>(&'a self, call: Call<'a>) -> AnswerFuture<'a>;
    /// Makes the key unusable, or shows what it did. Called only for a provider that can do this.
    fn cancel_key<'a>(&'a self, call: Call<'a>) -> AnswerFuture<'a>;
    /// Refunds the whole charge, once per [`Leased::key`], unless it was refunded manually.
    fn refund<'a>(&'a self, call: Call<'a>, charge_id: &'a str) -> AnswerFuture<'a>;
    /// Looks up the refund under the key, and manual refunds of the charge.
    fn look_up_refund<'a>(&'a self, call: Call<'a>, charge_id: &'a str) -> AnswerFuture<'a>;
    /// One page of the books: charges in the order of their ids, with their refunds.
    fn books<'a>(&'a self, after: &'a str, limit: u32) -> BooksPage<'a>;
}

/// Makes the call that the row needs.
pub async fn make(provider: &dyn Provider, call: Call<'_>) -> ProviderAnswer {
    match &call.leased.call {
        ProviderCall::Charge { payment_method } => provider.charge(call, payment_method).await,
        ProviderCall::LookUpCharge => provider.look_up_charge(call).await,
        ProviderCall::CancelKey => provider.cancel_key(call).await,
        ProviderCall::Refund { charge_id, .. } => provider.refund(call, charge_id).await,
        ProviderCall::LookUpRefund { charge_id, .. } => {
            provider.look_up_refund(call, charge_id).await
        }
    }
}

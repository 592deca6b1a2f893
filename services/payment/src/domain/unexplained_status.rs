//! The states of a charge that no attempt explains.

use serde::Serialize;
use service_kit::text_enum;

text_enum! {
    "unexplained charge status";
    #[derive(Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum UnexplainedStatus {
        Open = "open",
        /// An attempt has the charge now.
        Explained = "explained",
        /// An operator decided that the money stays.
        Accepted = "accepted",
        /// An operator opened its refund.
        Refunded = "refunded",
    }
}

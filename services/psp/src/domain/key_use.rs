//! What a key was used for. The column `requests.operation` holds its name.

use service_kit::text_enum;

text_enum! {
    "use of a key";
    pub enum KeyUse {
        Charge = "charge",
        Refund = "refund",
        /// The key is cancelled: no charge is made under it inside its window.
        Cancellation = "cancellation",
    }
}

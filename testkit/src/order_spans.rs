//! The spans that one shipped order leaves in its trace.

/// Every step between two processes, by service and span name, in the order of the path.
pub const ORDER_SPANS: [(&str, &str); 12] = [
    ("order", "POST /orders"),
    ("order", "send order.placed"),
    ("payment", "process order.placed"),
    ("payment", "charge"),
    ("psp", "POST /v1/charges"),
    ("payment", "send payment.captured"),
    ("fulfilment", "process payment.captured"),
    ("order", "process payment.captured"),
    ("receipt", "process payment.captured"),
    ("receipt", "SMTP receipt"),
    ("fulfilment", "send fulfilment.shipped"),
    ("order", "process fulfilment.shipped"),
];

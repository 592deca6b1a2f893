//! Requests, prepared before the run. For each order, only the key is written into a copy of a
//! template.

use std::io::Write;

use rand::RngExt;

/// The demo stock is SKU-1 to SKU-99. Using all of it keeps one stock row from being the bottleneck.
const SKUS: usize = 99;
const API_KEYS: [&str; 2] = ["demo-key-acme", "demo-key-globex"];
/// `load-` + 8 hexadecimal digits of the run + `-` + 10 digits of the order.
const KEY_BYTES: usize = 24;

/// How one order's request is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Sent once.
    Plain,
    /// Sent again after its response.
    Retried,
    /// Sent twice in parallel.
    Duplicated,
    /// Sent in full, then the client hangs up and sends it again later.
    HungUp,
}

/// The share of orders of each kind.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mix {
    pub(crate) retry_share: f64,
    pub(crate) duplicate_share: f64,
    pub(crate) hangup_share: f64,
}

impl Mix {
    pub(crate) fn draw(&self) -> Kind {
        self.kind_at(rand::rng().random_range(0.0..1.0))
    }

    fn kind_at(&self, point: f64) -> Kind {
        if point < self.retry_share {
            Kind::Retried
        } else if point < self.retry_share + self.duplicate_share {
            Kind::Duplicated
        } else if point < self.retry_share + self.duplicate_share + self.hangup_share {
            Kind::HungUp
        } else {
            Kind::Plain
        }
    }
}

pub(crate) struct Templates {
    run: u32,
    templates: Vec<Template>,
}

struct Template {
    bytes: Vec<u8>,
    key_at: usize,
}

impl Templates {
    /// `run` makes this run's keys differ from those of other runs against the same system.
    pub(crate) fn new(host: &str, run: u32) -> Self {
        let templates = (0..SKUS * API_KEYS.len()).map(|index| {
            let body = body(index % SKUS + 1);
            let head = format!(
                "POST /orders HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n\
                 content-length: {}\r\nidempotency-key: ",
                API_KEYS[index % API_KEYS.len()],
                body.len()
            );
            let key_at = head.len();
            let blank = " ".repeat(KEY_BYTES);
            Template { bytes: format!("{head}{blank}\r\n\r\n{body}").into_bytes(), key_at }
        });
        Self {
            run,
            templates: templates.collect(),
        }
    }

    /// The request of the run's `index`-th order. The same index always gives the same bytes.
    pub(crate) fn request(&self, index: u64) -> Vec<u8> {
        let template = &self.templates[(index % self.templates.len() as u64) as usize];
        let mut request = template.bytes.clone();
        let mut key = &mut request[template.key_at..template.key_at + KEY_BYTES];
        // The slot has exactly the key's length, so the write cannot run out of space.
        let written = write!(key, "load-{:08x}-{index:010}", self.run);
        debug_assert!(written.is_ok() && key.is_empty());
        request
    }
}

fn body(sku: usize) -> String {
    let unit_price = 1_000 + sku;
    format!(
        "{{\"customer_id\":\"cust-{sku}\",\"currency\":\"USD\",\"items\":[{{\"sku\":\"SKU-{sku}\",\"quantity\":1,\"unit_price\":{unit_price}}}],\"payment_method\":\"pm_card_ok\"}}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_keeps_its_own_key() {
        let templates = Templates::new("127.0.0.1:8081", 0xbeef);
        let text = |index| String::from_utf8(templates.request(index)).unwrap();
        assert!(text(7).contains("idempotency-key: load-0000beef-0000000007\r\n\r\n{"));
        assert_eq!(text(7), text(7));
        assert_ne!(text(7), text(7 + (SKUS * API_KEYS.len()) as u64));
    }

    #[test]
    fn shares_are_consecutive_parts_of_the_unit_interval() {
        let mix = Mix {
            retry_share: 0.1,
            duplicate_share: 0.1,
            hangup_share: 0.1,
        };
        let kinds = [0.0, 0.15, 0.25, 0.35].map(|point| mix.kind_at(point));
        assert_eq!(
            kinds,
            [Kind::Retried, Kind::Duplicated, Kind::HungUp, Kind::Plain]
        );
    }
}

//! The W3C `traceparent` header: `00-<trace id>-<span id>-<flags>`.

use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};

const LEN: usize = 55;

/// Returns `None` for anything except a version-00 header with non-zero ids.
pub fn parse(header: &str) -> Option<SpanContext> {
    let well_formed = header.len() == LEN
        && header
            .bytes()
            .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b) || b == b'-');
    let mut parts = header.split('-');
    let (version, trace, span, flags) =
        (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    if !well_formed || version != "00" || parts.next().is_some() {
        return None;
    }
    let context = SpanContext::new(
        TraceId::from_hex(trace).ok()?,
        SpanId::from_hex(span).ok()?,
        TraceFlags::new(u8::from_str_radix(flags, 16).ok()?),
        true,
        TraceState::NONE,
    );
    context.is_valid().then_some(context)
}

pub fn format(context: &SpanContext) -> String {
    format!(
        "00-{}-{}-{:02x}",
        context.trace_id(),
        context.span_id(),
        context.trace_flags().to_u8()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_header_round_trips() {
        let header = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert_eq!(format(&parse(header).unwrap()), header);
    }

    #[test]
    fn malformed_headers_are_ignored() {
        for header in [
            "",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0\n",
        ] {
            assert!(parse(header).is_none(), "{header:?}");
        }
    }
}

//! The content of a mail as the server expects it.

/// The line that ends the content.
const END: &str = "\r\n.\r\n";

/// Doubles the dot at the start of a line, which would otherwise end the content early (RFC 5321,
/// section 4.5.2), and adds the end. One string, so that one write sends it.
pub(super) fn encode(content: &[u8]) -> String {
    // Mails are ASCII: bodies with other characters are encoded.
    let content = String::from_utf8_lossy(content);
    let mut encoded = String::with_capacity(content.len() + END.len());
    for line in content.split_inclusive("\r\n") {
        if line.starts_with('.') {
            encoded.push('.');
        }
        encoded.push_str(line);
    }
    encoded.push_str(END);
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leading_dots_are_doubled_and_others_are_not() {
        let encoded = encode(b".\r\na.b\r\n..\r\n");
        assert_eq!(encoded, "..\r\na.b\r\n...\r\n\r\n.\r\n");
    }

    #[test]
    fn content_without_a_line_end_gets_one() {
        assert_eq!(encode(b"text"), "text\r\n.\r\n");
    }
}

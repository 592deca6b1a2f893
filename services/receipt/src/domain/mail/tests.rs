//! The bytes of each mail.

use super::*;

fn receipt() -> Mail {
    Mail {
        mail_type: MailType::Receipt,
        event_id: Uuid::from_u128(1),
        order_id: Uuid::from_u128(2),
        recipient: "cust-88@customers.example".to_owned(),
        amount: Some(Money::new(5_000, "USD".parse().unwrap()).unwrap()),
        lines: vec![Line {
            sku: "SKU-99".to_owned(),
            quantity: 2,
        }],
        reason: None,
        correlation_id: "corr-1".to_owned(),
        created_at: DateTime::UNIX_EPOCH,
    }
}

fn text_of(mail: &Mail) -> String {
    let from = "ChargeOnce <receipts@shop.example>".parse().unwrap();
    let mail = mail.message(&from).unwrap();
    String::from_utf8(mail.formatted()).unwrap()
}

#[test]
fn mail_names_order_amount_and_lines() {
    let expected = "\
        Message-ID: <00000000-0000-0000-0000-000000000001@shop.example>\r\n\
        Date: Thu, 01 Jan 1970 00:00:00 +0000\r\n\
        From: ChargeOnce <receipts@shop.example>\r\n\
        To: cust-88@customers.example\r\n\
        Subject: Your receipt for order 00000000-0000-0000-0000-000000000002\r\n\
        X-Correlation-Id: corr-1\r\n\
        Auto-Submitted: auto-generated\r\n\
        Content-Type: text/plain; charset=utf-8\r\n\
        Content-Transfer-Encoding: 7bit\r\n\
        \r\n\
        Thank you for your order.\r\n\
        \r\n\
        Order:  00000000-0000-0000-0000-000000000002\r\n\
        Paid:   50.00 USD\r\n\
        \r\n     \
             2 x SKU-99\r\n";
    assert_eq!(text_of(&receipt()), expected);
}

#[test]
fn repeat_has_the_same_bytes() {
    assert_eq!(text_of(&receipt()), text_of(&receipt()));
}

#[test]
fn hostile_text_adds_no_header_and_no_line() {
    let mut hostile = receipt();
    hostile.correlation_id = "a\r\nBcc: b@evil.example".to_owned();
    hostile.lines[0].sku = "SKU\r\n.\r\nMAIL FROM:<>".to_owned();
    let text = text_of(&hostile);
    assert!(text.contains("X-Correlation-Id: aBcc:b@evil.example\r\n"));
    assert!(!text.lines().any(|line| line.starts_with("Bcc")));
    assert!(text.contains("2 x SKU  .  MAIL FROM:<>\r\n"), "{text}");
}

/// The dialogue uses no SMTP extension, so the mail must be 7-bit.
#[test]
fn every_mail_is_sent_as_plain_ascii() {
    let mut foreign = receipt();
    foreign.lines[0].sku = "Größe 38, 靴".repeat(100);
    let text = text_of(&foreign);
    assert!(text.is_ascii(), "{text}");
    assert!(text.lines().all(|line| line.len() <= 998));
}

#[test]
fn invalid_recipient_is_an_error() {
    let mut bad = receipt();
    bad.recipient = "a@b\r\nBcc: c@d".to_owned();
    assert!(
        bad.message(&"receipts@shop.example".parse().unwrap())
            .is_err()
    );
}

/// Subject and body of a mail without lines.
fn words(
    mail_type: MailType,
    reason: Option<&str>,
    amount: Option<(i64, &str)>,
) -> (String, String) {
    let mail = Mail {
        mail_type,
        reason: reason.map(str::to_owned),
        amount: amount
            .map(|(amount, currency)| Money::new(amount, currency.parse().unwrap()).unwrap()),
        lines: Vec::new(),
        ..receipt()
    };
    let text = text_of(&mail);
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let subject = head.lines().find_map(|line| line.strip_prefix("Subject: "));
    let order = mail.order_id.to_string();
    (
        subject.unwrap().replace(&order, "X"),
        body.replace(&order, "X").replace("\r\n", "\n"),
    )
}

#[test]
fn other_mails_say_what_happened_and_name_the_amount() {
    let yen = Some((5_000, "JPY"));
    for (mail_type, reason, amount, subject, body) in [
        (
            MailType::Decline,
            None,
            yen,
            "Payment declined for order X",
            "Your payment for this order was declined. You have not been charged.\n\n\
             Order:  X\nAmount: 5000 JPY\n\n\
             You can pay again with another card or account.\n",
        ),
        (
            MailType::PaymentFailure,
            None,
            yen,
            "Payment failed for order X",
            "Your payment for this order did not go through. You have not been charged.\n\n\
             Order:  X\nAmount: 5000 JPY\n\n\
             You can pay again, with the same or another card or account.\n",
        ),
        (
            MailType::Cancellation,
            Some("cancelled"),
            None,
            "Your order X is cancelled",
            "Your order is cancelled, as requested.\nYou have not been charged for it.\n\n\
             Order:  X\n",
        ),
        (
            MailType::Refund,
            Some("out_of_stock"),
            Some((1_234, "KWD")),
            "Your refund for order X",
            "Your order will not ship, because an item is out of stock.\nWe have refunded what you \
             paid.\n\nOrder:  X\nRefund: 1.234 KWD\n\n\
             Your bank may take some days to show the refund.\n",
        ),
    ] {
        assert_eq!(
            words(mail_type, reason, amount),
            (subject.to_owned(), body.to_owned())
        );
    }
}

#[test]
fn only_a_receipt_thanks_for_the_order() {
    for mail_type in MailType::ALL {
        let (_, body) = words(mail_type, Some("a_new_reason"), Some((1, "USD")));
        let thanks = body.contains("Thank you");
        assert_eq!(thanks, mail_type == MailType::Receipt, "{body}");
        assert!(!body.contains("a_new_reason"), "{body}");
    }
}

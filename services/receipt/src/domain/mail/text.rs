//! What each mail says, in plain words. Lines have at most 76 characters: longer ones are sent encoded.

use std::fmt::Write as _;

use crate::domain::MailType;
use crate::domain::mail::Mail;

pub(super) fn subject(mail: &Mail) -> String {
    let order = mail.order_id;
    match mail.mail_type {
        MailType::Receipt => format!("Your receipt for order {order}"),
        MailType::Decline => format!("Payment declined for order {order}"),
        MailType::PaymentFailure => format!("Payment failed for order {order}"),
        MailType::Cancellation => format!("Your order {order} is cancelled"),
        MailType::Refund => format!("Your refund for order {order}"),
    }
}

pub(super) fn body(mail: &Mail) -> String {
    match mail.mail_type {
        MailType::Receipt => {
            let mut text = facts("Thank you for your order.", mail, "Paid");
            text.push('\n');
            for line in &mail.lines {
                // Writing to a string cannot fail.
                let _ = writeln!(text, "{:>6} x {}", line.quantity, on_one_line(&line.sku));
            }
            text
        }
        MailType::Decline => {
            let opening = "Your payment for this order was declined. You have not been charged.";
            let mut text = facts(opening, mail, "Amount");
            text.push_str("\nYou can pay again with another card or account.\n");
            text
        }
        MailType::PaymentFailure => {
            let opening =
                "Your payment for this order did not go through. You have not been charged.";
            let mut text = facts(opening, mail, "Amount");
            text.push_str("\nYou can pay again, with the same or another card or account.\n");
            text
        }
        MailType::Cancellation => {
            let why = why(mail.reason.as_deref());
            let opening =
                format!("Your order is cancelled{why}.\nYou have not been charged for it.");
            facts(&opening, mail, "Amount")
        }
        MailType::Refund => {
            let why = why(mail.reason.as_deref());
            let opening =
                format!("Your order will not ship{why}.\nWe have refunded what you paid.");
            let mut text = facts(&opening, mail, "Refund");
            text.push_str("\nYour bank may take some days to show the refund.\n");
            text
        }
    }
}

/// The opening, the order and the amount, if there is one.
fn facts(opening: &str, mail: &Mail, amount_name: &str) -> String {
    let mut text = format!("{opening}\n\nOrder:  {}\n", mail.order_id);
    if let Some(amount) = mail.amount {
        let label = format!("{amount_name}:");
        let _ = writeln!(text, "{label:<8}{amount}");
    }
    text
}

/// A reason that we do not know is left out: the customer cannot use an internal name.
fn why(reason: Option<&str>) -> &'static str {
    match reason {
        Some("out_of_stock") => ", because an item is out of stock",
        Some("cancelled") => ", as requested",
        _ => "",
    }
}

fn on_one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

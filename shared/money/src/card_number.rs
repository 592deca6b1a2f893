//! Recognises card numbers, so that none is stored, published, logged or sent back.
//!
//! A card number belongs to the provider only. A system that stores one falls under the rules of the
//! card industry (PCI DSS), with every table, topic, log and backup that holds it.

use std::ops::RangeInclusive;

/// Lengths of card numbers (ISO/IEC 7812).
const DIGITS: RangeInclusive<usize> = 13..=19;

/// Whether the whole text is a card number: 13 to 19 digits that pass the Luhn check, perhaps with
/// spaces and dashes. One number in ten passes the check by chance. Text with other characters is
/// not a card number: a name such as `pm_4111…` must not be rejected by chance.
pub fn is_card_number(text: &str) -> bool {
    let mut digits = Vec::with_capacity(*DIGITS.end());
    for character in text.chars() {
        match character.to_digit(10) {
            Some(_) if digits.len() == *DIGITS.end() => return false,
            Some(digit) => digits.push(digit),
            None if is_separator(character) => {}
            None => return false,
        }
    }
    DIGITS.contains(&digits.len()) && passes_luhn(&digits)
}

/// Whether a card number is somewhere in the text, as in an error message that quotes its input.
pub fn has_card_number(text: &str) -> bool {
    text.split(|c: char| !c.is_ascii_digit() && !is_separator(c))
        .any(is_card_number)
}

fn is_separator(character: char) -> bool {
    matches!(character, ' ' | '-')
}

fn passes_luhn(digits: &[u32]) -> bool {
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(place, digit)| match place % 2 {
            0 => *digit,
            _ => digit * 2 / 10 + digit * 2 % 10,
        })
        .sum();
    sum.is_multiple_of(10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_pass_the_check_are_card_numbers() {
        for number in [
            "4111111111111111",
            "4111 1111 1111 1111",
            " 4111-1111-1111-1111 ",
            "378282246310005",
            "4222222222222",
            "6304000000000000000",
        ] {
            assert!(is_card_number(number), "{number}");
            assert!(has_card_number(&format!("expected \"{number}\", got 1")));
        }
    }

    #[test]
    fn other_text_is_not_a_card_number() {
        for text in [
            "",
            "4111111111111112",
            "411111111111",
            "41111111111111111111111111111111",
            "pm_4111111111111111",
            "4111.1111.1111.1111",
            "٤١١١١١١١١١١١١١١١",
        ] {
            assert!(!is_card_number(text), "{text}");
        }
        assert!(!has_card_number("at line 1 column 4111"));
    }
}

//! A real order as a template: its rows in every table, in which ids, times and key are replaced. So a filled row has
//! whatever the services write, and stays right when a table changes.

use chrono::DateTime;
use events::{EventType, event_ids};
use uuid::Uuid;

use super::history::History;

/// The number of the only attempt of each template.
const ATTEMPT: i32 = 1;
/// `load-` and the rest of a key of the load generator.
const KEY_PREFIX: &str = "load-";
const KEY_BYTES: usize = 24;
const UUID_BYTES: usize = 36;

/// A value of a row, as text.
pub(super) enum Field {
    Null,
    Text(String),
    /// What is in a column of bytes.
    Bytes(Vec<u8>),
    /// A time in microseconds.
    Time(i64),
}

/// One shipped order, and the ids that its rows have in common.
pub(super) struct Template {
    order_id: Uuid,
    placed_us: i64,
    events: Vec<(EventType, Uuid)>,
    others: Vec<Other>,
}

/// An id that is neither the order's nor an event's: a charge, a correlation.
struct Other {
    id: Uuid,
    /// Time from the order to this id, if the id has a time.
    later_us: i64,
}

/// A row of a template, ready to be written for another order.
#[derive(Debug, PartialEq)]
pub(super) struct Row(Vec<Piece>);

#[derive(Debug, PartialEq)]
enum Piece {
    Literal(Vec<u8>),
    Id(Id, Encoding),
    Key(Encoding),
    /// This much later than the order.
    Time(i64),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Id {
    Order,
    Event(EventType),
    /// By its place in [`Template::others`].
    Other(usize),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Encoding {
    Text,
    /// Two digits per byte.
    Hex,
}

impl Template {
    pub(super) fn new(order_id: Uuid) -> Self {
        Self {
            order_id,
            placed_us: time_us(order_id).unwrap_or_default(),
            events: event_ids(order_id, ATTEMPT).collect(),
            others: Vec::new(),
        }
    }

    pub(super) fn order_id(&self) -> Uuid {
        self.order_id
    }

    pub(super) fn event_ids(&self) -> impl Iterator<Item = Uuid> {
        self.events.iter().map(|(_, id)| *id)
    }

    /// The key under which the provider knows the charge.
    pub(super) fn charge_key(&self) -> String {
        format!("pay:{}:{ATTEMPT}", self.order_id)
    }

    /// Whether a row with these fields belongs to this order.
    pub(super) fn owns(&self, fields: &[Field]) -> bool {
        let known = |id: Uuid| id == self.order_id || self.event_ids().any(|event| event == id);
        fields.iter().any(|field| match field {
            Field::Text(text) => ids(text).any(|(_, id)| known(id)),
            _ => false,
        })
    }

    /// Replaces what differs between orders, in the text format of COPY.
    pub(super) fn row(&mut self, fields: &[Field]) -> Row {
        let mut pieces = Vec::new();
        for (index, field) in fields.iter().enumerate() {
            if index > 0 {
                pieces.push(Piece::Literal(b"\t".to_vec()));
            }
            match field {
                Field::Null => pieces.push(Piece::Literal(b"\\N".to_vec())),
                Field::Time(us) => pieces.push(Piece::Time(us - self.placed_us)),
                Field::Text(text) => self.add_text(&mut pieces, text, Encoding::Text),
                Field::Bytes(bytes) => {
                    pieces.push(Piece::Literal(b"\\\\x".to_vec()));
                    match std::str::from_utf8(bytes) {
                        Ok(text) => self.add_text(&mut pieces, text, Encoding::Hex),
                        Err(_) => pieces.push(Encoding::Hex.literal(bytes)),
                    }
                }
            }
        }
        pieces.push(Piece::Literal(b"\n".to_vec()));
        Row(pieces)
    }

    fn add_text(&mut self, pieces: &mut Vec<Piece>, text: &str, encoding: Encoding) {
        let mut replaced: Vec<(usize, usize, Piece)> = ids(text)
            .map(|(at, id)| (at, UUID_BYTES, Piece::Id(self.find(id), encoding)))
            .collect();
        replaced.extend(keys(text).map(|at| (at, KEY_BYTES, Piece::Key(encoding))));
        replaced.sort_by_key(|(at, ..)| *at);
        let mut done = 0;
        for (at, bytes, piece) in replaced {
            pieces.push(encoding.literal(&text.as_bytes()[done..at]));
            pieces.push(piece);
            done = at + bytes;
        }
        pieces.push(encoding.literal(&text.as_bytes()[done..]));
    }

    fn find(&mut self, id: Uuid) -> Id {
        if id == self.order_id {
            return Id::Order;
        }
        if let Some((event, _)) = self.events.iter().find(|(_, event)| *event == id) {
            return Id::Event(*event);
        }
        if let Some(place) = self.others.iter().position(|other| other.id == id) {
            return Id::Other(place);
        }
        let later_us = time_us(id).map_or(0, |us| us - self.placed_us);
        self.others.push(Other { id, later_us });
        Id::Other(self.others.len() - 1)
    }

    /// Writes the row for another order.
    pub(super) fn write(&self, row: &Row, history: &History, order: u64, out: &mut Vec<u8>) {
        for piece in &row.0 {
            match piece {
                Piece::Literal(bytes) => out.extend_from_slice(bytes),
                Piece::Key(encoding) => encoding.write(history.key(order).as_bytes(), out),
                Piece::Time(later_us) => {
                    let at = DateTime::from_timestamp_micros(history.time_us(order) + later_us);
                    let text = at.unwrap_or_default().format("%Y-%m-%d %H:%M:%S%.6f+00");
                    out.extend_from_slice(text.to_string().as_bytes());
                }
                Piece::Id(id, encoding) => {
                    let id = match *id {
                        Id::Order => history.order_id(order),
                        Id::Event(event) => event_id(history.order_id(order), event),
                        Id::Other(place) => {
                            let Other { id, later_us } = self.others[place];
                            history.other_id(order, place, id, later_us)
                        }
                    };
                    let mut text = [0; UUID_BYTES];
                    encoding.write(id.hyphenated().encode_lower(&mut text).as_bytes(), out);
                }
            }
        }
    }
}

impl Encoding {
    fn literal(self, bytes: &[u8]) -> Piece {
        let mut out = Vec::with_capacity(bytes.len());
        self.write(bytes, &mut out);
        Piece::Literal(out)
    }

    /// In the text format of COPY.
    fn write(self, bytes: &[u8], out: &mut Vec<u8>) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        for byte in bytes {
            match (self, byte) {
                (Self::Hex, byte) => {
                    out.push(DIGITS[usize::from(byte >> 4)]);
                    out.push(DIGITS[usize::from(byte & 15)]);
                }
                (Self::Text, b'\\') => out.extend_from_slice(b"\\\\"),
                (Self::Text, b'\t') => out.extend_from_slice(b"\\t"),
                (Self::Text, b'\n') => out.extend_from_slice(b"\\n"),
                (Self::Text, b'\r') => out.extend_from_slice(b"\\r"),
                (Self::Text, byte) => out.push(*byte),
            }
        }
    }
}

/// Where the text has ids, and which.
fn ids(text: &str) -> impl Iterator<Item = (usize, Uuid)> {
    // Every id has a hyphen here, so the text is not parsed at each of its places.
    const FIRST_HYPHEN: usize = 8;
    let hyphens = text.match_indices('-').map(|(at, _)| at);
    hyphens.filter_map(move |hyphen| {
        let at = hyphen.checked_sub(FIRST_HYPHEN)?;
        let id = Uuid::try_parse(text.get(at..at + UUID_BYTES)?).ok()?;
        Some((at, id))
    })
}

/// Where the text has keys of the load generator.
fn keys(text: &str) -> impl Iterator<Item = usize> {
    let starts = text.match_indices(KEY_PREFIX).map(|(at, _)| at);
    starts.filter(|at| {
        let rest = text.get(at + KEY_PREFIX.len()..at + KEY_BYTES);
        rest.is_some_and(|rest| rest.bytes().all(|it| it.is_ascii_hexdigit() || it == b'-'))
    })
}

fn event_id(order_id: Uuid, event: EventType) -> Uuid {
    let all = &mut event_ids(order_id, ATTEMPT);
    all.find(|(known, _)| *known == event)
        .map_or(Uuid::nil(), |(_, id)| id)
}

fn time_us(id: Uuid) -> Option<i64> {
    let (seconds, nanos) = id.get_timestamp()?.to_unix();
    Some(seconds as i64 * 1_000_000 + i64::from(nanos) / 1_000)
}

#[cfg(test)]
mod tests {
    use chrono::Utc;

    use super::*;

    /// The row of order 3, written from a template with these fields.
    fn written(template: &mut Template, history: &History, fields: &[Field]) -> String {
        let row = template.row(fields);
        let mut out = Vec::new();
        template.write(&row, history, 3, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn ids_times_and_keys_are_those_of_the_other_order() {
        let mut template = Template::new(Uuid::now_v7());
        let history = History::new(10, 5, Utc::now());
        let (mine, theirs) = (template.order_id, history.order_id(3));
        let charge = Uuid::now_v7();
        let captured = EventType::PaymentCaptured;
        let event = event_id(mine, captured);
        let line = written(
            &mut template,
            &history,
            &[
                Field::Text(format!("pay:{mine}:1")),
                Field::Text(format!("{{\"id\":\"{charge}\",\"a\\b\":1}}")),
                Field::Null,
                Field::Text(event.to_string()),
                Field::Text("load-0000beef-0000000007".to_owned()),
                Field::Bytes(format!("id {mine}").into_bytes()),
            ],
        );
        let fields: Vec<&str> = line.trim_end_matches('\n').split('\t').collect();
        assert_eq!(fields[0], format!("pay:{theirs}:1"));
        let other = history.other_id(3, 0, charge, 0);
        assert!(fields[1].ends_with("\",\"a\\\\b\":1}"), "{}", fields[1]);
        assert_eq!(ids(fields[1]).next().unwrap().1.get_version_num(), 7);
        assert_eq!(other.get_version_num(), 7);
        assert_eq!(fields[2], "\\N");
        assert_eq!(fields[3], event_id(theirs, captured).to_string());
        assert_eq!(fields[4], history.key(3));
        let hex: String = format!("id {theirs}")
            .bytes()
            .map(|it| format!("{it:02x}"))
            .collect();
        assert_eq!(fields[5], format!("\\\\x{hex}"));
    }

    #[test]
    fn one_id_is_replaced_by_one_id_in_every_table() {
        let mut template = Template::new(Uuid::now_v7());
        let history = History::new(10, 5, Utc::now());
        let charge = Uuid::now_v7().to_string();
        let first = written(&mut template, &history, &[Field::Text(charge.clone())]);
        let second = written(&mut template, &history, &[Field::Text(charge.clone())]);
        assert_eq!(first, second);
        assert_ne!(first.trim_end(), charge);
    }

    #[test]
    fn times_keep_their_distance_from_the_order() {
        let mut template = Template::new(Uuid::now_v7());
        let history = History::new(10, 5, Utc::now());
        let later = Field::Time(template.placed_us + 1_500);
        let line = written(&mut template, &history, &[later]);
        let expected = DateTime::from_timestamp_micros(history.time_us(3) + 1_500).unwrap();
        assert_eq!(
            line.trim_end(),
            expected.format("%Y-%m-%d %H:%M:%S%.6f+00").to_string()
        );
    }

    #[test]
    fn rows_are_found_by_order_or_event() {
        let template = Template::new(Uuid::now_v7());
        let event = template.events[0].1;
        assert!(template.owns(&[Field::Null, Field::Text(event.to_string())]));
        assert!(template.owns(&[Field::Text(template.charge_key())]));
        assert!(!template.owns(&[Field::Text(Uuid::now_v7().to_string())]));
    }
}

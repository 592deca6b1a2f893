//! The part of Kafka's protocol that names brokers: the answers to Metadata and FindCoordinator.

use std::io;
use std::net::SocketAddr;

const METADATA: i16 = 3;
const FIND_COORDINATOR: i16 = 10;
/// From this version on, lengths are variable and every structure ends with tags.
const METADATA_FLEXIBLE: i16 = 9;
/// From this version on, the answer has another form. librdkafka asks for older ones.
const FIND_COORDINATOR_FLEXIBLE: i16 = 3;

/// A request whose answer names brokers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) api: Api,
    version: i16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Api {
    Metadata,
    FindCoordinator,
}

impl Request {
    /// The correlation id and the kind of a request; nothing for all other kinds.
    pub(super) fn of(frame: &[u8]) -> Option<(i32, Self)> {
        let mut reader = Reader(frame);
        let (api, version) = (reader.i16().ok()?, reader.i16().ok()?);
        let api = match api {
            METADATA => Api::Metadata,
            FIND_COORDINATOR if version < FIND_COORDINATOR_FLEXIBLE => Api::FindCoordinator,
            _ => return None,
        };
        Some((reader.i32().ok()?, Self { api, version }))
    }
}

pub(super) fn correlation_id(frame: &[u8]) -> Option<i32> {
    Reader(frame).i32().ok()
}

/// The answer with this address in place of each broker's, or without brokers.
pub(super) fn with_brokers(
    request: Request,
    frame: &[u8],
    address: Option<SocketAddr>,
) -> io::Result<Vec<u8>> {
    let mut copy = Copy {
        reader: Reader(frame),
        written: Vec::with_capacity(frame.len()),
        is_flexible: request.api == Api::Metadata && request.version >= METADATA_FLEXIBLE,
    };
    match request.api {
        Api::Metadata => copy.metadata(request.version, address)?,
        Api::FindCoordinator => copy.coordinator(request.version, address)?,
    }
    copy.written.extend_from_slice(copy.reader.0);
    Ok(copy.written)
}

/// Copies an answer up to the last broker, field by field.
struct Copy<'a> {
    reader: Reader<'a>,
    written: Vec<u8>,
    is_flexible: bool,
}

impl Copy<'_> {
    fn metadata(&mut self, version: i16, address: Option<SocketAddr>) -> io::Result<()> {
        self.bytes(4)?; // Correlation id.
        self.tags()?;
        if version >= 3 {
            self.bytes(4)?; // Throttle time.
        }
        let brokers = self.reader.length(self.is_flexible)?.unwrap_or_default();
        self.write_length(if address.is_some() { brokers } else { 0 });
        for _ in 0..brokers {
            let before = self.written.len();
            self.bytes(4)?; // Node id.
            self.broker_address(address)?;
            if version >= 1 {
                let rack = self.reader.text(self.is_flexible)?;
                self.write_text(rack);
            }
            self.tags()?;
            if address.is_none() {
                self.written.truncate(before);
            }
        }
        Ok(())
    }

    fn coordinator(&mut self, version: i16, address: Option<SocketAddr>) -> io::Result<()> {
        self.bytes(4)?; // Correlation id.
        if version >= 1 {
            self.bytes(4)?; // Throttle time.
        }
        let error = self.reader.i16()?;
        self.written.extend_from_slice(&error.to_be_bytes());
        if version >= 1 {
            let message = self.reader.text(false)?;
            self.write_text(message);
        }
        self.bytes(4)?; // Node id.
        // An error names no coordinator.
        let address = address.filter(|_| error == 0);
        self.broker_address(address)
    }

    /// Host and port.
    fn broker_address(&mut self, address: Option<SocketAddr>) -> io::Result<()> {
        let host = self.reader.text(self.is_flexible)?;
        let port = self.reader.i32()?;
        match address {
            Some(address) => {
                self.write_text(Some(address.ip().to_string().as_bytes()));
                let port = i32::from(address.port());
                self.written.extend_from_slice(&port.to_be_bytes());
            }
            None => {
                self.write_text(host);
                self.written.extend_from_slice(&port.to_be_bytes());
            }
        }
        Ok(())
    }

    fn bytes(&mut self, count: usize) -> io::Result<()> {
        let bytes = self.reader.bytes(count)?;
        self.written.extend_from_slice(bytes);
        Ok(())
    }

    /// The tags at the end of a structure. Brokers send none in these answers.
    fn tags(&mut self) -> io::Result<()> {
        if !self.is_flexible {
            return Ok(());
        }
        match self.reader.varint()? {
            0 => self.written.push(0),
            _ => return Err(io::ErrorKind::Unsupported.into()),
        }
        Ok(())
    }

    fn write_text(&mut self, text: Option<&[u8]>) {
        let length = text.map(<[u8]>::len);
        if self.is_flexible {
            self.write_varint(length.map_or(0, |length| length + 1));
        } else {
            let length = length.map_or(-1, |length| i16::try_from(length).unwrap_or(i16::MAX));
            self.written.extend_from_slice(&length.to_be_bytes());
        }
        self.written.extend_from_slice(text.unwrap_or_default());
    }

    fn write_length(&mut self, length: usize) {
        if self.is_flexible {
            self.write_varint(length + 1);
        } else {
            let length = i32::try_from(length).unwrap_or(i32::MAX);
            self.written.extend_from_slice(&length.to_be_bytes());
        }
    }

    fn write_varint(&mut self, mut value: usize) {
        while value >= 0x80 {
            self.written.push(0x80 | (value & 0x7f) as u8);
            value >>= 7;
        }
        self.written.push(value as u8);
    }
}

/// What is left to read.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: usize) -> io::Result<&'a [u8]> {
        let split = self.0.split_at_checked(count);
        let (bytes, rest) = split.ok_or(io::ErrorKind::UnexpectedEof)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let bytes = self.bytes(N)?.try_into();
        Ok(bytes.map_err(|_| io::ErrorKind::UnexpectedEof)?)
    }

    fn i16(&mut self) -> io::Result<i16> {
        Ok(i16::from_be_bytes(self.array()?))
    }

    fn i32(&mut self) -> io::Result<i32> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    fn varint(&mut self) -> io::Result<usize> {
        let mut value = 0;
        for shift in (0..32).step_by(7) {
            let [byte] = self.array()?;
            value |= usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(io::ErrorKind::InvalidData.into())
    }

    /// The length of an array; `None` for a null array.
    fn length(&mut self, is_flexible: bool) -> io::Result<Option<usize>> {
        match is_flexible {
            true => Ok(self.varint()?.checked_sub(1)),
            false => Ok(usize::try_from(self.i32()?).ok()),
        }
    }

    /// A text; `None` for a null text.
    fn text(&mut self, is_flexible: bool) -> io::Result<Option<&'a [u8]>> {
        let length = match is_flexible {
            true => self.varint()?.checked_sub(1),
            false => usize::try_from(self.i16()?).ok(),
        };
        length.map(|length| self.bytes(length)).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address() -> SocketAddr {
        ([127, 0, 0, 1], 7).into()
    }

    fn request(api: Api, version: i16) -> Request {
        Request { api, version }
    }

    #[test]
    fn metadata_names_the_proxy_or_no_broker() {
        let (head, tail) = (b"\0\0\0\x05\0\0\0\0", b"the rest");
        let broker =
            |host: &[u8], port: u8| [b"\0\0\0\x01", host, &[0, 0, 0, port, 0xff, 0xff]].concat();
        let answer = |brokers: &[u8]| [head, brokers, tail].concat();
        let real = [b"\0\0\0\x01", &broker(b"\0\x06broker", 9)[..]].concat();
        let other = [b"\0\0\0\x01", &broker(b"\0\x09127.0.0.1", 7)[..]].concat();
        let metadata = request(Api::Metadata, 8);
        let changed = with_brokers(metadata, &answer(&real), Some(address())).unwrap();
        assert_eq!(changed, answer(&other));
        let hidden = with_brokers(metadata, &answer(&real), None).unwrap();
        assert_eq!(hidden, answer(b"\0\0\0\0"));
    }

    #[test]
    fn flexible_metadata_names_the_proxy_or_no_broker() {
        let (head, tail) = (b"\0\0\0\x05\0\0\0\0\0", b"the rest");
        let answer = |brokers: &[u8]| [&head[..], brokers, tail].concat();
        let real = answer(b"\x02\0\0\0\x01\x07broker\0\0\0\x09\0\0");
        let metadata = request(Api::Metadata, 12);
        let changed = with_brokers(metadata, &real, Some(address())).unwrap();
        assert_eq!(
            changed,
            answer(b"\x02\0\0\0\x01\x0a127.0.0.1\0\0\0\x07\0\0")
        );
        let hidden = with_brokers(metadata, &real, None).unwrap();
        assert_eq!(hidden, answer(b"\x01"));
    }

    #[test]
    fn coordinator_is_the_proxy_unless_there_is_none() {
        let answer = |error: u8, address: &[u8]| {
            let head = [
                &b"\0\0\0\x05\0\0\0\0\0"[..],
                &[error],
                b"\xff\xff\0\0\0\x01",
            ]
            .concat();
            [&head, address].concat()
        };
        let find = request(Api::FindCoordinator, 2);
        let real = answer(0, b"\0\x06broker\0\0\0\x09");
        let changed = with_brokers(find, &real, Some(address())).unwrap();
        assert_eq!(changed, answer(0, b"\0\x09127.0.0.1\0\0\0\x07"));
        let none = answer(15, b"\0\0\xff\xff\xff\xff");
        assert_eq!(with_brokers(find, &none, Some(address())).unwrap(), none);
    }

    #[test]
    fn other_requests_are_not_noted() {
        let frame = |api: u8, version: u8| [0, api, 0, version, 0, 0, 0, 5];
        let metadata = Some((5, request(Api::Metadata, 12)));
        assert_eq!(Request::of(&frame(3, 12)), metadata);
        assert_eq!(Request::of(&frame(1, 12)), None, "Fetch");
        assert_eq!(Request::of(&frame(3, 12)[..6]), None, "cut off");
    }
}

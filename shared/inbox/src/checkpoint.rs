//! Where a consumer has been in the log: the position and id of a processed event. It is committed to Kafka as the metadata of
//! the offset, so both are always from the same log.

use uuid::Uuid;

/// The offset of a message in its partition, and the id of its event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    pub(crate) offset: i64,
    pub(crate) event_id: Uuid,
}

impl Checkpoint {
    /// The metadata of a committed offset.
    pub(crate) fn to_metadata(checkpoint: Option<Self>) -> String {
        checkpoint.map_or_else(String::new, |it| format!("{} {}", it.offset, it.event_id))
    }

    /// `None` for metadata that is empty or of another program, such as a tool that resets offsets.
    pub(crate) fn from_metadata(metadata: &str) -> Option<Self> {
        let (offset, event_id) = metadata.split_once(' ')?;
        Some(Self {
            offset: offset.parse().ok()?,
            event_id: event_id.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_read_back() {
        let checkpoint = Some(Checkpoint {
            offset: 1_234_567_890_123,
            event_id: Uuid::new_v4(),
        });
        assert_eq!(
            Checkpoint::from_metadata(&Checkpoint::to_metadata(checkpoint)),
            checkpoint
        );
        assert_eq!(
            Checkpoint::from_metadata(&Checkpoint::to_metadata(None)),
            None
        );
    }

    #[test]
    fn metadata_of_other_programs_is_no_checkpoint() {
        for metadata in ["", " ", "12", "reset by admin", "-x 7", "12 not-an-id"] {
            assert_eq!(Checkpoint::from_metadata(metadata), None, "{metadata}");
        }
    }
}

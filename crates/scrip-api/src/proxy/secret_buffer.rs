//! A byte buffer that wipes its memory, also when it grows.

use std::{fmt, io};

use bytes::Bytes;
use zeroize::{Zeroize, Zeroizing};

/// A byte of a text becomes at most this many bytes in JSON, in a form or in XML. Hidden values count
/// by it, and not by their encoded length.
pub(crate) const ENCODED_GROWTH: usize = 6;

/// Collects a rendered message, up to a maximum length.
pub struct SecretBuffer {
    bytes: Zeroizing<Vec<u8>>,
    /// The length, with hidden values as they count.
    counted_bytes: usize,
    /// Whether the pushed bytes are of a hidden value, which is counted already.
    is_in_hidden_value: bool,
    bytes_max: usize,
}

/// The message is longer than the maximum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferFull;

impl SecretBuffer {
    pub fn new(capacity: usize, bytes_max: usize) -> Self {
        let bytes = Zeroizing::new(Vec::with_capacity(capacity.min(bytes_max)));
        Self { bytes, counted_bytes: 0, is_in_hidden_value: false, bytes_max }
    }

    /// Errors: the buffer would be longer than its maximum.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), BufferFull> {
        if !self.is_in_hidden_value {
            self.count(bytes.len())?;
        }
        let length = self.bytes.len().saturating_add(bytes.len());
        if length > self.bytes.capacity() {
            self.grow(length);
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// Counts this size for all bytes up to [`SecretBuffer::end_hidden_value`], whatever their number.
    /// Errors: the buffer would count more than its maximum.
    pub(crate) fn start_hidden_value(&mut self, counted_bytes: usize) -> Result<(), BufferFull> {
        self.is_in_hidden_value = true;
        self.count(counted_bytes)
    }

    pub(crate) fn end_hidden_value(&mut self) {
        self.is_in_hidden_value = false;
    }

    fn count(&mut self, bytes: usize) -> Result<(), BufferFull> {
        let counted_bytes = self.counted_bytes.saturating_add(bytes);
        if counted_bytes > self.bytes_max {
            return Err(BufferFull);
        }
        self.counted_bytes = counted_bytes;
        Ok(())
    }

    /// The length, with hidden values as they count.
    pub(crate) fn counted_bytes(&self) -> usize {
        self.counted_bytes
    }

    /// Moves the content to a larger allocation. `Vec` would free the old one without wiping it.
    fn grow(&mut self, length: usize) {
        let capacity = length.max(self.bytes.capacity().saturating_mul(2));
        let mut larger = Vec::with_capacity(capacity);
        larger.extend_from_slice(&self.bytes);
        let mut smaller = std::mem::replace(&mut *self.bytes, larger);
        smaller.zeroize();
    }

    pub fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    /// The content, in memory that is wiped when its last reference is dropped.
    pub fn into_bytes(self) -> Bytes {
        Bytes::from_owner(self.bytes)
    }
}

impl fmt::Debug for SecretBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretBuffer({} bytes)", self.bytes.len())
    }
}

/// For serializers.
impl io::Write for SecretBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.push(bytes).map_err(|BufferFull| io::ErrorKind::FileTooLarge)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffer_counts_hidden_values_by_their_given_size() {
        for length in [1, 200, 400] {
            let mut buffer = SecretBuffer::new(2, 300);
            buffer.start_hidden_value(256).unwrap();
            buffer.push(&vec![b'a'; length]).unwrap();
            buffer.end_hidden_value();
            assert_eq!(buffer.counted_bytes(), 256);
            assert_eq!(buffer.push(&[b'a'; 45]), Err(BufferFull));
            buffer.push(&[b'a'; 44]).unwrap();
            assert_eq!(buffer.start_hidden_value(256), Err(BufferFull));
            assert_eq!(buffer.as_slice().len(), length + 44);
        }
    }

    #[test]
    fn buffer_keeps_its_content_when_it_grows_and_ends_at_its_maximum() {
        let mut buffer = SecretBuffer::new(2, 10);
        for _ in 0..5 {
            buffer.push(b"ab").unwrap();
        }
        assert_eq!(buffer.push(b"c"), Err(BufferFull));
        assert_eq!(buffer.as_slice(), b"ababababab");
        assert_eq!(format!("{buffer:?}"), "SecretBuffer(10 bytes)");
        assert_eq!(buffer.into_bytes(), b"ababababab".as_slice());
    }
}

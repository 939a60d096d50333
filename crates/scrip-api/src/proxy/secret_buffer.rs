//! A byte buffer that wipes its memory, also when it grows.

use std::{fmt, io};

use bytes::Bytes;
use scrip_core::token::expression::message::ValueCounting;
use zeroize::{Zeroize, Zeroizing};

/// Collects a rendered message, up to a maximum length.
pub struct SecretBuffer {
    bytes: Zeroizing<Vec<u8>>,
    /// The bytes by which values count more than their length.
    padding: usize,
    bytes_max: usize,
}

/// The message is longer than the maximum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferFull;

impl SecretBuffer {
    #[must_use]
    pub fn new(capacity: usize, bytes_max: usize) -> Self {
        let bytes = Zeroizing::new(Vec::with_capacity(capacity.min(bytes_max)));
        Self { bytes, padding: 0, bytes_max }
    }

    /// # Errors
    /// The buffer would be longer than its maximum.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), BufferFull> {
        let length = self.bytes.len().saturating_add(bytes.len());
        if length.saturating_add(self.padding) > self.bytes_max {
            return Err(BufferFull);
        }
        if length > self.bytes.capacity() {
            self.grow(length);
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// Counts the bytes since this length as a value.
    ///
    /// # Errors
    /// The buffer would count more than its maximum.
    pub fn end_value(&mut self, start: usize, counting: ValueCounting) -> Result<(), BufferFull> {
        let length = self.bytes.len().saturating_sub(start);
        let padding = counting.count(length).saturating_sub(length);
        self.padding = self.padding.saturating_add(padding);
        if self.counted_bytes() > self.bytes_max { Err(BufferFull) } else { Ok(()) }
    }

    /// The length, with values as they count.
    #[must_use]
    pub fn counted_bytes(&self) -> usize {
        self.bytes.len().saturating_add(self.padding)
    }

    /// Moves the content to a larger allocation. `Vec` would free the old one without wiping it.
    fn grow(&mut self, length: usize) {
        let capacity = length.max(self.bytes.capacity().saturating_mul(2));
        let mut larger = Vec::with_capacity(capacity);
        larger.extend_from_slice(&self.bytes);
        let mut smaller = std::mem::replace(&mut *self.bytes, larger);
        smaller.zeroize();
    }

    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    /// The content, in memory that is wiped when its last reference is dropped.
    #[must_use]
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
    fn buffer_counts_values_by_their_padded_size() {
        for length in [1, 200] {
            let mut buffer = SecretBuffer::new(2, 300);
            buffer.push(&vec![b'a'; length]).unwrap();
            buffer.end_value(0, ValueCounting::Padded).unwrap();
            assert_eq!(buffer.counted_bytes(), 256);
            assert_eq!(buffer.push(&[b'a'; 45]), Err(BufferFull));
            buffer.push(&[b'a'; 44]).unwrap();
            assert_eq!(buffer.end_value(length, ValueCounting::Padded), Err(BufferFull));
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

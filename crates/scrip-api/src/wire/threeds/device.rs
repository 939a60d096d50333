//! What is told of a device: with both names that clients have for the address of a browser.

use std::io;

use scrip_threeds::request::{AttributeReader, AttributeShape, AttributeValue, DeviceInfo};
use serde::Serialize;
use serde_json::{Map, Value};

/// The other name of `browser_ip`.
const IP_ADDRESS_ALIAS: &str = "browser_ip_address";

/// The largest part is encrypted data of an SDK, 64000 characters by EMV.
pub(super) const DEVICE_BYTES_MAX: usize = 72 * 1024;

/// Device information as clients write it.
pub(super) struct DeviceInfoInput(pub(super) DeviceInfo);

impl AttributeValue for DeviceInfoInput {
    fn shape() -> AttributeShape {
        let AttributeShape::Object(mut attributes) = DeviceInfo::shape() else {
            return AttributeShape::Any;
        };
        attributes.push((IP_ADDRESS_ALIAS, AttributeShape::Text));
        AttributeShape::Object(attributes)
    }

    fn read(value: Value, reader: &mut AttributeReader) -> Option<Self> {
        let mut object = reader.object(value)?;
        let address = reader.attribute(&mut object, IP_ADDRESS_ALIAS);
        let mut info = DeviceInfo::read(Value::Object(object), reader)?;
        info.browser_ip = info.browser_ip.or(address);
        Some(Self(info))
    }
}

/// Nothing when nothing was told.
pub(super) fn device_info_json(info: &DeviceInfo) -> Option<Map<String, Value>> {
    let Ok(Value::Object(mut object)) = serde_json::to_value(info) else { return None };
    if let Some(address) = &info.browser_ip {
        object.insert(IP_ADDRESS_ALIAS.to_owned(), address.clone().into());
    }
    Some(object).filter(|it| !it.is_empty())
}

/// How large it is as JSON; nothing of it is kept.
pub(super) fn json_bytes(value: &impl Serialize) -> usize {
    let mut count = ByteCounter(0);
    // Writing to a counter does not fail; what could not be written would be too large.
    let written = serde_json::to_writer(&mut count, value);
    if written.is_ok() { count.0 } else { usize::MAX }
}

struct ByteCounter(usize);

impl io::Write for ByteCounter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.saturating_add(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

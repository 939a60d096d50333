//! JSON of device information. The address of a browser has two names.

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

/// Returns `None` if all attributes are absent.
pub(super) fn device_info_json(info: &DeviceInfo) -> Option<Map<String, Value>> {
    let Ok(Value::Object(mut object)) = serde_json::to_value(info) else { return None };
    if let Some(address) = &info.browser_ip {
        object.insert(IP_ADDRESS_ALIAS.to_owned(), address.clone().into());
    }
    Some(object).filter(|it| !it.is_empty())
}

/// Returns the length as JSON, without allocating it.
pub(super) fn json_bytes(value: &impl Serialize) -> usize {
    let mut counter = ByteCounter(0);
    // Writing to a counter cannot fail. If it did, the value would be rejected as too large.
    let result = serde_json::to_writer(&mut counter, value);
    if result.is_ok() { counter.0 } else { usize::MAX }
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

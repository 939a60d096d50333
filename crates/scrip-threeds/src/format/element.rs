//! The reading and writing of a data element at its place in a message.

use serde_json::Value;

use crate::{
    code::{AuthenticationCategory, DeviceChannel, EmvCode},
    fault::{ErrorCode, FaultList},
    format::Version,
};

/// The position of a value in a message, and the faults found so far.
#[derive(Debug)]
pub struct ElementContext<'a> {
    pub(crate) path: String,
    pub(crate) transaction: &'a TransactionContext,
    pub(crate) faults: &'a mut FaultList,
}

impl ElementContext<'_> {
    pub(crate) fn add_fault(&mut self, code: ErrorCode) {
        self.faults.add(code, self.path.clone());
    }

    /// Records a format fault if `parsed` is `None`.
    pub(crate) fn expect<T>(&mut self, parsed: Option<T>) -> Option<T> {
        if parsed.is_none() {
            self.add_fault(ErrorCode::FormatInvalid);
        }
        parsed
    }

    /// The context of an element of this object.
    pub(crate) fn child(&mut self, name: &str) -> ElementContext<'_> {
        let dot = if self.path.is_empty() { "" } else { "." };
        let path = format!("{}{dot}{name}", self.path);
        ElementContext { path, transaction: self.transaction, faults: self.faults }
    }
}

/// Reads and writes a data element.
pub trait ElementFormat: Sized {
    /// Returns `None` for an invalid value and records the fault.
    fn read(value: &Value, context: &mut ElementContext<'_>) -> Option<Self>;

    fn write(&self) -> Value;
}

/// Messages contain codes as strings.
impl<C: EmvCode> ElementFormat for C {
    fn read(value: &Value, context: &mut ElementContext<'_>) -> Option<Self> {
        context.expect(value.as_str().and_then(C::parse_code))
    }

    fn write(&self) -> Value {
        Value::String(self.to_code())
    }
}

/// Properties of a transaction that are known before its message is read. An `AReq` contains all of
/// them; a response is checked in the context of its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransactionContext {
    pub version: Version,
    pub channel: Option<DeviceChannel>,
    pub category: Option<AuthenticationCategory>,
    pub known_extensions: KnownExtensions,
}

/// The ids of the extensions that the reader understands. Other extensions must not be critical.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KnownExtensions {
    Ids(&'static [&'static str]),
    /// For components that only write or forward messages: the final reader checks the extensions.
    All,
}

impl KnownExtensions {
    pub(crate) fn contains(self, id: &str) -> bool {
        match self {
            Self::Ids(ids) => ids.contains(&id),
            Self::All => true,
        }
    }
}

impl TransactionContext {
    pub fn for_version(version: Version) -> Self {
        Self { version, channel: None, category: None, known_extensions: KnownExtensions::Ids(&[]) }
    }

    #[must_use]
    pub fn with_channel(self, channel: DeviceChannel, category: AuthenticationCategory) -> Self {
        Self { channel: Some(channel), category: Some(category), ..self }
    }
}

/// Between one and `MAX` values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List<T, const MAX: usize>(Vec<T>);

impl<T, const MAX: usize> List<T, MAX> {
    /// Returns `None` for an empty list or too many items.
    pub fn new(items: Vec<T>) -> Option<Self> {
        (1..=MAX).contains(&items.len()).then_some(Self(items))
    }

    pub fn items(&self) -> &[T] {
        &self.0
    }
}

impl<T: ElementFormat, const MAX: usize> ElementFormat for List<T, MAX> {
    fn read(value: &Value, context: &mut ElementContext<'_>) -> Option<Self> {
        let items = value.as_array().filter(|it| (1..=MAX).contains(&it.len()));
        let items = context.expect(items)?;
        // Collected in two steps, so that the faults of all items are recorded.
        let read: Vec<_> = items.iter().map(|it| T::read(it, context)).collect();
        read.into_iter().collect::<Option<_>>().map(Self)
    }

    fn write(&self) -> Value {
        Value::Array(self.0.iter().map(ElementFormat::write).collect())
    }
}

impl ElementFormat for bool {
    fn read(value: &Value, context: &mut ElementContext<'_>) -> Option<Self> {
        context.expect(value.as_bool())
    }

    fn write(&self) -> Value {
        Value::Bool(*self)
    }
}

/// An element that is either true or absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrueFlag;

impl ElementFormat for TrueFlag {
    fn read(value: &Value, context: &mut ElementContext<'_>) -> Option<Self> {
        context.expect((*value == Value::Bool(true)).then_some(Self))
    }

    fn write(&self) -> Value {
        Value::Bool(true)
    }
}

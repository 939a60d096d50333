//! The macro that makes a structure, its reader and its writer of one table.

use serde_json::{Map, Value};

use crate::{
    fault::ErrorCode,
    format::{Format, Place},
    message::{Facts, Need},
};

/// One element of a message or of an object in it.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    #[cfg_attr(not(test), expect(dead_code, reason = "the tests walk the tables"))]
    pub(crate) need: fn(&Facts<'_>) -> Need,
    #[cfg(test)]
    pub(crate) samples: fn() -> Vec<Value>,
    #[cfg(test)]
    pub(crate) refused: fn() -> Vec<Value>,
}

/// What the macro makes.
pub(crate) trait Record: Sized {
    const FIELDS: &'static [Field];

    fn read_fields(object: &Map<String, Value>, place: &mut Place<'_>) -> Option<Self>;

    fn write_fields(&self) -> Map<String, Value>;
}

/// An element that is always there.
pub(crate) fn must<T: Format>(
    object: &Map<String, Value>,
    place: &mut Place<'_>,
    name: &str,
) -> Option<T> {
    let mut place = place.below(name);
    let Some(value) = object.get(name) else {
        place.fault(ErrorCode::ElementMissing);
        return None;
    };
    T::read(value, &mut place)
}

/// An element that is there when its need says so.
pub(crate) fn may<T: Format>(
    object: &Map<String, Value>,
    place: &mut Place<'_>,
    name: &str,
    need: fn(&Facts<'_>) -> Need,
) -> Option<T> {
    let facts = Facts { scene: place.scene, object };
    let mut place = place.below(name);
    match (need(&facts), object.get(name)) {
        (Need::Required, None) => place.fault(ErrorCode::ElementMissing),
        // EMV has no code for what must not be there; its format is "absent".
        (Need::Never, Some(_)) => place.fault(ErrorCode::FormatInvalid),
        (Need::Required | Need::Optional, Some(value)) => return T::read(value, &mut place),
        (Need::Optional | Need::Never | Need::Unknown, _) => (),
    }
    None
}

/// `must` elements are always there; `may` elements are `Option`s with a need after `if`, or
/// optional.
macro_rules! record {
    (
        $(#[$meta:meta])*
        pub struct $Name:ident {
            $($(#[$each:meta])* $kind:ident $field:ident: $Type:ty = $name:literal $(if $need:expr)?;)*
        }
    ) => {
        $(#[$meta])*
        pub struct $Name {
            $($(#[$each])* pub $field: record!(@type $kind $Type),)*
        }

        impl $crate::message::record::Record for $Name {
            const FIELDS: &'static [$crate::message::record::Field] = &[$(
                $crate::message::record::Field {
                    name: $name,
                    need: record!(@need $kind $($need)?),
                    #[cfg(test)]
                    samples: <$Type as $crate::format::tests::Samples>::samples,
                    #[cfg(test)]
                    refused: <$Type as $crate::format::tests::Samples>::refused,
                },
            )*];

            fn read_fields(
                object: &serde_json::Map<String, serde_json::Value>,
                place: &mut $crate::format::Place<'_>,
            ) -> Option<Self> {
                $(let $field = record!(@read $kind $Type, object, place, $name, $($need)?);)*
                Some(Self { $($field: record!(@take $kind $field),)* })
            }

            fn write_fields(&self) -> serde_json::Map<String, serde_json::Value> {
                let mut object = serde_json::Map::new();
                $(record!(@write $kind object, $name, &self.$field);)*
                object
            }
        }

        /// As an object inside of another record.
        impl $crate::format::Format for $Name {
            fn read(
                value: &serde_json::Value,
                place: &mut $crate::format::Place<'_>,
            ) -> Option<Self> {
                let object = place.expect(value.as_object())?;
                $crate::message::record::Record::read_fields(object, place)
            }

            fn write(&self) -> serde_json::Value {
                serde_json::Value::Object($crate::message::record::Record::write_fields(self))
            }
        }

        #[cfg(test)]
        impl $crate::format::tests::Samples for $Name {
            fn samples() -> Vec<serde_json::Value> {
                $crate::message::tests::samples_of::<$Name>()
            }

            fn refused() -> Vec<serde_json::Value> {
                $crate::message::tests::refused_of::<$Name>()
            }
        }

        /// Names only: the values are nobody's business.
        impl std::fmt::Debug for $Name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let names = $crate::message::record::Record::write_fields(self);
                let names = $crate::json::Plain(names);
                write!(f, "{}", stringify!($Name))?;
                f.debug_set().entries(names.0.keys()).finish()
            }
        }
    };

    (@type must $Type:ty) => { $Type };
    (@type may $Type:ty) => { Option<$Type> };

    (@need must) => { $crate::message::need::always };
    (@need may) => { $crate::message::need::optional };
    (@need may $need:expr) => { $need };

    (@read must $Type:ty, $object:ident, $place:ident, $name:literal,) => {
        $crate::message::record::must::<$Type>($object, $place, $name)
    };
    (@read may $Type:ty, $object:ident, $place:ident, $name:literal,) => {
        $crate::message::record::may::<$Type>(
            $object, $place, $name, $crate::message::need::optional,
        )
    };
    (@read may $Type:ty, $object:ident, $place:ident, $name:literal, $need:expr) => {
        $crate::message::record::may::<$Type>($object, $place, $name, $need)
    };

    (@take must $field:ident) => { $field? };
    (@take may $field:ident) => { $field };

    (@write must $object:ident, $name:literal, $value:expr) => {
        $object.insert($name.to_owned(), $crate::format::Format::write($value));
    };
    (@write may $object:ident, $name:literal, $value:expr) => {
        if let Some(value) = $value {
            $object.insert($name.to_owned(), $crate::format::Format::write(value));
        }
    };
}

pub(crate) use record;

//! The macro that generates a struct, its reader and its writer from one table.

pub(crate) mod presence;

use serde_json::{Map, Value};

use crate::{
    fault::ErrorCode,
    format::{ElementContext, ElementFormat},
    message::record::presence::{ElementPresence, MessageElements},
};

/// One element of a message or of an object in a message.
#[derive(Debug)]
pub(crate) struct ElementDefinition {
    pub(crate) name: &'static str,
    #[cfg_attr(not(test), expect(dead_code, reason = "the tests iterate over the tables"))]
    pub(crate) presence: fn(&MessageElements<'_>) -> ElementPresence,
    #[cfg(test)]
    pub(crate) samples: fn() -> Vec<Value>,
    #[cfg(test)]
    pub(crate) invalid_samples: fn() -> Vec<Value>,
}

/// The interface that the macro implements.
pub(crate) trait ElementTable: Sized {
    const FIELDS: &'static [ElementDefinition];

    fn read_fields(object: &Map<String, Value>, context: &mut ElementContext<'_>) -> Option<Self>;

    fn write_fields(&self) -> Map<String, Value>;
}

/// Reads a required element.
pub(crate) fn read_required<T: ElementFormat>(
    object: &Map<String, Value>,
    context: &mut ElementContext<'_>,
    name: &str,
) -> Option<T> {
    let mut context = context.child(name);
    let Some(value) = object.get(name) else {
        context.add_fault(ErrorCode::ElementMissing);
        return None;
    };
    T::read(value, &mut context)
}

/// Reads an element according to its presence rule.
pub(crate) fn read_conditional<T: ElementFormat>(
    object: &Map<String, Value>,
    context: &mut ElementContext<'_>,
    name: &str,
    presence: fn(&MessageElements<'_>) -> ElementPresence,
) -> Option<T> {
    let elements = MessageElements { transaction: context.transaction, object };
    let mut context = context.child(name);
    match (presence(&elements), object.get(name)) {
        (ElementPresence::Required, None) => context.add_fault(ErrorCode::ElementMissing),
        // EMV has no error code for a forbidden element; "invalid format" is the closest.
        (ElementPresence::Forbidden, Some(_)) => context.add_fault(ErrorCode::FormatInvalid),
        (ElementPresence::Required | ElementPresence::Optional, Some(value)) => {
            return T::read(value, &mut context);
        }
        (
            ElementPresence::Optional | ElementPresence::Forbidden | ElementPresence::NotInVersion,
            _,
        ) => (),
    }
    None
}

/// `must` elements are required. `may` elements are `Option`s with a presence rule after `if`;
/// without a rule they are optional.
macro_rules! record {
    (
        $(#[$meta:meta])*
        pub struct $Name:ident {
            $($(#[$each:meta])* $kind:ident $field:ident: $Type:ty = $name:literal $(if $presence:expr)?;)*
        }
    ) => {
        $(#[$meta])*
        pub struct $Name {
            $($(#[$each])* pub $field: record!(@type $kind $Type),)*
        }

        impl $crate::message::record::ElementTable for $Name {
            const FIELDS: &'static [$crate::message::record::ElementDefinition] = &[$(
                $crate::message::record::ElementDefinition {
                    name: $name,
                    presence: record!(@presence $kind $($presence)?),
                    #[cfg(test)]
                    samples: <$Type as $crate::format::tests::Samples>::samples,
                    #[cfg(test)]
                    invalid_samples: <$Type as $crate::format::tests::Samples>::invalid_samples,
                },
            )*];

            fn read_fields(
                object: &serde_json::Map<String, serde_json::Value>,
                context: &mut $crate::format::ElementContext<'_>,
            ) -> Option<Self> {
                $(let $field = record!(@read $kind $Type, object, context, $name, $($presence)?);)*
                Some(Self { $($field: record!(@take $kind $field),)* })
            }

            fn write_fields(&self) -> serde_json::Map<String, serde_json::Value> {
                let mut object = serde_json::Map::new();
                $(record!(@write $kind object, $name, &self.$field);)*
                object
            }
        }

        /// An object in another record.
        impl $crate::format::ElementFormat for $Name {
            fn read(
                value: &serde_json::Value,
                context: &mut $crate::format::ElementContext<'_>,
            ) -> Option<Self> {
                let object = context.expect(value.as_object())?;
                $crate::message::record::ElementTable::read_fields(object, context)
            }

            fn write(&self) -> serde_json::Value {
                serde_json::Value::Object($crate::message::record::ElementTable::write_fields(self))
            }
        }

        #[cfg(test)]
        impl $crate::format::tests::Samples for $Name {
            fn samples() -> Vec<serde_json::Value> {
                $crate::message::tests::samples_of::<$Name>()
            }

            fn invalid_samples() -> Vec<serde_json::Value> {
                $crate::message::tests::invalid_samples_of::<$Name>()
            }
        }

        /// Prints element names only, because the values are confidential.
        impl std::fmt::Debug for $Name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let names = $crate::message::record::ElementTable::write_fields(self);
                let names = $crate::json::WipedObject(names);
                write!(f, "{}", stringify!($Name))?;
                f.debug_set().entries(names.0.keys()).finish()
            }
        }
    };

    (@type must $Type:ty) => { $Type };
    (@type may $Type:ty) => { Option<$Type> };

    (@presence must) => { $crate::message::record::presence::always };
    (@presence may) => { $crate::message::record::presence::optional };
    (@presence may $presence:expr) => { $presence };

    (@read must $Type:ty, $object:ident, $context:ident, $name:literal,) => {
        $crate::message::record::read_required::<$Type>($object, $context, $name)
    };
    (@read may $Type:ty, $object:ident, $context:ident, $name:literal,) => {
        $crate::message::record::read_conditional::<$Type>(
            $object, $context, $name, $crate::message::record::presence::optional,
        )
    };
    (@read may $Type:ty, $object:ident, $context:ident, $name:literal, $presence:expr) => {
        $crate::message::record::read_conditional::<$Type>($object, $context, $name, $presence)
    };

    (@take must $field:ident) => { $field? };
    (@take may $field:ident) => { $field };

    (@write must $object:ident, $name:literal, $value:expr) => {
        $object.insert($name.to_owned(), $crate::format::ElementFormat::write($value));
    };
    (@write may $object:ident, $name:literal, $value:expr) => {
        if let Some(value) = $value {
            $object.insert($name.to_owned(), $crate::format::ElementFormat::write(value));
        }
    };
}

pub(crate) use record;

//! Enumerations whose values have one word each.

/// An enumeration with the word of each value, as requests, responses, rows and metrics have it.
/// New values go to the end: some files store the place of a value in `ALL`.
macro_rules! words {
    (
        $(#[$meta:meta])*
        pub enum $Name:ident { $($(#[$about:meta])* $Variant:ident = $word:expr,)* }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $Name { $($(#[$about])* $Variant,)* }

        impl $Name {
            pub const ALL: [Self; [$($Name::$Variant,)*].len()] = [$(Self::$Variant,)*];

            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$Variant => $word,)* }
            }

            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|it| it.as_str() == text)
            }
        }
    };
}

pub(crate) use words;

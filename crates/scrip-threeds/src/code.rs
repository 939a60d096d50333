//! The codes of EMV and their names in the API. Each list is one table.

mod authentication;
mod cardholder;
mod outcome;
mod reason;
mod scheme;
mod session;

pub use authentication::*;
pub use cardholder::*;
pub use outcome::*;
pub use reason::*;
pub use scheme::*;
pub use session::*;

/// Closed lists: variant, code, name. All other codes are rejected.
macro_rules! codes {
    (
        $($(#[$meta:meta])*
        pub enum $Name:ident { $($(#[$each:meta])* $Variant:ident = $code:literal $name:literal,)* })+
    ) => {
        $($(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $Name { $($(#[$each])* $Variant,)* }

        impl $Name {
            pub const ALL: &[Self] = &[$(Self::$Variant,)*];

            /// The code in EMV messages.
            pub fn code(self) -> &'static str {
                match self { $(Self::$Variant => $code,)* }
            }

            /// The name in the API.
            pub fn name(self) -> &'static str {
                match self { $(Self::$Variant => $name,)* }
            }

            pub fn from_code(code: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|it| it.code() == code)
            }

            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|it| it.name() == name)
            }
        }

        impl $crate::code::EmvCode for $Name {
            fn parse_code(code: &str) -> Option<Self> {
                Self::from_code(code)
            }

            fn to_code(&self) -> String {
                self.code().to_owned()
            }

            #[cfg(test)]
            fn sample_codes() -> Vec<String> {
                Self::ALL.iter().map(|it| it.code().to_owned()).collect()
            }
        }

        $crate::code::impl_code_serde! { $Name })+
    };
}

/// Lists in which EMV reserves 80 to 99 for the schemes: such a code is accepted without a name.
macro_rules! open_codes {
    (
        $($(#[$meta:meta])*
        pub enum $Name:ident { $($(#[$each:meta])* $Variant:ident = $code:literal $name:literal,)* })+
    ) => {
        $($(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $Name {
            $($(#[$each])* $Variant,)*
            /// Defined by a scheme.
            Scheme($crate::code::SchemeCode),
        }

        impl $Name {
            /// The codes that have a name.
            pub const ALL: &[Self] = &[$(Self::$Variant,)*];

            /// The code in EMV messages.
            pub fn code(self) -> String {
                match self {
                    $(Self::$Variant => $code.to_owned(),)*
                    Self::Scheme(code) => code.to_string(),
                }
            }

            /// The name in the API.
            pub fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$Variant => Some($name),)*
                    Self::Scheme(_) => None,
                }
            }

            pub fn from_code(code: &str) -> Option<Self> {
                match code {
                    $($code => Some(Self::$Variant),)*
                    _ => $crate::code::SchemeCode::parse(code).map(Self::Scheme),
                }
            }

            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|it| it.name() == Some(name))
            }
        }

        impl $crate::code::EmvCode for $Name {
            fn parse_code(code: &str) -> Option<Self> {
                Self::from_code(code)
            }

            fn to_code(&self) -> String {
                self.code()
            }

            #[cfg(test)]
            fn sample_codes() -> Vec<String> {
                Self::ALL.iter().map(|it| it.code()).chain(["80".into(), "99".into()]).collect()
            }
        }

        $crate::code::impl_code_serde! { $Name })+
    };
}

/// Stored sessions contain codes as strings, like messages do.
macro_rules! impl_code_serde {
    ($Name:ident) => {
        impl serde::Serialize for $Name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&$crate::code::EmvCode::to_code(self))
            }
        }

        impl<'de> serde::Deserialize<'de> for $Name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = String::deserialize(from)?;
                Self::from_code(&text).ok_or_else(|| serde::de::Error::custom("unknown code"))
            }
        }
    };
}

pub(crate) use {codes, impl_code_serde, open_codes};

/// The common interface of all code lists.
pub(crate) trait EmvCode: Sized {
    fn parse_code(code: &str) -> Option<Self>;
    fn to_code(&self) -> String;
    #[cfg(test)]
    fn sample_codes() -> Vec<String>;
}

/// 80 to 99: the meaning depends on the scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SchemeCode(u8);

impl SchemeCode {
    pub fn parse(code: &str) -> Option<Self> {
        let digits = code.len() == 2 && code.bytes().all(|it| it.is_ascii_digit());
        let number = code.parse().ok().filter(|it| digits && (80..=99).contains(it));
        number.map(Self)
    }
}

impl std::fmt::Display for SchemeCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:02}", self.0)
    }
}

#[cfg(test)]
mod tests;

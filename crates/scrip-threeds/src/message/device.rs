//! What an SDK tells of itself.

use crate::{
    code::{SdkInterface, UiType},
    format::{List, Text},
    message::record::record,
};

record! {
    /// What an SDK can show.
    #[derive(Clone)]
    pub struct DeviceRendering {
        must interface: SdkInterface = "sdkInterface";
        must ui_types: List<UiType, 5> = "sdkUiType";
    }
}

record! {
    /// A public key on the curve P-256, as a JWK.
    #[derive(Clone)]
    pub struct EphemeralKey {
        must kind: KeyKind = "kty";
        must curve: KeyCurve = "crv";
        must x: Text<43, 43> = "x";
        must y: Text<43, 43> = "y";
    }
}

crate::code::codes! {
    /// The one kind of key that EMV uses here.
    pub enum KeyKind { Elliptic = "EC" "EC", }
}

crate::code::codes! {
    /// Its one curve.
    pub enum KeyCurve { P256 = "P-256" "P-256", }
}

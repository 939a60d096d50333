//! Data that an SDK reports about itself.

use crate::{
    code::{SdkInterface, UiType},
    format::{List, Text},
    message::record::record,
};

record! {
    /// The interfaces that an SDK supports.
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
    /// The only key type that EMV uses here.
    pub enum KeyKind { Elliptic = "EC" "EC", }
}

crate::code::codes! {
    /// The only curve that EMV uses here.
    pub enum KeyCurve { P256 = "P-256" "P-256", }
}

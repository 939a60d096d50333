//! Properties of a session and its messages.

use crate::code::codes;

codes! {
    /// Who started the session. EMV has no code for this: it follows from the channel.
    pub enum ThreeDsSessionType {
        Customer = "customer" "customer",
        Merchant = "merchant" "merchant",
    }

    /// The device of the cardholder. Requests contain `app` or `mobile`, responses `mobile`.
    pub enum Device {
        Browser = "browser" "browser",
        Mobile = "app" "mobile",
    }
}

impl Device {
    /// Accepts both names of the mobile device.
    pub fn from_request(name: &str) -> Option<Self> {
        Self::from_name(name).or_else(|| Self::from_code(name))
    }
}

codes! {
    /// Where the authentication takes place.
    pub enum DeviceChannel {
        App = "01" "app",
        Browser = "02" "browser",
        /// 3DS requestor initiated (3RI): no cardholder is present.
        Requestor = "03" "merchant",
    }
}

impl DeviceChannel {
    pub fn for_session(session: ThreeDsSessionType, device: Device) -> Self {
        match (session, device) {
            (ThreeDsSessionType::Merchant, _) => Self::Requestor,
            (ThreeDsSessionType::Customer, Device::Browser) => Self::Browser,
            (ThreeDsSessionType::Customer, Device::Mobile) => Self::App,
        }
    }
}

codes! {
    /// Payment or non-payment: EMV's message category, the `authentication_category` of the API.
    pub enum AuthenticationCategory {
        Payment = "01" "payment",
        NonPayment = "02" "non-payment",
    }

    /// Whether the page of the method URL completed.
    pub enum MethodCompletion {
        Completed = "Y" "completed",
        NotCompleted = "N" "not-completed",
        Unavailable = "U" "unavailable",
    }

    /// Yes or no, as most EMV elements encode it.
    pub enum YesNo {
        Yes = "Y" "true",
        No = "N" "false",
    }
}

impl From<bool> for YesNo {
    fn from(yes: bool) -> Self {
        if yes { Self::Yes } else { Self::No }
    }
}

codes! {
    /// The change of a card range in a `PRes`.
    pub enum RangeAction {
        Add = "A" "add",
        Modify = "M" "modify",
        Delete = "D" "delete",
    }

    /// The size of the challenge window.
    pub enum ChallengeWindowSize {
        W250H400 = "01" "250x400",
        W390H400 = "02" "390x400",
        W500H600 = "03" "500x600",
        W600H400 = "04" "600x400",
        FullScreen = "05" "full-screen",
    }

    /// Bits per pixel.
    pub enum ColorDepth {
        One = "1" "1",
        Four = "4" "4",
        Eight = "8" "8",
        Fifteen = "15" "15",
        Sixteen = "16" "16",
        TwentyFour = "24" "24",
        ThirtyTwo = "32" "32",
        FortyEight = "48" "48",
    }
}

impl ColorDepth {
    /// Rounds down to a value of EMV. Browsers may report any number; 30 is common.
    pub fn round_down(text: &str) -> Option<Self> {
        let bits: u16 = text.parse().ok()?;
        let is_not_above = |it: &Self| it.code().parse::<u16>().is_ok_and(|it| it <= bits);
        Self::ALL.iter().copied().rev().find(is_not_above)
    }
}

codes! {
    /// The interfaces that an SDK supports.
    pub enum SdkInterface {
        Native = "01" "native",
        Html = "02" "html",
        Both = "03" "both",
    }

    /// The interface that an ACS uses.
    pub enum AcsInterface {
        Native = "01" "native",
        Html = "02" "html",
    }

    /// The form of a challenge.
    pub enum UiType {
        Text = "01" "text",
        SingleSelect = "02" "single-select",
        MultiSelect = "03" "multi-select",
        OutOfBand = "04" "out-of-band",
        Html = "05" "html",
    }
}

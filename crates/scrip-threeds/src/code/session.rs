//! What a session and its messages are about.

use crate::code::codes;

codes! {
    /// Who began it. EMV has no code for this: it follows from the channel.
    pub enum ThreeDsSessionType {
        Customer = "customer" "customer",
        Merchant = "merchant" "merchant",
    }
}

codes! {
    /// What the cardholder sits at. Requests say `app` or `mobile`, answers `mobile`.
    pub enum Device {
        Browser = "browser" "browser",
        Mobile = "app" "mobile",
    }
}

impl Device {
    /// Both words of the requests.
    #[must_use]
    pub fn from_request(name: &str) -> Option<Self> {
        Self::from_name(name).or_else(|| Self::from_code(name))
    }
}

codes! {
    /// Where the authentication takes place.
    pub enum DeviceChannel {
        App = "01" "app",
        Browser = "02" "browser",
        /// 3DS requestor initiated: nobody is there.
        Requestor = "03" "merchant",
    }
}

impl DeviceChannel {
    #[must_use]
    pub fn for_session(session: ThreeDsSessionType, device: Device) -> Self {
        match (session, device) {
            (ThreeDsSessionType::Merchant, _) => Self::Requestor,
            (ThreeDsSessionType::Customer, Device::Browser) => Self::Browser,
            (ThreeDsSessionType::Customer, Device::Mobile) => Self::App,
        }
    }
}

codes! {
    /// Payment or not: EMV's message category, our `authentication_category`.
    pub enum AuthenticationCategory {
        Payment = "01" "payment",
        NonPayment = "02" "non-payment",
    }
}

codes! {
    /// Whether the method page has run.
    pub enum MethodCompletion {
        Completed = "Y" "completed",
        NotCompleted = "N" "not-completed",
        Unavailable = "U" "unavailable",
    }
}

codes! {
    /// Yes or no, as EMV writes it in most places.
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
    /// What to do with a card range.
    pub enum RangeAction {
        Add = "A" "add",
        Modify = "M" "modify",
        Delete = "D" "delete",
    }
}

codes! {
    /// How large the challenge is shown.
    pub enum ChallengeWindowSize {
        W250H400 = "01" "250x400",
        W390H400 = "02" "390x400",
        W500H600 = "03" "500x600",
        W600H400 = "04" "600x400",
        FullScreen = "05" "full-screen",
    }
}

codes! {
    /// Bits for a pixel.
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
    /// A browser may tell any number (30 is common): the next one below that EMV knows.
    #[must_use]
    pub fn round_down(text: &str) -> Option<Self> {
        let bits: u16 = text.parse().ok()?;
        let is_not_above = |it: &Self| it.code().parse::<u16>().is_ok_and(|it| it <= bits);
        Self::ALL.iter().copied().rev().find(is_not_above)
    }
}

codes! {
    /// What an SDK can show.
    pub enum SdkInterface {
        Native = "01" "native",
        Html = "02" "html",
        Both = "03" "both",
    }
}

codes! {
    /// What an ACS shows.
    pub enum AcsInterface {
        Native = "01" "native",
        Html = "02" "html",
    }
}

codes! {
    /// How a challenge looks.
    pub enum UiType {
        Text = "01" "text",
        SingleSelect = "02" "single-select",
        MultiSelect = "03" "multi-select",
        OutOfBand = "04" "out-of-band",
        Html = "05" "html",
    }
}

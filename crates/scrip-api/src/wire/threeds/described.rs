//! 3-D Secure sessions, described.

mod asked;
mod examples;

use scrip_core::audit::Operation;
use scrip_threeds::{
    code::{
        ChallengeCancel, ChallengePreference, ChallengeType, Device, MethodCompletion, Scheme,
        SessionType, Status, WhitelistSource, WhitelistStatus,
    },
    format::Version,
};

use crate::wire::{
    described::{Description, Parameter, Tag, operation, parameter},
    schema::{
        Attribute, Schema, always, answer, any, boolean, instant, list, map, named, one_of,
        request, sometimes, text, uuid,
    },
    threeds::{described::asked::device_shown, request::METADATA_MAX},
};

pub(crate) fn components() -> Vec<(&'static str, Schema)> {
    let brand = || one_of(Scheme::ALL.iter().map(|it| it.name()));
    let kind = || one_of(SessionType::ALL.iter().map(|it| it.name()));
    let brands = || list(brand()).about("All brands of a card that has several, its own first.");
    let created =
        answer([always("id", uuid()), always("type", kind())].into_iter().chain(card()).chain([
            always("card_brand", brand()),
            always("cardBrand", brand().about("The same; some clients read this name.")),
            sometimes("additional_card_brands", brands()),
            sometimes("method_url", text().about("Empty for apps, absent when there is none.")),
            always("method_notification_url", text()),
            always("directory_server_id", text()),
            always("recommended_version", version()),
            sometimes("metadata", metadata()),
        ]));
    let whole = answer(
        [always("id", uuid()), always("tenant_id", uuid()), always("type", kind())]
            .into_iter()
            .chain(card())
            .chain([
                always("card_brand", brand()),
                sometimes("additional_card_brands", brands()),
                sometimes("expiration_date", instant().about("Absent once it was authenticated.")),
                always("created_date", instant()),
                always("created_by", uuid()),
                sometimes("modified_date", instant()),
                sometimes("modified_by", uuid()),
                sometimes("device", one_of(Device::ALL.iter().map(|it| it.name()))),
                sometimes("device_info", device_shown()),
                sometimes("web_challenge_mode", one_of(["iframe", "redirect"])),
                always("version", versions()),
                sometimes("method", method()),
                sometimes("authentication", named("ThreedsAuthentication")),
                sometimes("metadata", metadata()),
            ]),
    );
    vec![
        ("NewThreedsSession", asked::new_session()),
        ("ThreedsDevice", asked::device()),
        ("ThreedsAuthenticate", asked::authenticate()),
        ("CreatedThreedsSession", created.examples([examples::created()])),
        ("ThreedsSession", whole.examples([examples::whole()])),
        ("ThreedsAuthentication", authentication().examples([examples::authentication()])),
    ]
}

fn card() -> [Attribute; 3] {
    [
        sometimes("pan_token_id", text().about("Deprecated: the same as `token_id`.")),
        sometimes("token_id", text()),
        sometimes("token_intent_id", uuid()),
    ]
}

fn metadata() -> Schema {
    map(any()).with("maxProperties", METADATA_MAX)
}

fn version() -> Schema {
    one_of(Version::ALL.iter().map(|it| it.code()))
}

fn versions() -> Schema {
    answer([
        always("recommended_version", version()),
        always("available_version", list(version())),
        always(
            "available_versions",
            list(version()).about("The same; some clients read this name."),
        ),
        always("earliest_acs_supported_version", text()),
        always("earliest_ds_supported_version", text()),
        always("latest_acs_supported_version", text()),
        always("latest_ds_supported_version", text()),
        always("acs_information", list(text())),
    ])
}

fn method() -> Schema {
    let completion = one_of(MethodCompletion::ALL.iter().map(|it| it.code()));
    answer([sometimes("method_url", text()), sometimes("method_completion_indicator", completion)])
}

fn authentication() -> Schema {
    let status = || one_of(Status::ALL.iter().map(|it| it.code()));
    let yes_or_no = || one_of(["Y", "N"]);
    let rendering = answer([always("acsInterface", text()), always("acsUiTemplate", text())]);
    let extension = answer([
        always("id", text()),
        always("name", text()),
        always("critical", boolean()),
        always("data", any().with("type", "object")),
    ]);
    let first = [
        always("session_id", uuid()),
        always("threeds_version", version()),
        always("acs_transaction_id", uuid()),
        always("ds_transaction_id", uuid()),
        sometimes("sdk_transaction_id", uuid().about("Of an app.")),
        always("acs_reference_number", text()),
        always("ds_reference_number", text()),
        sometimes("acs_operator_id", text()),
    ];
    let rest = [
        sometimes("authentication_value", text().about("The cryptogram (CAVV, AAV and others).")),
        always("authentication_status", one_of(Status::ALL.iter().map(|it| it.name()))),
        always("authentication_status_code", status()),
        always("directory_status_code", status().about("What the first answer said.")),
        sometimes("authentication_status_reason", text()),
        sometimes("authentication_status_reason_code", text()),
        sometimes("eci", text().sized(2, 2)),
        always("liability_shifted", boolean()),
        sometimes("acs_challenge_mandated", yes_or_no()),
        sometimes("acs_decoupled_authentication", yes_or_no()),
        sometimes("authentication_challenge_type", names(ChallengeType::ALL, |it| it.name())),
        sometimes("acs_challenge_url", text()),
        sometimes("acs_signed_content", text()),
        sometimes("acs_rendering_type", rendering),
        sometimes("challenge_preference", names(ChallengePreference::ALL, |it| it.name())),
        sometimes("challenge_preference_code", text()),
        sometimes("challenge_attempts", text()),
        sometimes("challenge_cancel_reason", names(ChallengeCancel::ALL, |it| it.name())),
        sometimes("challenge_cancel_reason_code", text()),
        sometimes("cardholder_info", text().about("To be shown to the cardholder.")),
        sometimes("whitelist_status", one_of(WhitelistStatus::ALL.iter().map(|it| it.name()))),
        sometimes("whitelist_status_source", names(WhitelistSource::ALL, |it| it.name())),
        sometimes("message_extensions", list(extension)),
    ];
    answer(first.into_iter().chain(card()).chain(rest))
}

/// Of a list in which some codes have no name.
fn names<T: Copy>(all: &[T], name: impl Fn(T) -> Option<&'static str>) -> Schema {
    one_of(all.iter().filter_map(|it| name(*it)))
}

fn id() -> Parameter {
    parameter("id", uuid(), "The 3-D Secure session.")
}

pub(crate) fn create() -> Description {
    operation(Tag::Threeds, "Create a 3-D Secure session")
        .about(
            "For one card, by exactly one of `token_id`, `token_intent_id` and `pan`. Without a \
             `type`, of a customer. What a browser cannot tell of itself, its address and what it \
             accepts, is taken from the request.",
        )
        .body(named("NewThreedsSession"))
        .answer(201, "The session, and where to go on.", named("CreatedThreedsSession"))
        .problem(424)
        .leads_to(
            &[
                Operation::GetSession,
                Operation::UpdateSession,
                Operation::AuthenticateSession,
                Operation::GetChallengeResult,
            ],
            &[("id", "$response.body#/id")],
        )
}

pub(crate) fn get() -> Description {
    operation(Tag::Threeds, "Get a 3-D Secure session")
        .about("409 when it was authenticated and the number of the card was changed after that.")
        .path(id())
        .answer(200, "The session.", named("ThreedsSession"))
        .problem(409)
}

pub(crate) fn update() -> Description {
    operation(Tag::Threeds, "Tell of the device of an app")
        .about("Only by the application that created the session, and before it is authenticated.")
        .path(id())
        .body(named("ThreedsDevice"))
        .answer(200, "The session, as when it was created.", named("CreatedThreedsSession"))
        .problem(409)
}

pub(crate) fn authenticate() -> Description {
    operation(Tag::Threeds, "Authenticate the cardholder")
        .about(
            "Asks the directory server of the card's scheme, once. A session is spent when it was \
             answered, and when nobody knows what became of the question: then 409.",
        )
        .path(id())
        .body(named("ThreedsAuthenticate"))
        .answer(200, "The outcome, or that there is a challenge.", named("ThreedsAuthentication"))
        .problem(424)
}

pub(crate) fn challenge_result() -> Description {
    operation(Tag::Threeds, "Get the result of a challenge")
        .about("404 while there is none; the detail says which of both is not there.")
        .path(id())
        .answer(200, "The outcome after the challenge.", named("ThreedsAuthentication"))
        .problem(409)
}

pub(crate) fn notify_method() -> Description {
    let mode =
        parameter("mode", text(), "`redirect` in a window of its own, which is then closed.");
    operation(Tag::Threeds, "Tell that the method page has run")
        .about("By the browser. The page that answers tells the page around it.")
        .path(id())
        .query([mode])
        .body(request([always("threeDSMethodData", text().about("Base64url of JSON."))]))
        .content(200, "A page with a script.", Some(("text/html", text())))
}

pub(crate) fn notify_challenge() -> Description {
    operation(Tag::Threeds, "Tell that the challenge is over")
        .about(
            "By the browser, with `cres` or `erro`. The page that answers tells the page around it \
             or the one that opened it. It decides nothing: the result comes by the directory server.",
        )
        .path(id())
        .body(request([
            sometimes("cres", text().about("Base64url of a CRes.")),
            sometimes("erro", text().about("Base64url of an error message. Changes nothing.")),
            sometimes("threeDSSessionData", text().about("Passed over.")),
        ]))
        .content(200, "A page with a script.", Some(("text/html", text())))
}

pub(crate) fn receive_result() -> Description {
    let secret = parameter("secret", text(), "Only the directory server was told it.");
    let message = any().with("type", "object");
    let mut described = operation(Tag::Threeds, "Tell how a challenge ended")
        .about(
            "By the directory server, with an RReq. The answer is a message too, whatever it says.",
        )
        .body(message.clone())
        .answer(200, "An RRes, or an error message of EMV.", message);
    described.path.extend([id(), secret]);
    described
}

//! Each page, written.

use axum::{http::StatusCode, response::Response};

use crate::{
    card::{ChallengeKind, ScenarioOutcome},
    page::{Page, PageAction, Purchase, escape_html, hidden_inputs, policy_origin},
};

/// What went wrong with the last try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PromptNotice {
    None,
    WrongCode { attempts_left: u8 },
    Resent,
}

/// What the cardholder is asked for.
#[derive(Debug)]
pub(crate) struct ChallengePrompt<'a> {
    pub(crate) purchase: &'a Purchase,
    pub(crate) kind: ChallengeKind,
    /// What comes of it when all is right.
    pub(crate) outcome: ScenarioOutcome,
    pub(crate) action: &'a str,
    pub(crate) notice: PromptNotice,
}

/// A code to be typed, or an app to be opened.
pub(crate) fn challenge_page(prompt: &ChallengePrompt<'_>) -> Response {
    let title =
        if prompt.purchase.is_payment { "Confirm your payment" } else { "Confirm it is you" };
    let form = match prompt.kind {
        ChallengeKind::Code => code_form(prompt.notice),
        ChallengeKind::OutOfBand => OUT_OF_BAND_FORM.to_owned(),
    };
    let body = format!(
        "{}<h1>{title}</h1>{}<form method=\"post\" action=\"{}\">{form}</form>\
         <footer>This bank is simulated, and no money moves. {}</footer>",
        page_header(prompt.purchase),
        purchase_details(prompt.purchase),
        escape_html(prompt.action),
        describe_scenario(prompt),
    );
    let origin = policy_origin(prompt.action);
    Page { status: StatusCode::OK, title, body, action: PageAction::None, form_origin: origin }
        .render()
}

/// Some cards fail although everything is right, which nobody would understand who is not told.
fn describe_scenario(prompt: &ChallengePrompt<'_>) -> String {
    let done = match prompt.kind {
        ChallengeKind::Code => "the right code",
        ChallengeKind::OutOfBand => "the approval",
    };
    let then = match prompt.outcome {
        ScenarioOutcome::Successful => "the bank vouches for you",
        ScenarioOutcome::Attempted => "the bank says that it tried, and vouches for you",
        ScenarioOutcome::Failed => "the bank still does not believe that it is you",
        ScenarioOutcome::Unavailable => "the bank cannot tell who you are",
        ScenarioOutcome::Rejected => "the bank rejects the payment",
    };
    format!("The story of this test card: after {done}, <strong>{then}</strong>.")
}

fn page_header(purchase: &Purchase) -> String {
    let scheme = escape_html(purchase.scheme.name());
    format!("<header><strong>Simulated Bank</strong><span>{scheme}</span></header>")
}

fn purchase_details(purchase: &Purchase) -> String {
    let row = |name: &str, value: &str| format!("<dt>{name}</dt><dd>{}</dd>", escape_html(value));
    let amount = purchase.amount.as_deref().map(|it| row("Amount", it)).unwrap_or_default();
    let merchant = row("Merchant", &purchase.merchant);
    format!("<dl>{merchant}{amount}{}</dl>", row("Card", &purchase.card))
}

fn code_form(notice: PromptNotice) -> String {
    let (message, invalid) = match notice {
        PromptNotice::None => (String::new(), ""),
        PromptNotice::WrongCode { attempts_left: tries_left } => {
            let more = if tries_left == 1 {
                "one more try".to_owned()
            } else {
                format!("{tries_left} more tries")
            };
            let message = format!(
                "<p id=\"told\" class=\"wrong\" role=\"alert\">That code is not right. You have {more}.</p>"
            );
            (message, " aria-invalid=\"true\"")
        }
        PromptNotice::Resent => {
            let message = "<p id=\"told\" class=\"note\" role=\"status\">It would be on its way. It is still 1234.</p>";
            (message.to_owned(), "")
        }
    };
    format!(
        "{message}<label for=\"code\">The code that we sent to your phone</label>\
         <input id=\"code\" name=\"code\" type=\"text\" inputmode=\"numeric\" \
         autocomplete=\"one-time-code\" maxlength=\"10\" required autofocus{invalid} \
         aria-describedby=\"hint told\">\
         <p id=\"hint\" class=\"hint\">No message is sent here: type <strong>1234</strong>.</p>\
         <div class=\"row\"><button class=\"main\" name=\"action\" value=\"submit\">Confirm</button>\
         <button name=\"action\" value=\"resend\" formnovalidate>Resend code</button>\
         <button name=\"action\" value=\"cancel\" formnovalidate>Cancel the payment</button></div>"
    )
}

const OUT_OF_BAND_FORM: &str = "<p>We have sent a request to our app on your phone. Approve it \
    there, then come back and go on.</p>\
    <p class=\"hint\">There is no app here: the button is enough.</p>\
    <div class=\"row\"><button class=\"main\" name=\"action\" value=\"continue\">I have approved it</button>\
    <button name=\"action\" value=\"cancel\">Cancel the payment</button></div>";

/// Takes the browser to where it came from, with these fields; without scripts by a button.
pub(crate) fn return_page(address: &str, fields: &[(&str, &str)]) -> Response {
    let body = format!(
        "<header><strong>Simulated Bank</strong></header><h1>Thank you</h1>\
         <form method=\"post\" action=\"{}\">{}<p>You are taken back to the shop.</p>\
         <noscript><button class=\"main\">Back to the shop</button></noscript></form>",
        escape_html(address),
        hidden_inputs(fields),
    );
    let (title, action) = ("Back to the shop", PageAction::SubmitForm);
    Page { status: StatusCode::OK, title, body, action, form_origin: policy_origin(address) }
        .render()
}

/// Seen by nobody: the frame it runs in has no size. One that hangs does nothing.
pub(crate) fn method_page(notification: Option<(&str, &str)>) -> Response {
    let form = notification.map(|(address, data)| {
        let fields = hidden_inputs(&[("threeDSMethodData", data)]);
        format!("<form method=\"post\" action=\"{}\">{fields}</form>", escape_html(address))
    });
    let action = if form.is_some() { PageAction::SubmitForm } else { PageAction::None };
    let origin = notification.and_then(|(address, _)| policy_origin(address));
    let (status, title) = (StatusCode::OK, "3-D Secure method");
    Page { status, title, body: form.unwrap_or_default(), action, form_origin: origin }.render()
}

/// For a person, because nobody else can be told. The text is ours.
pub(crate) fn error_page(status: StatusCode, text: &str) -> Response {
    let body = format!(
        "<header><strong>Simulated Bank</strong></header><h1>This cannot go on</h1><p>{}</p>",
        escape_html(text)
    );
    let action = PageAction::None;
    Page { status, title: "This cannot go on", body, action, form_origin: None }.render()
}

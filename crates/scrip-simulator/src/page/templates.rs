//! The content of each page.

use axum::{http::StatusCode, response::Response};

use crate::{
    card::{ChallengeKind, ScenarioOutcome},
    page::{Page, PageAction, Purchase, escape_html, hidden_inputs, policy_origin},
};

/// A message about the last input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PromptNotice {
    None,
    WrongCode { attempts_left: u8 },
    Resent,
}

/// The content of a challenge page.
#[derive(Debug)]
pub(crate) struct ChallengePrompt<'a> {
    pub(crate) purchase: &'a Purchase,
    pub(crate) kind: ChallengeKind,
    /// The outcome after correct input.
    pub(crate) outcome: ScenarioOutcome,
    pub(crate) action: &'a str,
    pub(crate) notice: PromptNotice,
}

/// A page to enter a code or to confirm the approval in an app.
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

/// Some test cards fail after correct input. The page explains this to the tester.
fn describe_scenario(prompt: &ChallengePrompt<'_>) -> String {
    let input_text = match prompt.kind {
        ChallengeKind::Code => "the correct code",
        ChallengeKind::OutOfBand => "the approval",
    };
    let outcome_text = match prompt.outcome {
        ScenarioOutcome::Successful => "the authentication succeeds",
        ScenarioOutcome::Attempted => "the bank confirms an attempted authentication",
        ScenarioOutcome::Failed => "the authentication still fails",
        ScenarioOutcome::Unavailable => "the bank cannot authenticate you",
        ScenarioOutcome::Rejected => "the bank rejects the payment",
    };
    format!("This test card's scenario: after {input_text}, <strong>{outcome_text}</strong>.")
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
    let (message, input_attribute) = match notice {
        PromptNotice::None => (String::new(), ""),
        PromptNotice::WrongCode { attempts_left } => {
            let tries_text = if attempts_left == 1 {
                "one more try".to_owned()
            } else {
                format!("{attempts_left} more tries")
            };
            let message = format!(
                "<p id=\"message\" class=\"wrong\" role=\"alert\">That code is not right. You have {tries_text}.</p>"
            );
            (message, " aria-invalid=\"true\"")
        }
        PromptNotice::Resent => {
            let message = "<p id=\"message\" class=\"note\" role=\"status\">Code resent (it is still 1234).</p>";
            (message.to_owned(), "")
        }
    };
    format!(
        "{message}<label for=\"code\">The code that we sent to your phone</label>\
         <input id=\"code\" name=\"code\" type=\"text\" inputmode=\"numeric\" \
         autocomplete=\"one-time-code\" maxlength=\"10\" required autofocus{input_attribute} \
         aria-describedby=\"hint message\">\
         <p id=\"hint\" class=\"hint\">The simulator sends no message: enter <strong>1234</strong>.</p>\
         <div class=\"row\"><button class=\"main\" name=\"action\" value=\"submit\">Confirm</button>\
         <button name=\"action\" value=\"resend\" formnovalidate>Resend code</button>\
         <button name=\"action\" value=\"cancel\" formnovalidate>Cancel the payment</button></div>"
    )
}

const OUT_OF_BAND_FORM: &str = "<p>We have sent a request to our app on your phone. Approve it \
    there, then return to this page and continue.</p>\
    <p class=\"hint\">The simulator has no app: press the button.</p>\
    <div class=\"row\"><button class=\"main\" name=\"action\" value=\"continue\">I have approved it</button>\
    <button name=\"action\" value=\"cancel\">Cancel the payment</button></div>";

/// Posts these fields to `address`: by script, or by a button if scripts are disabled.
pub(crate) fn return_page(address: &str, fields: &[(&str, &str)]) -> Response {
    let body = format!(
        "<header><strong>Simulated Bank</strong></header><h1>Thank you</h1>\
         <form method=\"post\" action=\"{}\">{}<p>You are returning to the shop.</p>\
         <noscript><button class=\"main\">Back to the shop</button></noscript></form>",
        escape_html(address),
        hidden_inputs(fields),
    );
    let (title, action) = ("Back to the shop", PageAction::SubmitForm);
    Page { status: StatusCode::OK, title, body, action, form_origin: policy_origin(address) }
        .render()
}

/// The page of the method URL, in a frame without a size. Without a notification it does nothing.
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

/// An error page for the cardholder. `text` is a constant of the simulator.
pub(crate) fn error_page(status: StatusCode, text: &str) -> Response {
    let body = format!(
        "<header><strong>Simulated Bank</strong></header><h1>The challenge cannot continue</h1><p>{}</p>",
        escape_html(text)
    );
    let action = PageAction::None;
    let title = "The challenge cannot continue";
    Page { status, title, body, action, form_origin: None }.render()
}

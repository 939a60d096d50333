//! Each page, written.

use axum::{http::StatusCode, response::Response};

use crate::{
    card::{Ending, Means},
    page::{Acting, Page, Purchase, escape, hidden, origin},
};

/// What went wrong with the last try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Complaint {
    None,
    WrongCode { tries_left: u8 },
    Resent,
}

/// What the cardholder is asked for.
#[derive(Debug)]
pub(crate) struct Prompt<'a> {
    pub(crate) purchase: &'a Purchase,
    pub(crate) means: Means,
    /// What comes of it when all is right.
    pub(crate) ending: Ending,
    pub(crate) action: &'a str,
    pub(crate) complaint: Complaint,
}

/// A code to be typed, or an app to be opened.
pub(crate) fn challenge(prompt: &Prompt<'_>) -> Response {
    let title =
        if prompt.purchase.is_payment { "Confirm your payment" } else { "Confirm it is you" };
    let asked = match prompt.means {
        Means::Code => code(prompt.complaint),
        Means::OutOfBand => OUT_OF_BAND.to_owned(),
    };
    let body = format!(
        "{}<h1>{title}</h1>{}<form method=\"post\" action=\"{}\">{asked}</form>\
         <footer>This bank is simulated, and no money moves. {}</footer>",
        masthead(prompt.purchase),
        details(prompt.purchase),
        escape(prompt.action),
        story(prompt),
    );
    let origin = origin(prompt.action);
    Page { status: StatusCode::OK, title, body, acting: Acting::Waits, origin }.render()
}

/// Some cards fail although everything is right, which nobody would understand who is not told.
fn story(prompt: &Prompt<'_>) -> String {
    let done = match prompt.means {
        Means::Code => "the right code",
        Means::OutOfBand => "the approval",
    };
    let then = match prompt.ending {
        Ending::Successful => "the bank vouches for you",
        Ending::Attempted => "the bank says that it tried, and vouches for you",
        Ending::Failed => "the bank still does not believe that it is you",
        Ending::Unavailable => "the bank cannot tell who you are",
        Ending::Rejected => "the bank rejects the payment",
    };
    format!("The story of this test card: after {done}, <strong>{then}</strong>.")
}

fn masthead(purchase: &Purchase) -> String {
    let scheme = escape(purchase.scheme.name());
    format!("<header><strong>Simulated Bank</strong><span>{scheme}</span></header>")
}

fn details(purchase: &Purchase) -> String {
    let row = |name: &str, value: &str| format!("<dt>{name}</dt><dd>{}</dd>", escape(value));
    let amount = purchase.amount.as_deref().map(|it| row("Amount", it)).unwrap_or_default();
    let merchant = row("Merchant", &purchase.merchant);
    format!("<dl>{merchant}{amount}{}</dl>", row("Card", &purchase.card))
}

fn code(complaint: Complaint) -> String {
    let (told, invalid) = match complaint {
        Complaint::None => (String::new(), ""),
        Complaint::WrongCode { tries_left } => {
            let more = if tries_left == 1 {
                "one more try".to_owned()
            } else {
                format!("{tries_left} more tries")
            };
            let told = format!(
                "<p id=\"told\" class=\"wrong\" role=\"alert\">That code is not right. You have {more}.</p>"
            );
            (told, " aria-invalid=\"true\"")
        }
        Complaint::Resent => {
            let told = "<p id=\"told\" class=\"note\" role=\"status\">It would be on its way. It is still 1234.</p>";
            (told.to_owned(), "")
        }
    };
    format!(
        "{told}<label for=\"code\">The code that we sent to your phone</label>\
         <input id=\"code\" name=\"code\" type=\"text\" inputmode=\"numeric\" \
         autocomplete=\"one-time-code\" maxlength=\"10\" required autofocus{invalid} \
         aria-describedby=\"hint told\">\
         <p id=\"hint\" class=\"hint\">No message is sent here: type <strong>1234</strong>.</p>\
         <div class=\"row\"><button class=\"main\" name=\"action\" value=\"submit\">Confirm</button>\
         <button name=\"action\" value=\"resend\" formnovalidate>Resend code</button>\
         <button name=\"action\" value=\"cancel\" formnovalidate>Cancel the payment</button></div>"
    )
}

const OUT_OF_BAND: &str = "<p>We have sent a request to our app on your phone. Approve it \
    there, then come back and go on.</p>\
    <p class=\"hint\">There is no app here: the button is enough.</p>\
    <div class=\"row\"><button class=\"main\" name=\"action\" value=\"continue\">I have approved it</button>\
    <button name=\"action\" value=\"cancel\">Cancel the payment</button></div>";

/// Takes the browser to where it came from, with these fields; without scripts by a button.
pub(crate) fn go_back(address: &str, fields: &[(&str, &str)]) -> Response {
    let body = format!(
        "<header><strong>Simulated Bank</strong></header><h1>Thank you</h1>\
         <form method=\"post\" action=\"{}\">{}<p>You are taken back to the shop.</p>\
         <noscript><button class=\"main\">Back to the shop</button></noscript></form>",
        escape(address),
        hidden(fields),
    );
    let (title, acting) = ("Back to the shop", Acting::SubmitsItself);
    Page { status: StatusCode::OK, title, body, acting, origin: origin(address) }.render()
}

/// Seen by nobody: the frame it runs in has no size. One that hangs does nothing.
pub(crate) fn method(notification: Option<(&str, &str)>) -> Response {
    let form = notification.map(|(address, data)| {
        let fields = hidden(&[("threeDSMethodData", data)]);
        format!("<form method=\"post\" action=\"{}\">{fields}</form>", escape(address))
    });
    let acting = if form.is_some() { Acting::SubmitsItself } else { Acting::Waits };
    let origin = notification.and_then(|(address, _)| origin(address));
    let (status, title) = (StatusCode::OK, "3-D Secure method");
    Page { status, title, body: form.unwrap_or_default(), acting, origin }.render()
}

/// For a person, because nobody else can be told. The text is ours.
pub(crate) fn error(status: StatusCode, text: &str) -> Response {
    let body = format!(
        "<header><strong>Simulated Bank</strong></header><h1>This cannot go on</h1><p>{}</p>",
        escape(text)
    );
    let acting = Acting::Waits;
    Page { status, title: "This cannot go on", body, acting, origin: None }.render()
}

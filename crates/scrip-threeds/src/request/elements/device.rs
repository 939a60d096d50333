//! The cardholder's device.

use serde_json::{Map, Value};

use super::mapping::{ElementMapping, elements, parse_object, text_value};
use crate::{code::ColorDepth, request::AReqInput};

impl AReqInput<'_> {
    /// An attribute of the browser, if the channel is a browser.
    fn if_browser<T: Into<Value>>(&self, value: Option<T>) -> Option<Value> {
        let is_browser = self.channel() == crate::code::DeviceChannel::Browser;
        value.filter(|_| is_browser).map(Into::into)
    }

    /// An attribute of the SDK, if the channel is an app.
    fn if_app(&self, value: Option<Value>) -> Option<Value> {
        value.filter(|_| self.channel() == crate::code::DeviceChannel::App)
    }
}

/// Browsers may report more than EMV's eight characters, such as `en-US@posix` or longer tags.
fn emv_language(browser_language: &str) -> String {
    let tag = browser_language.split('@').next().unwrap_or_default();
    let truncated: String = tag.chars().take(8).collect();
    truncated.trim_end_matches('-').to_owned()
}

/// The text of an attribute, if the channel is a browser.
macro_rules! browser_text {
    ($attribute:ident) => {
        |it| it.if_browser(text_value(it.device_info().$attribute.as_ref()))
    };
}

/// The text of an attribute, if the channel is an app.
macro_rules! app_text {
    ($attribute:ident) => {
        |it| it.if_app(text_value(it.device_info().$attribute.as_ref()))
    };
}

pub(super) const ELEMENTS: &[ElementMapping] = elements! {
    "device_info.browser_accept_header" => "browserAcceptHeader": browser_text!(browser_accept_header);
    "device_info.browser_ip" => "browserIP": browser_text!(browser_ip);
    "device_info.browser_javascript_enabled" => "browserJavascriptEnabled": |it| {
        it.if_browser(it.device_info().browser_javascript_enabled)
    };
    "device_info.browser_java_enabled" => "browserJavaEnabled": |it| {
        it.if_browser(it.device_info().browser_java_enabled)
    };
    "device_info.browser_language" => "browserLanguage": |it| {
        it.if_browser(it.device_info().browser_language.as_deref().map(emv_language))
    };
    "device_info.browser_color_depth" => "browserColorDepth": |it| {
        let reported = it.device_info().browser_color_depth.as_deref().filter(|it| !it.is_empty());
        // A value that is not a number is passed on unchanged; the format check reports it.
        let known = |it: &str| ColorDepth::round_down(it).map(ColorDepth::code);
        it.if_browser(reported.map(|it| known(it).unwrap_or(it).to_owned()))
    };
    "device_info.browser_screen_height" => "browserScreenHeight": browser_text!(browser_screen_height);
    "device_info.browser_screen_width" => "browserScreenWidth": browser_text!(browser_screen_width);
    "device_info.browser_tz" => "browserTZ": browser_text!(browser_tz);
    "device_info.browser_user_agent" => "browserUserAgent": browser_text!(browser_user_agent);
    "device_info.sdk_transaction_id" => "sdkTransID": app_text!(sdk_transaction_id);
    "device_info.sdk_application_id" => "sdkAppID": app_text!(sdk_application_id);
    "device_info.sdk_encryption_data" => "sdkEncData": app_text!(sdk_encryption_data);
    "device_info.sdk_ephemeral_public_key" => "sdkEphemPubKey": |it| {
        let key = it.device_info().sdk_ephemeral_public_key.as_ref()?;
        it.if_app(Some(parse_object(key).map_or(Value::Null, Value::Object)))
    };
    "device_info.sdk_max_timeout" => "sdkMaxTimeout": app_text!(sdk_max_timeout);
    "device_info.sdk_reference_number" => "sdkReferenceNumber": app_text!(sdk_reference_number);
    "device_info.sdk_render_options" => "deviceRenderOptions": |it| {
        let rendering = it.device_info().sdk_render_options.as_ref()?;
        let types = rendering.sdk_ui_type.clone().unwrap_or_default();
        let mut options = Map::new();
        options.insert("sdkInterface".to_owned(), rendering.sdk_interface.clone().into());
        options.insert("sdkUiType".to_owned(), types.into());
        it.if_app(Some(Value::Object(options)))
    };
};

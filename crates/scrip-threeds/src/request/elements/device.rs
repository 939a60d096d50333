//! What the cardholder sits at.

use serde_json::{Map, Value};

use super::{Element, elements, object, text};
use crate::{code::ColorDepth, request::Question};

impl Question<'_> {
    /// An attribute of the browser, where there is one.
    fn browser<T: Into<Value>>(&self, value: Option<T>) -> Option<Value> {
        let there = self.channel() == crate::code::DeviceChannel::Browser;
        value.filter(|_| there).map(Into::into)
    }

    /// An attribute of the SDK, where there is one.
    fn app(&self, value: Option<Value>) -> Option<Value> {
        value.filter(|_| self.channel() == crate::code::DeviceChannel::App)
    }
}

/// Browsers say more than EMV's eight characters: `en-US@posix` is seen, and longer tags.
fn language(told: &str) -> String {
    let tag = told.split('@').next().unwrap_or_default();
    let short: String = tag.chars().take(8).collect();
    short.trim_end_matches('-').to_owned()
}

pub(super) const ELEMENTS: &[Element] = elements! {
    "device_info.browser_accept_header" => "browserAcceptHeader": |it| {
        it.browser(text(it.device().browser_accept_header.as_ref()))
    };
    "device_info.browser_ip" => "browserIP": |it| {
        it.browser(text(it.device().browser_ip.as_ref()))
    };
    "device_info.browser_javascript_enabled" => "browserJavascriptEnabled": |it| {
        it.browser(it.device().browser_javascript_enabled)
    };
    "device_info.browser_java_enabled" => "browserJavaEnabled": |it| {
        it.browser(it.device().browser_java_enabled)
    };
    "device_info.browser_language" => "browserLanguage": |it| {
        it.browser(it.device().browser_language.as_deref().map(language))
    };
    "device_info.browser_color_depth" => "browserColorDepth": |it| {
        let told = it.device().browser_color_depth.as_deref().filter(|it| !it.is_empty());
        // What is no number goes on as it is, to be named by the check.
        let known = |it: &str| ColorDepth::rounded_down(it).map(ColorDepth::code);
        it.browser(told.map(|it| known(it).unwrap_or(it).to_owned()))
    };
    "device_info.browser_screen_height" => "browserScreenHeight": |it| {
        it.browser(text(it.device().browser_screen_height.as_ref()))
    };
    "device_info.browser_screen_width" => "browserScreenWidth": |it| {
        it.browser(text(it.device().browser_screen_width.as_ref()))
    };
    "device_info.browser_tz" => "browserTZ": |it| {
        it.browser(text(it.device().browser_tz.as_ref()))
    };
    "device_info.browser_user_agent" => "browserUserAgent": |it| {
        it.browser(text(it.device().browser_user_agent.as_ref()))
    };
    "device_info.sdk_transaction_id" => "sdkTransID": |it| {
        it.app(text(it.device().sdk_transaction_id.as_ref()))
    };
    "device_info.sdk_application_id" => "sdkAppID": |it| {
        it.app(text(it.device().sdk_application_id.as_ref()))
    };
    "device_info.sdk_encryption_data" => "sdkEncData": |it| {
        it.app(text(it.device().sdk_encryption_data.as_ref()))
    };
    "device_info.sdk_ephemeral_public_key" => "sdkEphemPubKey": |it| {
        let told = it.device().sdk_ephemeral_public_key.as_ref()?;
        it.app(Some(object(told).map_or(Value::Null, Value::Object)))
    };
    "device_info.sdk_max_timeout" => "sdkMaxTimeout": |it| {
        it.app(text(it.device().sdk_max_timeout.as_ref()))
    };
    "device_info.sdk_reference_number" => "sdkReferenceNumber": |it| {
        it.app(text(it.device().sdk_reference_number.as_ref()))
    };
    "device_info.sdk_render_options" => "deviceRenderOptions": |it| {
        let told = it.device().sdk_render_options.as_ref()?;
        let types = told.sdk_ui_type.clone().unwrap_or_default();
        let mut options = Map::new();
        options.insert("sdkInterface".to_owned(), told.sdk_interface.clone().into());
        options.insert("sdkUiType".to_owned(), types.into());
        it.app(Some(Value::Object(options)))
    };
};

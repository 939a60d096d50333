// Hosted fields as a payer uses them: typing, pasting, keyboard only, on a phone, in Arabic, with a screen reader.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";

import { DESKTOP, PHONE } from "./browser.js";
import { FIELD_SHOP_PAGE, withFields } from "./field-shop.js";
import { FIELDS, startSites } from "./sites.js";

const VISA = "4242424242424242";
const AMEX = "378282246310005";
const CO_BADGED = "4150580996517927";
const SEPARATE = `[
  ["number", "cardNumber", {}],
  ["expiry", "cardExpirationDate", {}],
  ["code", "cardVerificationCode", {}],
  ["name", "text", { "aria-label": "Name on card", autoComplete: "cc-name" }],
]`;

let sites;

before(async () => {
  sites = await startSites({ "/fields": FIELD_SHOP_PAGE });
});

after(async () => assert.equal(await sites.stop(), 0));

function inShop(name, setup, use) {
  test(name, () => withFields(sites, name, { ...DESKTOP, fields: SEPARATE, ...setup }, use));
}

inShop("typed_number_is_grouped_and_the_caret_stays", {}, async ({ page, input, caret }) => {
  const number = input("number");
  await number.pressSequentially(VISA);
  assert.equal(await caret(number), "4242 4242 4242 4242|");
  await number.evaluate((it) => it.setSelectionRange(5, 5));
  await page.keyboard.press("Backspace");
  assert.equal(await caret(number), "424|4 2424 2424 242");
  await page.keyboard.type("9");
  assert.equal(await caret(number), "4249| 4242 4242 4242");
  await page.keyboard.press("Delete");
  assert.equal(await caret(number), "4249| 2424 2424 242");
  await page.keyboard.press("ControlOrMeta+a");
  await page.keyboard.type("37");
  assert.equal(await caret(number), "37|");
});

inShop("undo_and_redo_restore_text_and_caret", {}, async ({ page, input, caret }) => {
  const number = input("number");
  await number.pressSequentially("42424");
  await page.keyboard.press("ControlOrMeta+z");
  assert.equal(await caret(number), "4242|");
  await page.keyboard.press("ControlOrMeta+Shift+z");
  assert.equal(await caret(number), "4242 4|");
  for (let step = 0; step < 8; step += 1) await page.keyboard.press("ControlOrMeta+z");
  assert.equal(await caret(number), "|");
});

inShop("pasted_number_with_dashes_is_accepted", { permissions: ["clipboard-read", "clipboard-write"] }, async (shop) => {
  const { page, input, caret, lastChange, eventually } = shop;
  await page.evaluate(() => navigator.clipboard.writeText("3782-822463-10005"));
  await input("number").focus();
  await page.keyboard.press("ControlOrMeta+v");
  assert.equal(await caret(input("number")), "3782 822463 10005|");
  await eventually(async () => assert.equal((await lastChange("number")).complete, true));
  const { cardBrand, cardBin, cardLast4 } = await lastChange("number");
  assert.deepEqual([cardBrand, cardBin, cardLast4], ["american-express", "378282", "0005"]);
});

// A Maestro number is complete at every length from 12 to 19: the last four digits of each would be the whole number.
inShop("last_four_digits_are_reported_at_one_length_of_the_number", {
  fields: '[["number", "cardNumber", { skipLuhnValidation: true }]]',
}, async ({ page, input, events, eventually }) => {
  await input("number").pressSequentially("6759649826438453");
  assert.deepEqual((await events("number", "change")).flatMap(({ cardLast4 }) => cardLast4 ?? []), []);
  await page.locator("#after").focus();
  await eventually(async () => assert.equal((await events("number", "change")).at(-1).cardLast4, "8453"));
  // The payer continues: another length gives no other digits.
  await input("number").press("End");
  await input("number").pressSequentially("12");
  await page.locator("#after").focus();
  await page.waitForTimeout(200);
  const reported = (await events("number", "change")).flatMap(({ cardLast4 }) => cardLast4 ?? []);
  assert.deepEqual([...new Set(reported)], ["8453"]);
});

inShop("composed_full_width_digits_become_ascii_digits", {}, async ({ page, input, document, caret }) => {
  await input("number").focus();
  const frame = await document("number");
  const session = await page.context().newCDPSession(frame);
  await session.send("Input.imeSetComposition", { text: "４２４２", selectionStart: 4, selectionEnd: 4 });
  assert.equal(await caret(input("number")), "４２４２|", "the composition is not disturbed");
  await session.send("Input.insertText", { text: "４２４２４" });
  assert.equal(await caret(input("number")), "4242 4|");
});

inShop("brand_icon_follows_the_number", {}, async ({ page, input, frame }) => {
  const icon = frame("number").locator(".icon");
  assert.equal(await icon.getAttribute("role"), null);
  await input("number").pressSequentially("4");
  assert.equal(await icon.getAttribute("aria-label"), "Visa");
  await input("number").pressSequentially("01178");
  assert.equal(await icon.getAttribute("aria-label"), "Elo");
  await page.keyboard.press("ControlOrMeta+a");
  await page.keyboard.type("37");
  assert.equal(await icon.getAttribute("aria-label"), "American Express");
});

const CARD = `[["card", "card", {}]]`;

inShop("card_parts_advance_and_backspace_returns", { fields: CARD }, async (shop) => {
  const { page, frame, lastChange, eventually, events } = shop;
  await frame("card").locator("[name=cardnumber]").focus();
  await page.keyboard.type(AMEX);
  await page.keyboard.type("1230");
  await page.keyboard.type("1234");
  await eventually(async () => assert.equal((await lastChange("card")).complete, true));
  assert.equal(await frame("card").locator("[name=cvc]").inputValue(), "1234", "an American Express code has four digits");
  for (let step = 0; step < 5; step += 1) await page.keyboard.press("Backspace");
  assert.equal(await frame("card").locator("[name=exp-date]").inputValue(), "12 / 30");
  await page.keyboard.press("Backspace");
  assert.equal(await frame("card").locator("[name=exp-date]").inputValue(), "12 / 3");
  await page.keyboard.press("Enter");
  await eventually(async () => {
    const [event] = await events("card", "keydown");
    assert.deepEqual([event.key, event.targetId, event.ctrlKey], ["Enter", "cardExpirationDate", false]);
  });
});

inShop("tab_reaches_every_field_in_order_and_no_hidden_input", {}, async ({ page, eventually }) => {
  await page.locator("#before").focus();
  for (const name of ["cardnumber", "exp-date", "cvc", "text"]) {
    await page.keyboard.press("Tab");
    await eventually(async () => assert.equal(await focusedName(page), name));
  }
  await page.keyboard.press("Tab");
  await eventually(async () => assert.equal(await page.evaluate(() => document.activeElement.id), "after"));
  await page.keyboard.press("Shift+Tab");
  await eventually(async () => assert.equal(await focusedName(page), "text"));
});

// The name of the input with the focus, in any frame.
async function focusedName(page) {
  for (const frame of page.frames()) {
    const name = await frame.evaluate(() => (document.hasFocus() ? document.activeElement?.getAttribute("name") : null));
    if (name && frame !== page.mainFrame()) return name;
  }
  return undefined;
}

inShop("focus_and_blur_of_the_page_reach_the_input", {}, async ({ page, events, eventually }) => {
  await page.evaluate(() => window.elements.expiry.focus());
  await eventually(async () => assert.equal(await focusedName(page), "exp-date"));
  await page.evaluate(() => window.elements.expiry.blur());
  await eventually(async () => assert.deepEqual((await events("expiry", "blur")).map((it) => it.targetId), ["expiry"]));
  assert.equal((await events("expiry", "focus")).length, 1);
});

inShop("errors_appear_after_the_field_was_left_and_are_described", {}, async (shop) => {
  const { page, input, frame, events, lastChange, eventually } = shop;
  const expiry = input("expiry");
  await expiry.click();
  await expiry.pressSequentially("1220");
  assert.equal(await expiry.getAttribute("aria-invalid"), null);
  await page.locator("#after").focus();
  await eventually(async () => assert.equal(await expiry.getAttribute("aria-invalid"), "true"));
  const described = await expiry.getAttribute("aria-describedby");
  const message = frame("expiry").locator(`#${described}`);
  assert.equal(await message.textContent(), "Expiration date is not valid or is in the past.");
  assert.equal(await message.getAttribute("aria-live"), "polite");
  await eventually(async () => assert.deepEqual((await lastChange("expiry")).errors, [{ targetId: "expiry", type: "invalid" }]));
  assert.equal((await events("expiry", "blur")).length, 1);
  await expiry.focus();
  await page.keyboard.press("Backspace");
  assert.equal(await expiry.getAttribute("aria-invalid"), null);
  assert.equal(await expiry.getAttribute("aria-describedby"), null);
});

inShop("validate_shows_errors_of_empty_fields_and_clear_removes_them", {}, async (shop) => {
  const { page, input, lastChange, eventually } = shop;
  await page.evaluate(() => window.elements.number.validate());
  await eventually(async () => assert.equal(await input("number").getAttribute("aria-invalid"), "true"));
  await eventually(async () => assert.deepEqual((await lastChange("number")).errors, [{ targetId: "number", type: "incomplete" }]));
  await page.evaluate(() => window.elements.number.clear());
  await eventually(async () => assert.equal(await input("number").getAttribute("aria-invalid"), null));
});

inShop(
  "page_validation_is_reported_on_blur_only",
  { fields: `[["text", "text", { validation: /^secret$/, style: { complete: { padding: "40px" }, invalid: { padding: "80px" } } }]]` },
  async ({ page, input, events, eventually }) => {
    await input("text").click();
    await input("text").pressSequentially("secret");
    await page.waitForTimeout(300);
    const heightBefore = await page.locator("#text iframe").evaluate((it) => it.clientHeight);
    const validity = (await events("text", "change")).map((it) => it.valid);
    assert.deepEqual([...new Set(validity)], [true], "the validity did not change while typing");
    await input("text").pressSequentially("s");
    await page.evaluate(() => window.elements.text.validate());
    await page.evaluate(() => window.elements.text.blur());
    await page.waitForTimeout(300);
    assert.deepEqual((await events("text", "change")).filter((it) => it.valid !== true), [], "the page cannot ask");
    await input("text").focus();
    assert.equal(await page.locator("#text iframe").evaluate((it) => it.clientHeight), heightBefore);
    await page.locator("#after").focus();
    await eventually(async () => assert.equal((await events("text", "change")).at(-1).valid, false));
  },
);

inShop(
  "field_that_follows_another_reports_only_emptiness",
  { fields: `[["source", "cardNumber", {}], ["target", "cardNumber", { style: { complete: { padding: "40px" } } }], ["other", "text", {}]]` },
  async ({ page, input, events, eventually }) => {
    const height = () => page.locator("#target iframe").evaluate((it) => it.clientHeight);
    // The frame has 24 pixels until the field reports its own height, which may be after `ready`.
    await eventually(async () => assert.equal(await height(), 28));
    await page.evaluate(() => {
      window.elements.target.setValueRef(window.elements.source);
      window.elements.other.setValueRef(window.elements.source);
    });
    await input("source").pressSequentially(VISA);
    await eventually(async () => assert.equal(await input("target").inputValue(), "4242 4242 4242 4242"));
    await page.waitForTimeout(200);
    for (const { id, type, ...fields } of await events("target", "change")) {
      assert.deepEqual(Object.keys(fields), ["empty"], `${id} ${type}`);
    }
    assert.equal(await height(), 28, "the style of a complete value does not show in the height");
    assert.equal(await input("other").inputValue(), "", "a field of another type gets nothing");
    // A deleted value does not come back as a typed one.
    await input("target").focus();
    await page.keyboard.press("ControlOrMeta+a");
    await page.keyboard.press("Backspace");
    await page.keyboard.press("ControlOrMeta+z");
    assert.equal(await input("target").inputValue(), "");
  },
);

inShop(
  "transform_of_a_followed_text_does_not_reveal_a_match",
  { fields: `[["source", "text", { transform: [/^.*4$/, ""] }], ["target", "text", { mask: [/x/], transform: [/.*/, "y"] }]]` },
  async ({ page, input, events, document, eventually }) => {
    await page.evaluate(() => window.elements.target.setValueRef(window.elements.source));
    await input("source").click();
    await input("source").pressSequentially("124");
    await eventually(async () => assert.equal(await input("target").inputValue(), "124"));
    const changes = await events("target", "change");
    assert.deepEqual(changes.map((it) => it.empty), [true, false], "only the first key changed the emptiness");
    const read = (it) => it.evaluate(() => window.scripField.read());
    assert.equal((await read(await document("source"))).value, "");
    const { complete, valid, empty, errors, value } = await read(await document("target"));
    assert.deepEqual({ complete, valid, empty, errors, value }, { complete: true, valid: true, empty: false, errors: [], value: "124" });
  },
);

inShop("revealed_token_is_shown_in_the_frame_only", { fields: `[["number", "cardNumber", { readOnly: true }], ["expiry", "cardExpirationDate", { readOnly: true }]]` }, async (shop) => {
  const { page, input, eventually, events } = shop;
  const data = { number: VISA, expiration_month: 3, expiration_year: 2031 };
  const { body } = await sites.vault.send("private", "POST", "/tokens", { type: "card", data });
  const answer = await page.evaluate(
    async ([id, apiKey]) => {
      const token = await window.instance.tokens.retrieve(id, { apiKey });
      window.elements.number.setValue(token.data.number);
      window.elements.expiry.setValue({ month: token.data.expiration_month, year: token.data.expiration_year });
      return JSON.stringify(token);
    },
    [body.id, sites.vault.keys.private],
  );
  assert.ok(!answer.includes(VISA));
  await eventually(async () => assert.equal(await input("number").inputValue(), "4242 4242 4242 4242"));
  assert.equal(await input("expiry").inputValue(), "03 / 31");
  const changes = await events("number", "change");
  assert.deepEqual(changes.map(({ id, type, ...fields }) => fields), [{ empty: false }]);
});

inShop("right_to_left_page_mirrors_the_field_and_keeps_digits_left_to_right", {
  fields: CARD,
  prepare: () => Object.assign(document.documentElement, { dir: "rtl", lang: "ar" }),
}, async ({ page, frame, caret }) => {
  const number = frame("card").locator("[name=cardnumber]");
  const box = await number.boundingBox();
  const code = await frame("card").locator("[name=cvc]").boundingBox();
  assert.ok(box.x > code.x, "the number is on the right");
  const style = await number.evaluate((it) => [getComputedStyle(it).direction, getComputedStyle(it).textAlign]);
  assert.deepEqual(style, ["ltr", "right"]);
  assert.equal(await number.getAttribute("aria-label"), "رقم البطاقة");
  await number.pressSequentially("٤٢٤٢٤");
  assert.equal(await caret(number), "4242 4|");
  await page.keyboard.press("Tab");
});

inShop("screen_reader_tree_has_names_roles_and_errors", { fields: `[["card", "card", { title: "Payment card" }], ...${SEPARATE}]` }, async (shop) => {
  const { page, input, document, frame, eventually } = shop;
  await frame("card").locator("[name=cardnumber]").pressSequentially("4242");
  await page.locator("#after").focus();
  await eventually(async () => assert.equal(await input("card").getAttribute("aria-invalid"), "true"));
  const nodes = await accessibilityTree(page, await document("card"));
  const named = (role) => nodes.filter((it) => it.role?.value === role && !it.ignored).map((it) => it.name?.value);
  assert.deepEqual(named("textbox"), ["Card number", "Expiration date", "Security code"], "hidden inputs are not in the tree");
  assert.deepEqual(named("group"), ["Payment card"]);
  assert.deepEqual(named("image"), ["Visa"]);
  const [number] = nodes.filter((it) => it.name?.value === "Card number" && it.role.value === "textbox");
  const property = (name) => number.properties.find((it) => it.name === name)?.value.value;
  assert.equal(property("invalid"), "true");
  assert.equal(number.description?.value, "Card number is incomplete.");
  const text = await accessibilityTree(page, await document("name"));
  assert.deepEqual(text.filter((it) => it.role?.value === "textbox" && !it.ignored).map((it) => it.name.value), ["Name on card"]);
});

async function accessibilityTree(page, frame) {
  const session = await page.context().newCDPSession(frame);
  return (await session.send("Accessibility.getFullAXTree")).nodes;
}

inShop("axe_finds_no_fault_in_the_fields", {
  fields: `[["card", "card", {}], ...${SEPARATE}, ["paid", "cardNumber", { enableCopy: true, coBadgedSupport: ["cartes-bancaires"] }], ["copy", "copyButton", { text: "Copy" }]]`,
}, async ({ page, input, frame, document }) => {
  const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
  await input("paid").pressSequentially(CO_BADGED);
  await frame("paid").locator(".networks").waitFor();
  await input("code").pressSequentially("1");
  await page.locator("#after").focus();
  for (const id of ["card", "number", "expiry", "code", "name", "paid", "copy"]) {
    const inside = await document(id);
    await inside.evaluate(axe);
    const faults = await inside.evaluate(async () => {
      // Landmarks and headings belong to the page around the frame.
      const rules = { region: { enabled: false }, "page-has-heading-one": { enabled: false }, "landmark-one-main": { enabled: false } };
      const { violations } = await window.axe.run(document, { rules });
      return violations.map((it) => `${it.id}: ${it.nodes.map((node) => node.html).join(" ")}`);
    });
    assert.deepEqual(faults, [], id);
  }
});

inShop("card_is_one_line_on_a_desktop", { fields: CARD }, async ({ frame }) => {
  const [number, code] = await Promise.all(["cardnumber", "cvc"].map((it) => frame("card").locator(`[name=${it}]`).boundingBox()));
  assert.ok(Math.abs(number.y - code.y) < 2);
});

inShop("card_wraps_on_a_phone_with_large_targets", { ...PHONE, fields: CARD }, async ({ page, frame, eventually }) => {
  const boxes = await Promise.all(["cardnumber", "exp-date", "cvc"].map((it) => frame("card").locator(`[name=${it}]`).boundingBox()));
  const [number, expiry, code] = boxes;
  assert.ok(expiry.y >= number.y + number.height && Math.abs(expiry.y - code.y) < 2);
  for (const box of boxes) assert.ok(box.height >= 44, `${box.height} px high`);
  const size = await frame("card").locator(".input").first().evaluate((it) => parseFloat(getComputedStyle(it).fontSize));
  assert.ok(size >= 16, "a smaller font makes phones zoom in");
  await eventually(async () => {
    const inside = await frame("card").locator("form").evaluate((it) => it.scrollHeight);
    assert.equal(await page.locator("#card iframe").evaluate((it) => it.clientHeight), inside);
  });
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 390, "nothing is wider than the phone");
});

inShop("autofill_attributes_and_hidden_inputs_offer_the_card", {}, async ({ page, input, document, lastChange, eventually }) => {
  const tokens = (id) =>
    document(id).then((it) => it.evaluate(() => [...document.querySelectorAll("input")].map((input) => [input.autocomplete, input.tabIndex])));
  assert.deepEqual(await tokens("number"), [["cc-number", 0], ["cc-name", -1], ["cc-exp", -1], ["cc-csc", -1]]);
  assert.deepEqual((await tokens("code"))[0], ["cc-csc", 0]);
  await input("code").pressSequentially("999");
  const frame = await document("number");
  await frame.evaluate(() => {
    for (const [token, value] of [["cc-exp", "01/2031"], ["cc-csc", "123"], ["cc-name", "Jo Doe"]]) {
      const hidden = document.querySelector(`.autofill [autocomplete=${token}]`);
      hidden.value = value;
      hidden.dispatchEvent(new Event("input", { bubbles: true }));
    }
  });
  await eventually(async () => assert.equal(await input("expiry").inputValue(), "01 / 31"));
  assert.equal(await input("name").inputValue(), "Jo Doe");
  assert.equal(await input("code").inputValue(), "999", "a typed value is not overwritten");
  assert.equal(await frame.evaluate(() => [...document.querySelectorAll("input")].map((it) => it.value).join("")), "");
  await eventually(async () => assert.equal((await lastChange("expiry")).complete, true));
  assert.equal(await lastChange("number"), undefined, "hidden inputs are not the value of the field");
  await page.locator("#after").focus();
});

inShop("copy_buttons_write_to_the_clipboard_and_confirm", {
  permissions: ["clipboard-read", "clipboard-write"],
  fields: `[["number", "cardNumber", { enableCopy: true }], ["copy", "copyButton", { text: "Copy number" }]]`,
}, async ({ page, frame, input, events, eventually }) => {
  await page.evaluate((value) => window.elements.number.update({ value }), VISA);
  await page.evaluate(() => window.elements.copy.setValueRef(window.elements.number));
  for (const [id, selector] of [["number", ".copy"], ["copy", ".button"]]) {
    await page.evaluate(() => navigator.clipboard.writeText("before"));
    await frame(id).locator(selector).focus();
    await page.keyboard.press("Enter");
    await eventually(async () => assert.deepEqual((await events(id, "copy")).map((it) => it.targetId), [id]));
    assert.equal(await frame(id).locator("[role=status]").textContent(), "Copied");
    await page.locator("#after").focus();
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), VISA);
  }
  assert.equal((await events("copy", "click")).length, 1);
});

inShop("co_badged_card_lets_the_payer_choose_with_the_keyboard", {
  fields: `[["number", "cardNumber", { binLookup: true, coBadgedSupport: ["cartes-bancaires"], preSelectedNetworks: ["cartes-bancaires"] }]]`,
}, async ({ page, input, frame, lastChange, eventually }) => {
  await input("number").pressSequentially(CO_BADGED);
  await eventually(async () => assert.equal((await lastChange("number")).selectedNetwork, "cartes-bancaires"));
  assert.ok((await lastChange("number")).binInfo.additional.length > 0);
  await page.keyboard.press("Tab");
  await page.keyboard.press("ArrowUp");
  await eventually(async () => assert.equal((await lastChange("number")).selectedNetwork, "visa"));
  assert.equal(await frame("number").locator("legend").textContent(), "Pay with");
  await input("number").fill(VISA);
  await eventually(async () => assert.equal(await frame("number").locator(".networks").isVisible(), false));
  assert.equal((await lastChange("number")).selectedNetwork, undefined);
});

inShop("hostile_styles_and_markup_have_no_effect", {
  fields: `[["number", "cardNumber", {
    placeholder: "<img src=x onerror=alert(1)>", title: "<b>x</b>",
    style: {
      base: { color: "rgb(1, 2, 3)", display: "none", width: "0", backgroundColor: "red; } body { display: none", fontFamily: "url(https://evil.test/x)" },
      container: { position: "fixed", padding: "3px" },
      ".input, body": { color: "red" },
    },
  }]]`,
}, async ({ input, document }) => {
  const style = await input("number").evaluate((it) => {
    const { color, display, backgroundColor } = getComputedStyle(it);
    return { color, display, backgroundColor };
  });
  assert.deepEqual(style, { color: "rgb(1, 2, 3)", display: "block", backgroundColor: "rgba(0, 0, 0, 0)" });
  await input("number").pressSequentially(VISA);
  const markup = await (await document("number")).evaluate(() => document.documentElement.outerHTML);
  assert.ok(!markup.includes("4242"), "no value is in an attribute");
  assert.equal(await (await document("number")).evaluate(() => document.images.length), 0);
});

inShop("value_cannot_be_dragged_out_of_the_frame", {}, async ({ input }) => {
  await input("number").pressSequentially(VISA);
  const isPrevented = await input("number").evaluate((it) => {
    it.select();
    return !it.dispatchEvent(new DragEvent("dragstart", { bubbles: true, cancelable: true }));
  });
  assert.ok(isPrevented);
});

inShop("update_changes_options_but_not_mask_validation_and_transform", {
  fields: `[["text", "text", { mask: [/\\d/, /\\d/], transform: /x/ }], ["number", "cardNumber", {}]]`,
}, async ({ page, input, eventually }) => {
  await page.evaluate(async () => {
    await window.elements.text.update({ placeholder: "00", mask: [/[a-z]/], disabled: false, "aria-label": "Two digits" });
    await window.elements.number.update({ readOnly: true, iconPosition: "none", value: "5555555555554444" });
  });
  await eventually(async () => assert.equal(await input("text").getAttribute("placeholder"), "00"));
  assert.equal(await input("text").getAttribute("aria-label"), "Two digits");
  await input("text").click();
  await input("text").pressSequentially("a12");
  assert.equal(await input("text").inputValue(), "12");
  await eventually(async () => assert.equal(await input("number").inputValue(), "5555 5555 5555 4444"));
  assert.equal(await input("number").evaluate((it) => it.readOnly), true);
});

test("field_page_alone_shows_nothing", () =>
  sites.browser.withPage("fields alone", DESKTOP, async (page) => {
    await page.goto(`${FIELDS}/web-elements/1/hosted-elements/field.html#nonce=${"0".repeat(32)}&element=x&type=text`);
    await page.waitForTimeout(200);
    assert.equal(await page.locator("input").count(), 0);
  }));

// The metadata that a page gets from a field.

import assert from "node:assert/strict";
import { test } from "node:test";

import { readOptions, readTransform } from "../../crates/scrip-elements/web/field/field-options.js";
import { changeFields, readingFields } from "../../crates/scrip-elements/web/field/report.js";

const part = (changes) => ({ targetId: "field", empty: false, error: undefined, showsError: false, maskSatisfied: true, ...changes });
const card = { digits: "4242424242424242", brand: "visa", complete: true, showsLast4: true, binInfo: { brand: "VISA" }, selectedNetwork: "visa" };

test("set_field_reports_only_emptiness", () => {
  for (const error of [undefined, "invalid", "incomplete"]) {
    const state = { parts: [part({ error, showsError: true })], wasSet: true, card, hasPageValidation: true, reportedValidity: false };
    assert.deepEqual(changeFields(state), { empty: false });
  }
  assert.deepEqual(changeFields({ parts: [part({ empty: true })], wasSet: true }), { empty: true });
});

test("page_validation_reports_its_last_result", () => {
  for (const reportedValidity of [true, false]) {
    const reports = [undefined, "invalid"].map((error) =>
      changeFields({ parts: [part({ error })], wasSet: false, hasPageValidation: true, reportedValidity }),
    );
    assert.deepEqual(reports[0], reports[1], "the present validity has no effect");
    assert.equal(reports[0].valid, reportedValidity);
    assert.equal(reports[0].complete, reportedValidity);
  }
});

test("text_that_is_the_payers_only_in_part_reports_emptiness_only", () => {
  for (const error of [undefined, "invalid", "incomplete"]) {
    const parts = [part({ error, showsError: true })];
    assert.deepEqual(changeFields({ parts, wasSet: false, state: "closed", card }), { empty: false, complete: false });
    const unentered = changeFields({ parts, wasSet: false, state: "hidden", card });
    assert.deepEqual(unentered, { empty: false, complete: error === undefined });
  }
});

test("typed_part_next_to_a_set_part_has_its_errors", () => {
  const reading = readingFields([part({}), part({ error: "invalid" })], true);
  assert.deepEqual([reading.valid, reading.errors], [false, [{ targetId: "field", type: "invalid" }]]);
  assert.equal(readingFields([part({ empty: true })], true).complete, false);
});

test("errors_are_listed_only_after_they_are_visible", () => {
  const hidden = changeFields({ parts: [part({ error: "incomplete" })], wasSet: false });
  assert.deepEqual([hidden.errors, hidden.valid, hidden.complete], [[], false, false]);
  const visible = changeFields({ parts: [part({ error: "incomplete", showsError: true })], wasSet: false });
  assert.deepEqual(visible.errors, [{ targetId: "field", type: "incomplete" }]);
  const untouched = changeFields({ parts: [part({ empty: true, error: "incomplete" })], wasSet: false });
  assert.deepEqual([untouched.valid, untouched.complete, untouched.empty], [true, false, true]);
});

test("reading_of_an_incomplete_field_has_an_error_also_before_it_is_visible", () => {
  const reading = readingFields([part({ empty: true, error: "incomplete" }), part({})], false);
  assert.deepEqual(reading, { complete: false, valid: false, empty: false, errors: [{ targetId: "field", type: "incomplete" }] });
});

test("card_report_has_bin_and_last_four_but_no_number", () => {
  const report = changeFields({ parts: [part({})], wasSet: false, card: { ...card, digits: "4242421111114242" } });
  assert.deepEqual([report.cardBrand, report.cardBin, report.cardLast4, report.selectedNetwork], ["visa", "42424211", "4242", "visa"]);
  assert.ok(!JSON.stringify(report).includes("1111114"));
  const incomplete = changeFields({ parts: [part({})], wasSet: false, card: { digits: "42424", complete: false } });
  assert.deepEqual([incomplete.cardBrand, incomplete.cardBin, incomplete.cardLast4], ["unknown", undefined, undefined]);
});

test("fixed_options_ignore_updates", () => {
  const created = readOptions("text", { targetId: "a", mask: [/\d/], validation: /a/, transform: /b/, validateOnChange: true, placeholder: "x" });
  const changes = { targetId: "b", mask: [/x/], validation: /x/, transform: /x/, validateOnChange: false, enableCopy: true, placeholder: "y" };
  const { options } = readOptions("text", changes, created);
  for (const key of ["targetId", "mask", "validation", "transform", "validateOnChange", "enableCopy"]) {
    assert.deepEqual(options[key], created.options[key], key);
  }
  assert.equal(options.placeholders.text, "y");
  // An option that was absent when the field was created stays absent.
  const without = readOptions("text", { targetId: "a" });
  assert.equal(readOptions("text", { validation: /x/, mask: [/x/] }, without).options.validation, undefined);
});

test("hostile_options_become_defaults", () => {
  for (const sent of [undefined, null, 5, "x", [], { maxLength: -1, autoComplete: "cc-number\" onfocus=\"x", inputMode: {}, lang: 7, mask: "x", validation: "x", maxElapsedExpirationYear: -5 }]) {
    const { options } = readOptions("text", sent);
    assert.deepEqual([options.maxLength, options.autoComplete, options.inputMode, options.lang], [undefined, {}, undefined, "en"]);
    assert.deepEqual([options.mask, options.validation, options.elapsedYears], [undefined, undefined, 0]);
  }
  assert.equal(readOptions("cardNumber", { mask: [/\d/], transform: /\d/, validation: /4/ }).options.transform, undefined);
});

test("transform_always_has_the_flags_g_and_u", () => {
  assert.deepEqual(readTransform([/-/i, "+"]), [/-/gu, "+"]);
  assert.deepEqual(readTransform(/-/), [/-/gu, ""]);
  assert.equal(readTransform("x"), undefined);
});

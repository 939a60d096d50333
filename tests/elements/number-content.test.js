// What a page gets of a card number while it is typed.

import assert from "node:assert/strict";
import { test } from "node:test";

import { NumberContent } from "../../crates/scrip-elements/web/field/number-content.js";
import { findBrand, passesLuhn } from "../../crates/scrip-elements/web/field/format/brand.js";

const VISA = "4242424242424242";
const AMEX = "378282246310005";
// Maestro: complete at every length from 12 on, if the checksum is not checked.
const MAESTRO = "6759649826438453019";

test("last_digits_of_an_ordinary_number_are_reported_when_the_field_is_left", () => {
  const content = new NumberContent();
  assert.equal(content.reportLast4(VISA, false), false);
  assert.equal(content.reportLast4(VISA, true), true);
  assert.equal(new NumberContent().reportLast4(AMEX, false), true, "the greatest length of the brand");
});

test("last_digits_are_reported_at_one_length", () => {
  assert.equal(findBrand(MAESTRO).type, "maestro");
  const content = new NumberContent();
  const reported = [];
  for (let length = 12; length <= 19; length += 1) {
    const digits = MAESTRO.slice(0, length);
    // A page takes the focus away at each length, and the payer comes back.
    if (!content.hasOtherLength(digits) && content.reportLast4(digits, true)) reported.push(length);
  }
  const first = [16, 17, 18].find((it) => passesLuhn(MAESTRO.slice(0, it))) ?? 19;
  assert.deepEqual(reported, [first]);
});

test("used_number_is_not_used_or_reported_at_another_length", () => {
  const content = new NumberContent();
  content.use(MAESTRO.slice(0, 13));
  for (const length of [12, 14, 16, 19]) {
    const digits = MAESTRO.slice(0, length);
    assert.equal(content.hasOtherLength(digits), true);
    assert.equal(content.reportLast4(digits, true), false, String(length));
  }
  content.use(MAESTRO);
  assert.equal(content.hasOtherLength(MAESTRO), true, "the first use counts");
  content.begin();
  assert.equal(content.hasOtherLength(MAESTRO), false);
  assert.equal(content.reportLast4(MAESTRO, true), true);
});

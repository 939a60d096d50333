// What a payer types belongs together only if the payer, and not the page, began it.

import assert from "node:assert/strict";
import { test } from "node:test";

import { NumberContent, isWholeNumber } from "../../crates/scrip-elements/web/field/number-content.js";
import { PayerEntry, followsNumber, isPiece, isUnfinished } from "../../crates/scrip-elements/web/field/payer-entry.js";

const part = (role, text, changes) => ({
  role, text, isEmpty: text === "", isUnentered: true, isGivenWhole: false, isComposing: false, kind: { check: () => undefined }, ...changes,
});

test("text_that_the_page_took_away_divides_until_the_payer_acts", () => {
  const entry = new PayerEntry();
  assert.equal(entry.isEntered, false, "nobody has come to the field");
  entry.act();
  assert.deepEqual([entry.isEntered, entry.isDivided], [true, false]);
  entry.interrupt(true);
  entry.leave();
  assert.deepEqual([entry.isEntered, entry.isDivided], [false, true]);
  entry.interrupt(false);
  assert.equal(entry.isDivided, true, "a second change by the page repairs nothing");
  entry.act();
  assert.deepEqual([entry.isEntered, entry.isDivided], [true, false]);
  entry.interrupt(false);
  assert.deepEqual([entry.isEntered, entry.isDivided], [false, false], "a finished text was taken away");
});

test("piece_of_a_number_is_no_whole_number", () => {
  const number = "4539578763621486";
  for (let length = 1; length <= 16; length += 1) assert.equal(isWholeNumber(number.slice(0, length)), length === 16, `${length}`);
  for (let start = 1; start < 16; start += 1) assert.equal(isWholeNumber(number.slice(start)), false, number.slice(start));
  assert.ok(isWholeNumber("378282246310005"), "the greatest length of the brand");
  assert.deepEqual([isPiece(part("number", "876362"), false), isPiece(part("number", number), false)], [true, false]);
  assert.equal(isPiece(part("number", "876362", { isUnentered: false }), false), false, "the payer began it");
});

test("text_with_rules_of_the_page_is_a_piece_until_the_payer_acts", () => {
  assert.deepEqual([isPiece(part("text", "a"), true), isPiece(part("text", "a"), false)], [true, false]);
});

test("payer_has_finished_whole_numbers_dates_and_codes_but_no_text", () => {
  const cases = [
    [part("number", "453957"), true],
    [part("number", "4539578763621486"), false],
    [part("number", "453957", { isGivenWhole: true }), false],
    [part("number", "", { isComposing: true }), true],
    [part("code", "987"), false],
    [part("code", "98", { kind: { check: () => "incomplete" } }), true],
    [part("text", "Jane Doe"), true],
    [part("text", ""), false],
  ];
  for (const [state, expected] of cases) assert.equal(isUnfinished(state), expected, `${state.role} ${state.text}`);
});

test("date_follows_a_number_that_was_just_finished", () => {
  const field = (isFinished, age) => ({ numberState: () => (isFinished === undefined ? undefined : { isFinished, age }) });
  const cases = [[[], false], [[field()], false], [[field(true, 10)], true], [[field(true, 60_000)], false], [[field(true, 10), field(false, 10)], false]];
  for (const [fields, expected] of cases) assert.equal(followsNumber(fields), expected);
});

test("first_digits_are_reported_once_for_a_number", () => {
  const content = new NumberContent();
  const others = ["45395", "453957", "4539578763621486", "453957876362148", "539578763621486"].map((it) => content.hasOtherStart(it, false));
  assert.deepEqual(others, [false, false, false, false, true]);
  assert.equal(content.hasOtherStart("5555555555554444", true), false, "a complete number");
  content.begin();
  assert.equal(content.hasOtherStart("876362", false), false, "another number");
});

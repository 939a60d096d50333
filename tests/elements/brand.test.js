// Brands by prefix, checks of card numbers, and the parts that a page may know.

import assert from "node:assert/strict";
import { test } from "node:test";

import { checkNumber, findBrand, passesLuhn, readAcceptedTypes, visibleParts } from "../../crates/scrip-elements/web/field/format/brand.js";
import { CARD_BRANDS } from "../../crates/scrip-elements/web/field/format/card-brands.js";

test("published_test_numbers_have_their_brand_and_are_complete", () => {
  for (const [brand, numbers] of Object.entries({
    visa: ["4111111111111111", "4012888888881881"],
    mastercard: ["5555555555554444", "2223003122003222", "2720990000000007", "2221000000000009"],
    "american-express": ["378282246310005", "341111111111111"],
    discover: ["6011111111111117", "6445644564456445"],
    "diners-club": ["36227206271667", "30569309025904", "38520000023237"],
    jcb: ["3530111333300000", "3566002020360505"],
    unionpay: ["6200000000000005", "8171999927660000"],
    maestro: ["6759649826438453"],
    elo: ["5066991111111118", "6362970000457013"],
    mir: ["2200000000000004"],
    hiper: ["6370950000000005"],
    hipercard: ["6062828888666688", "6062826786276634"],
  })) {
    for (const number of numbers) {
      assert.equal(findBrand(number)?.type, brand, number);
      assert.equal(checkNumber(number, {}).error, undefined, number);
    }
  }
});

test("brand_changes_when_a_longer_prefix_is_typed", () => {
  const brands = ["6", "60", "6011", "65", "650031", "4", "401178", "62", "627780", "5", "22", "2221"];
  assert.deepEqual(
    brands.map((it) => findBrand(it)?.type),
    ["maestro", "maestro", "discover", "discover", "elo", "visa", "elo", "unionpay", "elo", undefined, undefined, "mastercard"],
  );
});

test("number_errors_are_incomplete_or_invalid", () => {
  assert.equal(checkNumber("4242", {}).error, "incomplete");
  assert.equal(checkNumber("4242424242424241", {}).error, "invalid");
  assert.equal(checkNumber("4242424242424241", { skipLuhn: true }).error, undefined);
  assert.equal(checkNumber("42424242424242424", {}).error, "incomplete");
  assert.equal(checkNumber("37828224631000", {}).error, "incomplete");
  assert.ok(passesLuhn("4242424242424242"));
});

test("card_types_select_by_type_and_ignore_patterns_of_the_page", () => {
  const option = [{ type: "discover", patterns: [4], lengths: [1] }, { type: "own" }, null, "visa"];
  assert.deepEqual(readAcceptedTypes(option), ["discover"]);
  assert.equal(readAcceptedTypes("discover"), undefined);
  const rules = { accepted: ["discover"] };
  assert.equal(checkNumber("6", rules).error, "incomplete");
  assert.equal(checkNumber("601", rules).error, "incomplete");
  assert.equal(checkNumber("602", rules).error, "invalid");
  assert.equal(checkNumber("4", rules).error, "invalid");
  assert.equal(checkNumber("6011111111111117", rules).error, undefined);
  assert.equal(checkNumber("4242424242424242", { accepted: [] }).error, "invalid");
});

test("page_sees_at_most_eight_leading_digits_and_the_last_four_of_a_complete_number", () => {
  const number = "4242424242421234";
  for (let length = 0; length <= 16; length += 1) {
    const { cardBin, cardLast4 } = visibleParts(number.slice(0, length), length === 16, true);
    assert.equal(cardBin?.length ?? 0, length < 6 ? 0 : length < 16 ? 6 : 8);
    assert.equal(cardLast4, length === 16 ? "1234" : undefined);
  }
  assert.equal(visibleParts("378282246310005", true, true).cardBin, "378282");
  assert.equal(visibleParts(number, true, false).cardLast4, undefined);
});

test("brand_table_has_sorted_lengths_and_ranges_of_equal_length", () => {
  assert.equal(CARD_BRANDS.length, 12);
  for (const { type, patterns, lengths, gaps, code } of CARD_BRANDS) {
    for (const pattern of patterns) {
      const [first, last] = [pattern].flat().length === 2 ? pattern : [pattern, pattern];
      assert.ok(first <= last && String(first).length === String(last).length, `${type} ${pattern}`);
    }
    for (const list of [lengths, gaps]) assert.deepEqual(list, [...list].sort((a, b) => a - b), type);
    assert.ok(code.size === 3 || code.size === 4, type);
  }
});

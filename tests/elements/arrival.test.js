// The focus that comes to a field without the page.

import assert from "node:assert/strict";
import { afterEach, test } from "node:test";

import { Arrival, HeldShift, isTabAction } from "../../crates/scrip-elements/web/field/arrival.js";
import { lookAtPage } from "../../crates/scrip-elements/web/field/siblings.js";

const part = (role, facts = {}) => ({ role, isFocused: true, isEmpty: true, state: "open", ...facts });
const arrival = (others = [], isSeen = true) => new Arrival(() => ({ others, isSeen }));
const ROLES = ["number", "expiration", "code", "text"];

test("tab_opens_a_number_or_date_only_until_one_was_typed_in_the_page", () => {
  const field = arrival();
  const opens = (it) => ROLES.map((role) => it.opens([part(role)], false));
  assert.deepEqual(opens(field), [true, true, true, true]);
  for (const role of ["code", "text"]) field.type(role);
  assert.deepEqual(opens(field), [true, true, true, true]);
  field.type("expiration");
  assert.deepEqual(opens(field), [true, false, true, true]);
  assert.equal(field.opens([part("number"), part("expiration"), part("code")], false), false, "a card has a date");
  assert.deepEqual(opens(arrival([arrival(), field])), [true, false, true, true], "a field that the page adds later");
  field.type("number");
  assert.deepEqual(opens(field), [false, false, true, true]);
});

test("field_that_others_do_not_find_is_opened_by_a_press_only", () => {
  const hidden = arrival([], false);
  assert.deepEqual(ROLES.map((role) => hidden.opens([part(role)], false)), [false, false, true, true]);
  assert.equal(hidden.opens([part("expiration", { isEmpty: false })], true), true, "the payer corrects an open text");
});

test("field_is_seen_as_long_as_others_find_it", () => {
  const page = { others: [], isSeen: true };
  const field = new Arrival(() => page);
  assert.equal(field.isSeen, true);
  page.isSeen = false;
  assert.equal(field.isSeen, false, "the page moved its frame");
});

test("field_asks_the_others_at_each_way_into_it_and_tells_them_what_is_typed", () => {
  const page = { others: [], isSeen: false };
  const moved = new Arrival(() => page);
  const other = arrival([moved]);
  other.type("expiration");
  Object.assign(page, { others: [other], isSeen: true });
  assert.equal(moved.opens([part("expiration")], false), false, "no other field found it when the date was typed");
  moved.announce("number");
  assert.equal(other.hasTyped("number"), true);
});

test("shift_and_tab_open_a_field_with_an_open_text_of_the_payer", () => {
  const field = arrival();
  field.type("expiration");
  const returns = (facts) => field.opens([part("expiration", facts)], true);
  assert.equal(returns({ isEmpty: false }), true);
  assert.equal(returns({ isEmpty: true }), false);
  for (const state of ["given", "hidden", "closed"]) assert.equal(returns({ isEmpty: false, state }), false, state);
  assert.equal(returns({ isEmpty: false, isFocused: false }), false, "another part of the field has the focus");
  assert.equal(field.opens([part("expiration", { isEmpty: false })], false), false, "Tab without Shift");
});

test("tab_in_a_number_or_date_is_an_action_only_after_another_one", () => {
  for (const role of ROLES) {
    assert.equal(isTabAction([part(role)], true), true);
    assert.equal(isTabAction([part(role)], false), role === "code" || role === "text", role);
  }
});

test("enter_follows_the_rule_of_the_ways_without_a_press", () => {
  const field = arrival();
  const accepts = (isPresent) => ROLES.map((role) => field.accepts("enter", [part(role)], { isPresent, isBack: false }));
  assert.deepEqual(accepts(false), [true, true, true, true]);
  field.type("expiration");
  assert.deepEqual(accepts(false), [true, false, true, true]);
  assert.deepEqual(accepts(true), [true, true, true, true]);
  assert.equal(field.accepts("press", [part("expiration")], { isPresent: false, isBack: false }), true);
});

test("shift_counts_if_it_was_pressed_before_the_focus_came", () => {
  const follow = (...events) => {
    const shift = new HeldShift();
    for (const [kind, key] of events) shift[kind](key);
    return shift;
  };
  assert.equal(follow().cameWith(true), true, "Tab is released first");
  assert.equal(follow(["release", "Shift"], ["release", "Tab"]).cameWith(false), true, "Shift is released first");
  assert.equal(follow().cameWith(false), false);
  assert.equal(follow(["press", "Shift"]).cameWith(true), false, "Shift belongs to the next key");
  assert.equal(follow(["press", "Shift"], ["release", "Shift"]).cameWith(false), false);
  assert.equal(follow(["release", "Shift"], ["press", "9"]).cameWith(false), false, "an earlier way back");
  assert.equal(follow(["release", "Shift"], ["leave"]).cameWith(false), false);
  assert.equal(follow(["press", "Shift"], ["leave"]).cameWith(true), true, "a second Tab with the same Shift");
});

const ORIGIN = "https://vault.test";

// A window as a frame of another origin sees it: frames by index and by name, and nothing else.
const foreignWindow = (frames, named = {}) =>
  new Proxy(
    { ...frames, ...named, length: frames.length },
    {
      get(target, key) {
        if (key in target) return target[key];
        throw new Error("another origin");
      },
    },
  );
const vaultWindow = (scripArrival) => ({ origin: ORIGIN, length: 0, scripArrival });

afterEach(() => delete globalThis.window);

test("fields_of_the_page_are_found_in_every_instance_and_depth", () => {
  const fields = [0, 1, 2].map((it) => ({ name: `field ${it}` }));
  const own = vaultWindow(undefined);
  const deep = foreignWindow([foreignWindow([vaultWindow(fields[1])])]);
  const top = foreignWindow([vaultWindow(fields[0]), deep, own, vaultWindow(fields[2])]);
  globalThis.window = Object.assign(own, { top });
  assert.deepEqual(lookAtPage(), { others: fields, isSeen: true });
});

test("field_that_has_no_index_in_its_page_is_not_seen", () => {
  const field = { name: "field" };
  globalThis.window = { origin: ORIGIN, top: foreignWindow([vaultWindow(field)]) };
  assert.deepEqual(lookAtPage(), { others: [field], isSeen: false });
});

test("frame_of_the_page_with_the_name_of_a_property_is_no_field", () => {
  const inner = foreignWindow([]);
  globalThis.window = { origin: ORIGIN, top: foreignWindow([foreignWindow([inner], { origin: inner, scripArrival: inner })]) };
  assert.deepEqual(lookAtPage().others, []);
});

// One state per text decides what a page learns about it.

import assert from "node:assert/strict";
import { test } from "node:test";

import { NumberContent, isWholeNumber } from "../../crates/scrip-elements/web/field/number-content.js";
import {
  NumberAdvance, PayerEntry, entryError, fieldState, isUnfinished, stateAfterAction, stateAfterEdit,
} from "../../crates/scrip-elements/web/field/payer-entry.js";
import { randomSource } from "./random.js";

const NUMBER = "4539578763621486";
const part = (role, text, changes) => ({
  role, text, isEmpty: text === "", state: "hidden", isComposing: false, kind: { check: () => undefined }, ...changes,
});

test("text_that_the_page_took_away_divides_until_the_payer_acts", () => {
  const entry = new PayerEntry();
  const [present, absent, divided] = [[true, false], [false, false], [false, true]].map(([isPresent, isDivided]) => ({ isPresent, isDivided }));
  assert.deepEqual(entry.presence, absent, "no payer has come to the field");
  entry.act();
  assert.deepEqual(entry.presence, present);
  entry.interrupt(true);
  entry.leave();
  assert.deepEqual(entry.presence, divided);
  entry.interrupt(false);
  assert.deepEqual(entry.presence, divided, "a second change by the page repairs nothing");
  entry.act();
  assert.deepEqual(entry.presence, present);
  entry.interrupt(false);
  assert.deepEqual(entry.presence, absent, "a finished text was taken away");
});

test("payer_does_not_arrive_where_the_page_moves_the_focus", () => {
  const entry = new PayerEntry();
  entry.focusByPage();
  assert.deepEqual([entry.arrive(), entry.presence.isPresent], [false, false]);
  entry.act();
  assert.equal(entry.presence.isPresent, true, "a press inside the field counts");
  entry.focusByPage();
  entry.leave();
  assert.deepEqual([entry.arrive(), entry.presence.isPresent], [true, true], "the payer came back without the page");
});

test("change_of_options_does_not_hide_that_the_page_moved_the_focus", () => {
  const entry = new PayerEntry();
  entry.focusByPage();
  entry.pause();
  assert.deepEqual([entry.arrive(), entry.presence.isPresent], [false, false]);
  entry.act();
  entry.pause();
  assert.equal(entry.presence.isPresent, false);
  assert.deepEqual([entry.arrive(), entry.presence.isPresent], [true, true], "the payer came by an action of its own");
});

test("finished_number_lets_the_page_move_the_focus_once", () => {
  const finish = (text = NUMBER, state = "open") => {
    const advance = new NumberAdvance();
    advance.edit(text, state, 1_000);
    return advance;
  };
  const advance = finish();
  assert.equal(advance.use(false, 1_100), false, "the payer is elsewhere, or the page brought the payer back");
  assert.deepEqual([advance.use(true, 1_100), advance.use(true, 1_200)], [true, false]);
  advance.edit(NUMBER, "open", 1_300);
  assert.equal(advance.use(true, 1_400), false, "an edit of the same number");
  advance.begin();
  assert.equal(advance.use(true, 1_400), false, "nothing is typed yet");
  advance.edit(NUMBER, "open", 1_500);
  assert.equal(advance.use(true, 1_600), true, "a new number");
  assert.equal(finish().use(true, 3_000), false, "too late");
  const left = finish();
  left.end();
  assert.equal(left.use(true, 1_100), false, "another part of the frame was used");
  for (const state of ["given", "hidden", "closed"]) assert.equal(finish(NUMBER, state).use(true, 1_100), false, state);
  for (const text of ["453957876362148", "4539578763621487", "6212345575667033", ""]) assert.equal(finish(text).use(true, 1_100), false, text);
});

test("state_of_a_text_follows_who_edits_it", () => {
  const edit = (state, changes) =>
    stateAfterEdit(state, { begins: false, isPresent: true, isDivided: false, tellsContent: true, joins: false, role: "number", ...changes });
  assert.equal(edit("closed", { begins: true }), "open");
  assert.equal(edit("open", { begins: true, isPresent: false }), "hidden");
  assert.equal(edit("open", { isPresent: false }), "hidden", "the page moved the focus between two keys");
  assert.equal(edit("open", { isPresent: false, role: "text" }), "open", "each report about a text needs an action of its own");
  assert.equal(edit("open", { joins: true }), "hidden", "the page may have written what was pasted");
  assert.equal(edit("open", { joins: true, begins: true }), "open", "a paste of the whole");
  assert.equal(edit("open", { joins: true, tellsContent: false }), "open");
  assert.equal(edit("hidden", {}), "hidden", "an action does not open a piece");
  assert.equal(edit("given", {}), "closed", "joined with a text of the page");
  assert.equal(edit("open", { begins: true, isDivided: true }), "closed");
  assert.equal(edit("open", { isPresent: false, tellsContent: false }), "open", "the page learns no content of a security code");
  assert.equal(edit("given", { tellsContent: false, role: "text" }), "open");
  assert.equal(edit("given", { tellsContent: false, role: "code" }), "closed");
  const actions = ["number", "expiration", "text"].map((role) => stateAfterAction("hidden", role));
  assert.deepEqual(actions, ["hidden", "hidden", "open"]);
  assert.equal(stateAfterAction("closed", "text"), "closed");
});

test("field_is_as_closed_as_its_most_closed_text", () => {
  const state = (...states) => fieldState(states.map((it) => ({ state: it, isEmpty: false })));
  assert.deepEqual([state("open", "given"), state("open", "hidden"), state("hidden", "closed")], ["open", "hidden", "closed"]);
  assert.equal(fieldState([{ state: "closed", isEmpty: true }]), "open");
});

test("error_of_a_piece_tells_nothing_about_it", () => {
  for (const error of [undefined, "incomplete", "invalid"]) {
    assert.equal(entryError(part("number", "876362", { state: "closed" }), error), "invalid");
    assert.equal(entryError(part("number", "876362"), error), "incomplete", "no whole number");
    assert.equal(entryError(part("text", "a"), error), "incomplete", "a text with rules waits for an action");
    assert.equal(entryError(part("number", "", { isComposing: true }), error), "incomplete");
    assert.equal(entryError(part("number", "876362", { state: "open" }), error), error);
  }
  assert.equal(entryError(part("number", NUMBER), undefined), undefined);
  for (let length = 1; length <= 16; length += 1) assert.equal(isWholeNumber(NUMBER.slice(0, length)), length === 16, `${length}`);
  for (let start = 1; start < 16; start += 1) assert.equal(isWholeNumber(NUMBER.slice(start)), false, NUMBER.slice(start));
  assert.ok(isWholeNumber("378282246310005"), "the greatest length of the brand");
});

// What the payer types and what the page does, in any order, against a model that knows every key.
// The model: a text is clean if each of its keys followed an action of the payer, without an act of the
// page or a lost key in between. Only a clean text is open.
const STEPS = {
  key: ({ entry, field }) => {
    if (field.isLocked) return void (field.mayBegin = false);
    const begins = field.text === "";
    if (begins) field.isClean = field.mayBegin;
    else field.isClean &&= field.mayBegin;
    field.state = stateAfterEdit(field.state, { ...entry.presence, begins, tellsContent: true, role: "number" });
    field.text += "4";
  },
  press: ({ entry, field }) => (entry.act(), (field.mayBegin = true)),
  // The payer leaves by Tab, and comes back by Tab or by the browser's own focus.
  tab: ({ entry, field }) => (entry.leave(), (field.mayBegin = entry.arrive())),
  // The page moves the focus away and back, with keys in between that it gets itself.
  steal: ({ entry, field }) => (entry.leave(), entry.focusByPage(), (field.mayBegin = false)),
  steer: ({ entry, field }) => (entry.focusByPage(), entry.arrive(), (field.mayBegin = false)),
  // The page moves the focus, changes an option, and the payer releases Tab there.
  steerAndLock: ({ entry, field }) => (entry.focusByPage(), entry.pause(), entry.arrive(), (field.mayBegin = false)),
  blur: ({ entry, field }) => (entry.pause(), (field.mayBegin = false)),
  lock: ({ entry, field }) => (entry.pause(), (field.isLocked = !field.isLocked), (field.mayBegin = false)),
  empty: ({ entry, field }) => {
    entry.interrupt(field.text !== "" && field.state !== "given");
    Object.assign(field, { text: "", state: "open", mayBegin: false });
  },
  give: ({ entry, field }) => {
    entry.interrupt(field.text !== "" && field.state !== "given");
    Object.assign(field, { text: "453957", state: "given", isClean: false, mayBegin: false });
  },
  erase: ({ field }) => Object.assign(field, { text: "", state: "open" }),
};

test("only_a_text_that_the_page_did_not_touch_is_open", () => {
  const random = randomSource(7);
  let openCount = 0;
  for (let round = 0; round < 20_000; round += 1) {
    const world = { entry: new PayerEntry(), field: { text: "", state: "open", isClean: true, mayBegin: false, isLocked: false } };
    const steps = [];
    for (let step = 0; step < 12; step += 1) {
      const name = random.pick(Object.keys(STEPS));
      steps.push(name);
      STEPS[name](world);
      const { text, state, isClean } = world.field;
      if (text === "" || state !== "open") continue;
      openCount += 1;
      assert.ok(isClean, steps.join(" "));
    }
  }
  assert.ok(openCount > 5_000, "the model reaches open texts");
});

test("hidden_text_is_complete_by_itself_whatever_the_options_are", () => {
  const texts = { number: [NUMBER, "453957876362148"], expiration: ["07 / 20", "13 / 20"], code: ["720", "72"] };
  // Another brand than the accepted ones, a date that passed, a code of another brand's length.
  for (const error of [undefined, "incomplete", "invalid"]) {
    for (const [role, [whole, piece]] of Object.entries(texts)) {
      const [first, second] = [whole, piece].map((it) => part(role, it, { kind: { check: () => error } }));
      assert.deepEqual([entryError(first, error), isUnfinished(first)], [undefined, false], `${role} ${error}`);
      assert.deepEqual([entryError(second, error), isUnfinished(second)], ["incomplete", true], `${role} ${error}`);
      assert.equal(entryError({ ...first, state: "open" }, error), error, "options count for an open text");
    }
  }
});

test("payer_has_finished_whole_numbers_dates_and_codes_but_no_text", () => {
  const cases = [
    [part("number", "453957"), true],
    [part("number", NUMBER), false],
    [part("number", "453957", { state: "given" }), false],
    [part("number", "", { isComposing: true }), true],
    [part("code", "987"), false],
    [part("code", "98", { state: "open", kind: { check: () => "incomplete" } }), true],
    [part("text", "Jane Doe"), true],
    [part("text", ""), false],
  ];
  for (const [state, expected] of cases) assert.equal(isUnfinished(state), expected, `${state.role} ${state.text}`);
});

test("first_digits_are_reported_once_for_a_number", () => {
  const content = new NumberContent();
  const others = ["45395", "453957", NUMBER, "453957876362148", "539578763621486"].map((it) => content.hasOtherStart(it, false));
  assert.deepEqual(others, [false, false, false, false, true]);
  assert.equal(content.hasOtherStart("5555555555554444", true), false, "a complete number");
  content.begin();
  assert.equal(content.hasOtherStart("876362", false), false, "another number");
  assert.deepEqual(["8763", "63", "636214"].map((it) => content.hasOtherStart(it, false)), [false, true, true], "a short rest is no new number");
});

// The `validation` of the page for a text field: a pattern, and its last reported result.
//
// Each report is one bit about the text, which the page chose. A page can take the focus away from a
// field and give it back after each key, or have one field for each key. So the payer has to act in the
// field before each report: a press inside the field, or Tab or Enter in it.

import { HeldShift } from "../arrival.js";
import { PageRules } from "./page-rules.js";

/**
 * @callback PatternTest
 * @param {RegExp} pattern
 * @param {string} text
 * @returns {Promise<boolean>}
 */

export class PageValidation {
  #pattern;
  #test;
  #changed;
  #isArmed = false;
  #isValid = true;
  #isEmptyValid;
  /** Results of earlier texts are dropped. */
  #generation = 0;
  /** @type {Promise<void>} */
  #settled = Promise.resolve();

  /**
   * @param {RegExp} pattern
   * @param {PatternTest} test
   * @param {() => void} changed called after each report
   */
  constructor(pattern, test, changed) {
    this.#pattern = pattern;
    this.#test = test;
    this.#changed = changed;
    pattern.lastIndex = 0;
    this.#isEmptyValid = pattern.test("");
  }

  /** The last reported result. */
  get isValid() {
    return this.#isValid;
  }

  /** Whether the empty text matches, which the page knows. */
  get isEmptyValid() {
    return this.#isEmptyValid;
  }

  /** Ends when no report is under way. */
  get settled() {
    return this.#settled;
  }

  /** The payer acted in the field. */
  arm() {
    this.#isArmed = true;
  }

  /** The field was emptied, or its text was replaced. */
  reset() {
    this.#generation += 1;
    this.#isValid = true;
  }

  /**
   * Reports the validity of what the payer typed, if the payer acted in the field since the last report.
   * @param {string} text
   */
  report(text) {
    if (!this.#isArmed) return;
    this.#isArmed = false;
    this.check(text);
  }

  /**
   * Checks a text that the page knows, or that is due.
   * @param {string} text
   */
  check(text) {
    this.#generation += 1;
    const generation = this.#generation;
    if (text === "") {
      this.#isValid = true;
      return;
    }
    this.#settled = this.#test(this.#pattern, text).then((isValid) => {
      if (generation !== this.#generation) return;
      this.#isValid = isValid;
      this.#changed();
    });
  }
}

/**
 * Starts the rules of the page, if it has any.
 * @param {import("../field-options.js").FieldOptions} options
 * @param {() => void} changed called after each report
 * @returns {{ rules?: PageRules, validation?: PageValidation }}
 */
export function startPageRules({ validation, transform }, changed) {
  if (validation === undefined && transform === undefined) return {};
  const rules = new PageRules();
  if (validation === undefined) return { rules };
  return { rules, validation: new PageValidation(validation, (pattern, text) => rules.test(pattern, text), changed) };
}

/** @typedef {"press" | "tab" | "enter" | "arrival"} ActionKind */

/**
 * Calls `act` when the payer clicks an input of the frame, or presses Tab or Enter in it. A touch that scrolls the
 * page is no click. A key in a frame without a focused input is no action: a page can give the focus to the frame.
 * A key that is held and repeats is none either: the page may have moved the focus in the meantime.
 * @param {(kind: ActionKind, isBack: boolean) => void} act `arrival`: the payer pressed Tab in the field before, and
 *   releases it here; `isBack`: with Shift and Tab
 */
export function followActions(act) {
  const shift = new HeldShift();
  const follow = (/** @type {Event} */ event, /** @type {ActionKind} */ kind, isBack = false) => {
    if (event.isTrusted && event.target instanceof HTMLInputElement) act(kind, isBack);
  };
  // With these keys, Tab changes the window or the tab of the browser.
  const isTab = (/** @type {KeyboardEvent} */ event) => event.key === "Tab" && !(event.ctrlKey || event.altKey || event.metaKey);
  const keyDown = (/** @type {KeyboardEvent} */ event) => {
    shift.press(event.key);
    if (event.repeat) return;
    if (isTab(event)) follow(event, "tab", event.shiftKey);
    else if (event.key === "Enter") follow(event, "enter");
  };
  const keyUp = (/** @type {KeyboardEvent} */ event) => {
    shift.release(event.key);
    if (isTab(event)) follow(event, "arrival", shift.cameWith(event.shiftKey));
  };
  document.addEventListener("click", (event) => follow(event, "press"), true);
  document.addEventListener("keydown", keyDown, true);
  document.addEventListener("keyup", keyUp, true);
  window.addEventListener("blur", () => shift.leave());
}

/** Refuses data that is dropped into the frame: the page may be its author, and the payer types the rest. */
export function refuseDrops() {
  const refuse = (/** @type {DragEvent} */ event) => {
    event.preventDefault();
    if (event.dataTransfer !== null) event.dataTransfer.dropEffect = "none";
  };
  for (const name of /** @type {const} */ (["dragenter", "dragover", "drop"])) document.addEventListener(name, refuse, true);
}

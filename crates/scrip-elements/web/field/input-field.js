// A field with inputs: card, card number, expiration date, security code or text.

import { NAME_TOKENS } from "./autofill.js";
import { createBinLookup } from "./bin-lookup.js";
import { findBrand } from "./format/brand.js";
import { onlyDigits } from "./format/digits.js";
import { formatDate, parseExpiration } from "./format/expiration.js";
import { readOptions, readRecord } from "./field-options.js";
import { AUTOFILL, FieldView } from "./view/field-view.js";
import { InputPart } from "./input-part.js";
import { satisfiesMask } from "./format/mask.js";
import { createNetworkChoice, networkChoices } from "./view/networks.js";
import { partKind } from "./part-kinds.js";
import { changeFields, readingFields } from "./report.js";
import { findController, findField, waitFor } from "./siblings.js";

/**
 * @typedef {import("./field-options.js").Role} Role
 * @typedef {import("../parent-channel.js").ParentChannel} ParentChannel
 * @typedef {import("./report.js").PartState} PartState
 */

/** @type {Record<string, [Role, string][]>} Roles and target ids of the inputs of each type. */
const PARTS = {
  card: [["number", "cardNumber"], ["expiration", "cardExpirationDate"], ["code", "cardVerificationCode"]],
  cardNumber: [["number", ""]],
  cardExpirationDate: [["expiration", ""]],
  cardVerificationCode: [["code", ""]],
  text: [["text", ""]],
};
/** @param {string} type */
export function isInputType(type) {
  return Object.hasOwn(PARTS, type);
}

/**
 * @param {unknown} value
 * @returns {string | undefined}
 */
function plainText(value) {
  return typeof value === "string" || typeof value === "number" ? String(value) : undefined;
}

export class InputField {
  #channel;
  #type;
  #state;
  /** Whether a value was set from the vault or another field and is not yet cleared. */
  #wasSet = false;
  /** @type {number | undefined} the length of the number at which the page got its last four digits */
  #last4Length;
  #isTyping = false;
  /** Result of the page's `validation` when the payer last left the field or pressed Enter. */
  #validAtBlur = true;
  /** Whether the text changed since then. */
  #isDirty = false;
  /** Whether the page takes the focus away, which must not reveal the validity. */
  #isBlurredByPage = false;
  #lastChange = "";
  /** @type {string | undefined} */
  #chosenNetwork;
  /** @type {Set<() => void>} */
  #followers = new Set();
  #stopWaiting = () => {};
  #view;

  /**
   * @param {ParentChannel} channel
   * @param {unknown} sent
   */
  constructor(channel, sent) {
    this.#channel = channel;
    this.#type = channel.type;
    this.#state = readOptions(channel.type, sent);
    this.bin = createBinLookup(channel.nonce, () => this.#render());
    this.networks = createNetworkChoice((network) => {
      this.#chosenNetwork = network;
      this.#render();
    });
    this.parts = (PARTS[this.#type] ?? []).map(([role, target]) => this.#createPart(role, target));
    const networks = this.networks.group;
    this.#view = new FieldView(channel, this.parts, networks, this.#options, (it) => this.#plainValue(it));
    this.#applyStaticValue(undefined);
    this.#render();
  }

  get #options() {
    return this.#state.options;
  }

  get #number() {
    return this.parts.find((it) => it.role === "number");
  }

  /** @returns {string | undefined} the brand of the number in this frame, or of the option */
  #brandType() {
    const number = this.#number;
    return number === undefined ? this.#options.cardBrand : findBrand(onlyDigits(number.text))?.type;
  }

  /**
   * @param {Role} role
   * @param {string} target
   */
  #createPart(role, target) {
    const kind = partKind(role, () => this.#options, () => this.#brandType());
    return new InputPart(role, target === "" ? this.#options.targetId : target, kind, {
      changed: (part, isTyped) => this.#partChanged(part, isTyped),
      focused: ({ targetId }) => this.#channel.send("focus", { targetId }),
      left: (part) => this.#partLeft(part),
      key: ({ targetId }, { key, altKey, ctrlKey, shiftKey, metaKey }) => {
        if (key === "Enter") this.#settleValidity();
        this.#channel.send("keydown", { targetId, key, altKey, ctrlKey, shiftKey, metaKey });
      },
      backspaceWhenEmpty: (part) => this.parts[this.parts.indexOf(part) - 1]?.focusAtEnd(),
    });
  }

  /**
   * Applies the `value` option if it is new. Frameworks repeat their options on each rendering.
   * @param {unknown} previous
   */
  #applyStaticValue(previous) {
    const { value } = this.#options;
    if (value === undefined || value === null || JSON.stringify(value) === JSON.stringify(previous)) return;
    this.#forget();
    const { number, cvc, ...rest } = readRecord(value);
    const month = plainText(rest.month ?? rest.expiration_month);
    const year = plainText(rest.year ?? rest.expiration_year);
    const expiration = month === undefined || year === undefined ? undefined : `${month}/${year}`;
    const values = { number: plainText(number), expiration, code: plainText(cvc), text: undefined };
    for (const part of this.parts) part.pasteText(plainText(value) ?? values[part.role] ?? "");
    this.#settleValidity();
  }

  /**
   * @param {InputPart} part
   * @param {boolean} isTyped
   */
  #partChanged(part, isTyped) {
    this.#stopWaiting();
    if (this.#wasSet && this.parts.every((it) => it.isEmpty)) {
      this.#wasSet = false;
      // Otherwise an undo would bring the value back as if it had been typed.
      for (const it of this.parts) it.replaceText("");
    }
    this.#isDirty = true;
    this.#isTyping = isTyped;
    part.showsError = this.#options.validateOnChange && this.#options.validation === undefined && !part.isEmpty;
    this.#render();
    const next = this.parts[this.parts.indexOf(part) + 1];
    if (isTyped && !this.#wasSet && next !== undefined && part.kind.isFinished(part.text)) {
      // A full next part is not disturbed.
      if (next.kind.check(next.text) !== undefined) next.input.focus();
    }
  }

  /** @param {InputPart} part */
  #partLeft(part) {
    this.#isTyping = false;
    if (!part.isEmpty) part.showsError = true;
    if (!this.#isBlurredByPage) this.#settleValidity();
    this.#render();
    this.#channel.send("blur", { targetId: part.targetId });
  }

  #settleValidity() {
    this.#isDirty = false;
    if (this.#wasSet) return;
    this.#validAtBlur = this.parts.every((it) => it.isEmpty || it.kind.check(it.text) !== "invalid");
  }

  /**
   * The error of a part. While the payer types, the result of a `validation` of the page is the
   * result of the last time: otherwise `validate` or a call would tell the page about each key.
   * @param {InputPart} part
   */
  #partError(part) {
    if (this.#options.validation === undefined || !this.#isDirty) return part.kind.check(part.text);
    if (!this.#satisfiesMask(part)) return "incomplete";
    return this.#validAtBlur ? undefined : "invalid";
  }

  /** @param {InputPart} part */
  #satisfiesMask(part) {
    const { mask } = this.#options;
    if (part.role !== "text") return part.kind.check(part.text) !== "incomplete";
    return mask === undefined || satisfiesMask(mask, part.text);
  }

  /** @returns {PartState[]} */
  /**
   * A number can be complete at several lengths. If the last digits were reported at each of them, a page
   * would get all digits. So they are reported at the greatest length, or at one length after the payer left the field.
   * @param {string} digits
   * @param {boolean} isComplete
   */
  #showsLast4(digits, isComplete) {
    if (digits === "") this.#last4Length = undefined;
    if (!isComplete) return false;
    if (digits.length >= Math.max(...(findBrand(digits)?.lengths ?? [19]))) return true;
    if (!this.#isTyping) this.#last4Length ??= digits.length;
    return digits.length === this.#last4Length;
  }

  #partStates() {
    // The rules of the page do not run over a value of the vault or of another field: their duration tells about it.
    if (this.#wasSet) {
      return this.parts.map(({ targetId, isEmpty }) => {
        return { targetId, empty: isEmpty, error: undefined, showsError: false, maskSatisfied: true };
      });
    }
    return this.parts.map((part) => ({
      targetId: part.targetId,
      empty: part.isEmpty,
      error: this.#partError(part),
      showsError: part.showsError,
      maskSatisfied: this.#satisfiesMask(part),
    }));
  }

  #render() {
    const states = this.#partStates();
    this.parts.forEach((part, index) => {
      const state = states[index];
      if (state !== undefined) this.#view.renderPart(part, state, { wasSet: this.#wasSet, isDirty: this.#isDirty });
    });
    const number = this.#number;
    const digits = number === undefined ? "" : onlyDigits(number.text);
    this.#view.renderBrand(findBrand(digits)?.type);
    const { binLookup, coBadged, preferredNetworks, validation } = this.#options;
    const looksUp = (binLookup || coBadged.length > 0) && !this.#wasSet;
    this.bin.follow(looksUp ? digits : "");
    const choices = networkChoices(this.bin.details, coBadged);
    if (digits === "") this.#chosenNetwork = undefined;
    const selected = [this.#chosenNetwork, ...preferredNetworks].find((it) => it !== undefined && choices.includes(it));
    this.networks.show(choices, selected, this.#view.texts.network);
    const isComplete = !this.#wasSet && number !== undefined && number.kind.check(number.text) === undefined;
    const card = {
      digits,
      brand: this.#brandType(),
      complete: isComplete,
      showsLast4: this.#showsLast4(digits, isComplete),
      binInfo: binLookup ? this.bin.details : undefined,
      selectedNetwork: selected,
    };
    const change = changeFields({
      parts: states,
      wasSet: this.#wasSet,
      ...(number === undefined ? {} : { card }),
      hasPageValidation: validation !== undefined,
      validAtBlur: this.#validAtBlur,
    });
    this.#report(change);
    this.#followers.forEach((it) => this.#notify(it));
  }

  /** @param {Record<string, unknown>} change */
  #report(change) {
    const text = JSON.stringify(change);
    const isFirst = this.#lastChange === "";
    if (text === this.#lastChange) return;
    this.#lastChange = text;
    if (!isFirst || change.empty !== true) this.#channel.send("change", change);
  }

  /** @param {() => void} follower */
  #notify(follower) {
    try {
      follower();
    } catch {
      // The frame of the follower is gone.
      this.#followers.delete(follower);
    }
  }

  #forget() {
    this.#stopWaiting();
    this.#wasSet = false;
    this.#validAtBlur = true;
    this.#isDirty = false;
    for (const part of this.parts) {
      part.rawValue = undefined;
      part.showsError = false;
      part.replaceText("");
    }
  }

  /** @param {Partial<Record<Role, string>>} values */
  #applySetValues(values) {
    for (const part of this.parts) {
      const raw = values[part.role] ?? "";
      part.rawValue = raw;
      part.showsError = false;
      part.replaceText(part.kind.show(raw));
    }
    this.#wasSet = true;
    this.#render();
  }

  /** @param {unknown} sent */
  update(sent) {
    const previous = this.#options.value;
    this.#state = readOptions(this.#type, sent, this.#state);
    this.#view.applyOptions(this.#options);
    this.#applyStaticValue(previous);
    this.#render();
  }

  clear() {
    this.#forget();
    this.#render();
  }

  focus() {
    (this.parts.find((it) => it.isEmpty) ?? this.parts[0])?.input.focus();
  }

  blur() {
    this.#isBlurredByPage = true;
    for (const { input } of this.parts) input.blur();
    this.#isBlurredByPage = false;
  }

  showValidation() {
    for (const part of this.parts) part.showsError = true;
    this.#render();
  }

  /**
   * Shows values of the vault.
   * @param {unknown} reference one reference, or one for each part
   */
  setReference(reference) {
    this.#stopWaiting();
    this.#stopWaiting = waitFor(
      () => findController(this.#channel.nonce),
      (controller) => {
        const resolve = (/** @type {unknown} */ it) => plainText(it === undefined ? it : controller.resolve(it));
        const source = readRecord(reference);
        const month = resolve(source.month ?? source.expiration_month);
        const year = resolve(source.year ?? source.expiration_year);
        const date = month === undefined || year === undefined ? undefined : `${month}/${year}`;
        const values = this.#type === "card"
          ? { number: resolve(source.number), expiration: date, code: resolve(source.cvc) }
          : { [this.parts[0]?.role ?? "text"]: date ?? resolve(reference) };
        const known = Object.entries(values).filter(([, it]) => it !== undefined);
        // A reference that the controller no longer has changes nothing.
        if (known.length > 0) this.#applySetValues(Object.fromEntries(known));
      },
    );
  }

  /**
   * Shows the value of another field, also after its changes.
   * @param {unknown} element
   */
  setFrom(element) {
    this.#stopWaiting();
    let isActive = true;
    const endSearch = waitFor(
      () => findField(this.#channel.nonce, element),
      (source) => {
        // Another type would show a part of the value as something else, such as a month.
        if (source.type !== this.#type || this.#type === "card") return;
        const part = this.parts[0];
        const pull = () => {
          const value = source.readPlain();
          if (isActive && part !== undefined && part.rawValue !== value) this.#applySetValues({ [part.role]: value });
        };
        source.follow(pull);
        pull();
      },
    );
    this.#stopWaiting = () => {
      isActive = false;
      endSearch();
    };
  }

  /** @param {() => void} listener */
  follow(listener) {
    this.#followers.add(listener);
  }

  /**
   * @param {string} token
   * @param {string} value
   */
  offer(token, value) {
    const { readOnly, disabled, autoComplete } = this.#options;
    const part = this.parts.find(({ role }) =>
      role === "text" ? NAME_TOKENS.includes(token) && autoComplete.text === token : AUTOFILL[role].token === token,
    );
    if (part === undefined || !part.isEmpty || this.#wasSet || readOnly || disabled) return false;
    part.pasteText(value);
    this.#render();
    return true;
  }

  /** @param {unknown} [request] */
  read(request) {
    return { ...readingFields(this.#partStates(), this.#wasSet), value: this.#readValue(request) };
  }

  /**
   * The value for the clipboard and for a field that follows this one: without `transform`. With it
   * the emptiness of the other field would tell the page whether the value matches a pattern.
   * @param {InputPart} part
   */
  #plainValue(part) {
    return part.rawValue ?? (part.role === "text" ? part.text : part.kind.value(part.text));
  }

  /** The plain value of a field with one input. */
  readPlain() {
    const [part] = this.parts;
    return part === undefined || this.parts.length > 1 ? "" : this.#plainValue(part);
  }

  /**
   * A set value passes unchanged, also after an edit: with a `transform` a page could single out one
   * digit, and compare fingerprints.
   * @param {InputPart} part
   */
  #partValue(part) {
    return this.#wasSet ? this.#plainValue(part) : part.kind.value(part.text);
  }

  /** @param {unknown} request */
  #readValue(request) {
    const values = this.parts.map((it) => this.#partValue(it));
    const at = (/** @type {number} */ index) => values[index] ?? "";
    if (this.#type === "card") {
      const date = parseExpiration(at(1));
      return { number: at(0), expiration_month: date?.month, expiration_year: date?.year, cvc: at(2) };
    }
    if (this.#type !== "cardExpirationDate") return at(0);
    const date = parseExpiration(at(0));
    const { method, format } = readRecord(request);
    if (date === undefined) return method === undefined ? at(0) : undefined;
    if (method === "month") return date.month;
    if (method === "year") return date.year;
    return formatDate(date, method === "format" && typeof format === "string" ? format : "MM/yyyy");
  }
}

// A field with inputs: card, card number, expiration date, security code or text.

import { Announcements } from "./announcements.js";
import { NAME_TOKENS } from "./autofill.js";
import { createBinLookup } from "./bin-lookup.js";
import { findBrand } from "./format/brand.js";
import { onlyDigits } from "./format/digits.js";
import { readOptions } from "./field-options.js";
import { AUTOFILL, FieldView } from "./view/field-view.js";
import { InputPart } from "./input-part.js";
import { NumberContent } from "./number-content.js";
import { NumberAdvance, PayerEntry, entryError, fieldState, isUnfinished, stateAfterAction } from "./payer-entry.js";
import { followActions, refuseDrops, startPageRules } from "./rules/page-validation.js";
import { createNetworkChoice, networkChoices } from "./view/networks.js";
import { PARTS, partKind } from "./part-kinds.js";
import { changeFields, readingFields } from "./report.js";
import { literalValues, plainText, resolveSetValues } from "./set-values.js";
import { readKind, readValue } from "./field-value.js";
import { findController, followField, siblingFields, waitFor } from "./siblings.js";
import { randomId } from "../parent-channel.js";

/**
 * @typedef {import("./field-options.js").Role} Role
 * @typedef {import("../parent-channel.js").ParentChannel} ParentChannel
 * @typedef {import("./report.js").PartState} PartState
 */

/** How long the focus may need to reach a frame, in milliseconds. */
const ADVANCE_FOCUS_MS = 250;

export class InputField {
  #channel;
  #type;
  #state;
  /** Whether a value of the vault or another field is not yet cleared. */
  #wasSet = false;
  /** Whether the field has shown a value of the vault or another field: its font never changes again. */
  #keepsFont = false;
  /** @type {string | undefined} the kind of a value from the vault */
  #setKind;
  /** @type {import("./siblings.js").FieldAccess | undefined} the field whose value this field shows */
  #source;
  #numberContent = new NumberContent();
  #entry = new PayerEntry();
  #arrival;
  /** Whether the payer goes to another part of this field in the order back. */
  #isBack = false;
  #advance = new NumberAdvance();
  /** Until when a focus of this field is the move on from a finished number. */
  #advanceEndsAt = 0;
  /** Whether the frame has no input that gets the focus back with the frame. */
  #isAway = true;
  /** Whether the page sets the text, which its mask may format. */
  #isApplyingValue = false;
  /** Whether the payer left the field after the last change. */
  #wasLeft = false;
  /** Whether the text changed since the page's `validation` was reported. */
  #isDirty = false;
  /** Whether the page takes the focus away, which must not reveal the validity. */
  #isBlurredByPage = false;
  /** Another frame of the same name has another id, so the page cannot imitate an unchanged value. */
  #frameId = randomId();
  /** @type {import("./rules/page-rules.js").PageRules | undefined} */
  #rules;
  /** @type {import("./rules/page-validation.js").PageValidation | undefined} */
  #validation;
  /** @type {string | undefined} */
  #chosenNetwork;
  #announcements;
  #stopWaiting = () => {};
  #view;

  /**
   * @param {ParentChannel} channel
   * @param {import("./arrival.js").Arrival} arrival
   * @param {unknown} sent
   */
  constructor(channel, arrival, sent) {
    this.#channel = channel;
    this.#arrival = arrival;
    this.#type = channel.type;
    this.#announcements = new Announcements(channel);
    this.#state = readOptions(channel.type, sent);
    ({ rules: this.#rules, validation: this.#validation } = startPageRules(this.#options, () => this.#render()));
    this.bin = createBinLookup(channel.nonce, () => this.#render());
    this.networks = createNetworkChoice((network) => {
      this.#chosenNetwork = network;
      this.#render();
    });
    /** @type {InputPart[]} */
    this.parts = (PARTS[this.#type] ?? []).map(([role, target]) => this.#createPart(role, target));
    this.#view = new FieldView(channel, this.parts, this.networks.group, this.#options, (it) => this.readCopy(it));
    this.#followPayer();
    this.#applyStaticValue(undefined);
    this.#render();
  }

  #followPayer() {
    followActions((kind, isBack) => {
      this.#isBack = kind === "tab" && isBack;
      const { isPresent } = this.#entry.presence;
      if (!this.#arrival.accepts(kind, this.parts, { isPresent, isBack }) || (kind === "arrival" && !this.#entry.arrive())) return;
      if (kind === "tab" || kind === "enter") this.#numberContent.finish(onlyDigits(this.#number?.text ?? ""));
      this.#entry.act();
      [this.#rules, this.#validation].forEach((it) => it?.arm());
      for (const part of this.parts) {
        const state = stateAfterAction(part.state, part.role);
        if (state === part.state || part.isComposing) continue;
        part.state = state;
        part.reformat();
        this.#render();
      }
    });
    refuseDrops();
    window.addEventListener("blur", () => {
      // Browsers return the focus to the input after a change of the window, and pages can cause one.
      this.#isAway = this.parts.every((it) => it.input !== document.activeElement);
      this.#isAway ? this.#entry.leave() : this.#entry.pause();
    });
  }

  /** @param {InputPart} part */
  #partFocused(part) {
    const { targetId, role } = part;
    if (role !== "number") this.#advance.end();
    const opens = this.#arrival.opens(this.#isAway ? this.parts : [part], !this.#isAway && this.#isBack);
    if (!opens) this.#entry.pause();
    else if (performance.now() < this.#advanceEndsAt) this.#entry.act();
    else if (this.#isAway) this.#entry.arrive();
    this.#advanceEndsAt = 0;
    [this.#isAway, this.#isBack] = [false, false];
    this.#channel.send("focus", { targetId });
  }

  /** The rules of the page apply to its own text and to the payer's own text, to no other. */
  get #textOptions() {
    const state = this.parts?.[0]?.state ?? "open";
    const hasMask = !this.#wasSet && (["open", "given"].includes(state) || this.#isApplyingValue);
    return hasMask ? this.#options : { ...this.#options, mask: undefined };
  }

  get #hasPageRules() {
    const { mask, validation, transform } = this.#options;
    return [mask, validation, transform].some((it) => it !== undefined);
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
    const kind = partKind(role, () => this.#textOptions, () => this.#brandType());
    return new InputPart(role, target === "" ? this.#options.targetId : target, kind, {
      changed: (part, change) => this.#partChanged(part, change),
      focused: (part) => this.#partFocused(part),
      left: (part) => this.#partLeft(part),
      key: ({ targetId }, { key, altKey, ctrlKey, shiftKey, metaKey }) => {
        if (key === "Enter") this.#reportValidity();
        this.#channel.send("keydown", { targetId, key, altKey, ctrlKey, shiftKey, metaKey });
      },
      backspaceWhenEmpty: (part) => {
        this.#isBack = true;
        this.parts[this.parts.indexOf(part) - 1]?.focusAtEnd();
      },
      presence: () => this.#entry.presence,
      acceptsEdits: () => this.#arrival.isSeen,
      takesPaste: (part) => this.#arrival.opens([part], false),
      tellsContent: ({ role }) => role === "number" || role === "expiration" || this.#wasSet || (role === "text" && this.#hasPageRules),
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
    const values = literalValues(value);
    this.#isApplyingValue = true;
    for (const part of this.parts) part.pasteText(plainText(value) ?? values[part.role] ?? "");
    this.#isApplyingValue = false;
    this.#wasLeft = true;
    this.#validation?.check(this.parts[0]?.text ?? "");
  }

  /**
   * @param {InputPart} part
   * @param {import("./input-part.js").PartChange} change
   */
  #partChanged(part, { isTyped, isNew }) {
    this.#stopWaiting();
    this.#source = undefined;
    this.#arrival.announce(part.role);
    if (isNew && part.role === "number") this.#beginNumber(part);
    part.role === "number" ? this.#advance.edit(part.text, part.state, performance.now()) : this.#advance.end();
    if (this.parts.every((it) => it.isEmpty || (it.state !== "given" && it.state !== "closed"))) this.#endSet();
    if (part.isEmpty) this.#validation?.reset();
    this.#isDirty = true;
    // Autofill changes a field without the focus. A change of the date or the code leaves the number as it is.
    if (part.role === "number" || this.#number === undefined) this.#wasLeft = document.activeElement !== part.input;
    part.showsError = this.#options.validateOnChange && this.#validation === undefined && !part.isEmpty;
    this.#render();
    const next = this.parts[this.parts.indexOf(part) + 1];
    // The page sees where the focus is, so only a text that it may know moves the focus.
    const isFinished = part.state === "open" && this.#partError(part) === undefined && part.kind.isFinished(part.text);
    // A full next part is not disturbed.
    if (isTyped && isFinished && !this.#wasSet && next !== undefined && this.#partError(next) !== undefined) next.focus();
  }

  /** Nothing remains of the values that were set. */
  #endSet() {
    [this.#wasSet, this.#setKind] = [false, undefined];
  }

  /**
   * Nothing remains of the earlier number. An undo must not bring it back as if it had been typed.
   * @param {InputPart} number
   */
  #beginNumber(number) {
    if (this.#numberContent.isFixed) number.forgetHistory();
    [this.#numberContent, this.#advance].forEach((it) => it.begin());
  }

  /** @param {InputPart} part */
  #partLeft(part) {
    this.#wasLeft = true;
    if (!part.isEmpty) part.showsError = true;
    if (!this.#isBlurredByPage) this.#reportValidity();
    this.#render();
    this.#channel.send("blur", { targetId: part.targetId });
  }

  #reportValidity() {
    if (this.#wasSet || this.#validation === undefined) return;
    this.#isDirty = false;
    this.#validation.report(this.parts[0]?.text ?? "");
  }

  /**
   * The error of a part. With a `validation` of the page it is the last reported result: otherwise
   * `validate` or a call would tell the page about each key.
   * @param {InputPart} part
   */
  #partError(part) {
    const error = entryError(part, part.kind.check(part.text));
    if (part.role === "number") {
      const isClosed = this.#numberContent.hasOtherLength(onlyDigits(part.text));
      return isClosed && error === undefined ? "invalid" : error;
    }
    if (this.#validation === undefined || error !== undefined) return error;
    if (part.isEmpty) return this.#validation.isEmptyValid ? undefined : "incomplete";
    return this.#validation.isValid ? undefined : "invalid";
  }

  /** @returns {PartState[]} */
  #partStates() {
    return this.parts.map((part) => {
      const { targetId, isEmpty: empty, showsError } = part;
      // The rules of the page do not run over a value of the vault or of another field: their duration tells about it.
      if (part.rawValue !== undefined) return { targetId, empty, error: undefined, showsError: false, maskSatisfied: true };
      const maskSatisfied = !part.isComposing && part.kind.check(part.text) !== "incomplete";
      return { targetId, empty, error: this.#partError(part), showsError, maskSatisfied };
    });
  }

  #render() {
    const states = this.#partStates();
    const state = fieldState(this.parts);
    this.parts.forEach((part, index) => {
      const shown = states[index];
      if (shown !== undefined) this.#view.renderPart(part, shown, { isHidden: this.#wasSet || state !== "open", isDirty: this.#isDirty });
    });
    const number = this.#number;
    const digits = number === undefined ? "" : onlyDigits(number.text);
    this.#view.renderBrand(findBrand(digits)?.type);
    const { binLookup, coBadged, preferredNetworks } = this.#options;
    const isComplete = !this.#wasSet && number !== undefined && this.#partError(number) === undefined;
    const isShown = !this.#wasSet && number?.isComposing !== true && state === "open" && !this.#numberContent.hasOtherStart(digits, isComplete);
    this.bin.follow((binLookup || coBadged.length > 0) && isShown ? digits : "");
    const choices = networkChoices(this.bin.details, coBadged);
    if (digits === "") this.#chosenNetwork = undefined;
    const selected = [this.#chosenNetwork, ...preferredNetworks].find((it) => it !== undefined && choices.includes(it));
    this.networks.show(choices, selected, this.#view.texts.network);
    const card = {
      digits: isShown ? digits : "",
      brand: isShown ? this.#brandType() : undefined,
      complete: isComplete,
      showsLast4: isShown && isComplete && this.#numberContent.reportLast4(digits, this.#wasLeft),
      binInfo: binLookup ? this.bin.details : undefined,
      selectedNetwork: selected,
    };
    const change = changeFields({
      parts: states,
      wasSet: this.#wasSet,
      state,
      ...(number === undefined ? {} : { card }),
      hasPageValidation: this.#validation !== undefined,
      reportedValidity: this.#validation?.isValid,
    });
    this.#announcements.report(change);
  }

  #forget() {
    this.#entry.interrupt(this.parts.some(isUnfinished));
    this.#stopWaiting();
    this.#source = undefined;
    this.#endSet();
    [this.#numberContent, this.#advance].forEach((it) => it.begin());
    this.#validation?.reset();
    this.#isDirty = false;
    for (const part of this.parts) {
      part.rawValue = undefined;
      part.showsError = false;
      part.replaceText("");
    }
  }

  /**
   * @param {Partial<Record<Role, string>>} values
   * @param {string | undefined} kind
   * @param {import("./siblings.js").FieldAccess} [source] the field that has the value
   */
  #applySetValues(values, kind, source) {
    this.#entry.interrupt(this.parts.some(isUnfinished));
    [this.#numberContent, this.#advance].forEach((it) => it.begin());
    this.#wasSet = true;
    this.#keepsFont = true;
    this.#setKind = kind;
    this.#source = source;
    for (const part of this.parts) {
      const raw = values[part.role] ?? "";
      part.rawValue = raw;
      part.showsError = false;
      part.replaceText(part.kind.show(raw));
    }
    this.#render();
  }

  /** @param {unknown} sent */
  update(sent) {
    const { value: previous, readOnly, disabled } = this.#options;
    this.#state = readOptions(this.#type, sent, this.#state);
    // The field refused keys of the payer, or refuses them now: what follows is a piece.
    if (readOnly !== this.#options.readOnly || disabled !== this.#options.disabled) this.#entry.pause();
    this.#view.applyOptions(this.#options, this.#keepsFont || this.parts.some((it) => it.text !== ""));
    this.#applyStaticValue(previous);
    this.#render();
  }

  clear() {
    this.#forget();
    this.#render();
  }

  focus() {
    const part = this.parts.find((it) => it.isEmpty) ?? this.parts[0];
    if (document.hasFocus() && document.activeElement === part?.input) return;
    // Many pages move the focus on to the date when the number is finished, as a card element does.
    const isNext = this.#type === "cardExpirationDate" && part?.isEmpty === true && this.#arrival.opens([part], false);
    const isAdvance = isNext && siblingFields(this.#channel.nonce).some((it) => it.useAdvance());
    this.#advanceEndsAt = isAdvance ? performance.now() + ADVANCE_FOCUS_MS : 0;
    this.#entry.focusByPage();
    part?.focus();
    // A frame that is not shown gets no focus, and a later focus belongs to no move.
    if (document.activeElement !== part?.input) this.#advanceEndsAt = 0;
  }

  /** Whether the payer has just finished the number, and is still in it. Each number says so once. */
  useAdvance() {
    const number = this.#number;
    if (number === undefined || this.#partError(number) !== undefined) return false;
    const isInNumber = document.hasFocus() && document.activeElement === number.input && this.#entry.presence.isPresent;
    return this.#advance.use(isInNumber, performance.now());
  }

  blur() {
    this.#entry.pause();
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
        // A reference that the controller no longer has, or of another kind, changes nothing.
        const found = resolveSetValues(this.#type, reference, controller);
        if (found !== undefined) this.#applySetValues(found.values, found.kind);
      },
    );
  }

  /**
   * Shows the value of another field, also after its changes.
   * @param {unknown} element
   */
  setFrom(element) {
    this.#stopWaiting();
    const [part] = this.parts;
    this.#stopWaiting = followField(this.#channel, element, (value, source) => {
      if (part !== undefined && part.rawValue !== value) this.#applySetValues({ [part.role]: value }, undefined, source);
    });
  }

  /** @param {() => void} listener */
  follow = (listener) => this.#announcements.follow(listener);

  /**
   * @param {string} token
   * @param {string} value
   */
  offer(token, value) {
    const { readOnly, disabled, autoComplete } = this.#options;
    const part = this.parts.find(({ role }) =>
      role === "text" ? NAME_TOKENS.includes(token) && autoComplete.text === token : AUTOFILL[role].token === token,
    );
    if (part === undefined || !part.isEmpty || this.#wasSet || readOnly || disabled || !this.#arrival.isSeen) return false;
    part.fill(value);
    return true;
  }

  /**
   * What a call gets. A field that shows another field gives what that one has, without `transform`.
   * @param {unknown} [request]
   * @param {boolean} [isPlain]
   * @returns {Promise<import("./siblings.js").FieldReading>}
   */
  async read(request, isPlain = false) {
    if (this.#source !== undefined) return this.#source.read(request, true);
    await this.#validation?.settled;
    const state = readingFields(this.#partStates(), this.#wasSet);
    const number = this.#number;
    const digits = onlyDigits(number?.text ?? "");
    const isPiece = number?.state === "open" && this.#numberContent.isPiece(digits);
    if (number?.rawValue === undefined && state.valid && !isPiece) this.#numberContent.use(digits);
    const transform = isPlain || this.#wasSet || !state.valid ? undefined : this.#options.transform;
    // Everything that makes the value: another value has another version.
    const edits = this.parts.reduce((sum, it) => sum + it.editCount, 0);
    const version = [this.#frameId, edits, transform === undefined ? "plain" : "transformed"].join("-");
    // Next to a given part, a typed one has no place of its own.
    const isPartlySet = this.#wasSet && this.parts.some((it) => it.rawValue === undefined && !it.isEmpty);
    const isHidden = fieldState(this.parts) !== "open" || isPartlySet || isPiece;
    const reading = { ...state, version, kind: readKind(this.#setKind, request), isHidden };
    const value = readValue(this.#type, this.parts.map((it) => this.#plainValue(it)), request);
    if (transform === undefined || typeof value !== "string") return { ...reading, value };
    // The page knows its own text.
    if (this.parts[0]?.state === "given") this.#rules?.arm();
    const transformed = await this.#rules?.transform(transform, value, version);
    const errors = transformed === undefined ? [{ targetId: this.#options.targetId, type: "invalid" }] : state.errors;
    return { ...reading, errors, value: transformed };
  }

  /**
   * The value for a field that follows this one: without `transform`. With it the emptiness of the other field would tell the page whether the value matches a pattern.
   * @param {InputPart} part
   */
  #plainValue(part) {
    return part.rawValue ?? (part.role === "text" ? part.text : part.kind.value(part.text));
  }

  /**
   * The value for the clipboard: one that the page or the vault gave, and nothing that was typed. A page
   * could read the clipboard, or ask the payer to paste it.
   * @param {InputPart | undefined} [part]
   * @returns {string}
   */
  readCopy(part = this.parts[0]) {
    if (this.#source !== undefined) return this.#source.readCopy();
    return part?.state === "given" ? this.#plainValue(part) : "";
  }

  /** The plain value of a field with one input. */
  readPlain() {
    return this.parts.length > 1 ? "" : this.parts.map((it) => this.#plainValue(it)).join("");
  }
}

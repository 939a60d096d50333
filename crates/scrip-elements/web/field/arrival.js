// How the payer came to a field without the page.
//
// A page can focus a place before a field, give the focus to its frame, or change the order of Tab, and the
// payer's own Tab then leads into the field. A date would show a security code as a date, and a number the
// first digits of what follows the card. The field does not see why the focus comes. So each way into a date
// without a press is an action only until a date was typed anywhere in the page, and the same for numbers.

/** The answers of the vault and the events tell about these. */
const REPORTED_ROLES = ["number", "expiration"];

/**
 * @typedef {object} ArrivalPart an input of the field
 * @property {string} role
 * @property {boolean} isFocused
 * @property {boolean} isEmpty
 * @property {import("./payer-entry.js").EntryState} state
 */

/**
 * Whether Tab that the payer presses in the field is an action. The page may have led the payer into a card, and
 * Tab leads on to its date. A text has no such next part, and each report about it uses one action.
 * @param {readonly ArrivalPart[]} parts
 * @param {boolean} isPresent whether the payer acted in the field before
 */
export function isTabAction(parts, isPresent) {
  return isPresent || !parts.some(({ role }) => REPORTED_ROLES.includes(role));
}

/**
 * @typedef {object} PageView
 * @property {readonly Arrival[]} others of the fields of the page
 * @property {boolean} isSeen whether other fields find this one
 */

/** What was typed in the page, as far as it decides about the ways into a field. Every field has its own copy. */
export class Arrival {
  /** @type {Set<string>} */
  #typedRoles = new Set();
  #look;

  /** @param {() => PageView} look */
  constructor(look) {
    this.#look = look;
    this.#learn();
  }

  /**
   * Whether other fields find this one. A field that they do not find accepts no text: a later field would not learn
   * of it. A page can move a frame at any time.
   */
  get isSeen() {
    return this.#look().isSeen;
  }

  /** @returns {boolean} whether other fields find this one, and announce to it what is typed */
  #learn() {
    const { others, isSeen } = this.#look();
    for (const role of REPORTED_ROLES) if (others.some((it) => it.hasTyped(role))) this.type(role);
    return isSeen;
  }

  /**
   * The payer typed into a field of the page. This stays known: a page can empty or remove the field.
   * @param {string} role
   */
  type(role) {
    this.#typedRoles.add(role);
  }

  /**
   * The payer typed into this field.
   * @param {string} role
   */
  announce(role) {
    if (!this.hasTyped(role)) [this, ...this.#look().others].forEach((it) => it.type(role));
  }

  /** @param {string} role */
  hasTyped(role) {
    return this.#typedRoles.has(role);
  }

  /**
   * Whether a press or a key in the field is an action.
   * @param {import("./rules/page-validation.js").ActionKind} kind
   * @param {readonly ArrivalPart[]} parts
   * @param {{ isPresent: boolean, isBack: boolean }} facts `isPresent`: the payer acted in the field before
   */
  accepts(kind, parts, { isPresent, isBack }) {
    if (kind === "press") return true;
    if (kind === "tab") return isTabAction(parts, isPresent);
    return (kind === "enter" && isPresent) || this.opens(parts, isBack);
  }

  /**
   * Whether a way into the parts that is no press is an action of the payer: Tab, Enter, the focus of a frame or of
   * its next part, a paste, and a page that moves the focus on from a finished number. This is the only place that decides
   * about them. A payer goes back to a text to correct it, so Shift and Tab lead to the text that the payer
   * expects there. A field that others do not find does not know what was typed.
   * @param {readonly ArrivalPart[]} parts that get the focus
   * @param {boolean} isBack whether the payer holds Shift with Tab
   */
  opens(parts, isBack) {
    const isSeen = this.#learn();
    const isReturn = isBack && parts.some((it) => it.isFocused && !it.isEmpty && it.state === "open");
    return isReturn || !parts.some(({ role }) => REPORTED_ROLES.includes(role) && (!isSeen || this.hasTyped(role)));
  }
}

/**
 * Whether the payer holds Shift when the focus comes with Tab. The frame sees only the release of the keys,
 * in any order. Shift that is pressed in the frame belongs to the next key.
 */
export class HeldShift {
  #isPressedHere = false;
  #isReleasedHere = false;

  /** @param {string} key */
  press(key) {
    if (key === "Shift") this.#isPressedHere = true;
    this.#isReleasedHere = false;
  }

  /** @param {string} key */
  release(key) {
    if (key !== "Shift") return;
    this.#isReleasedHere = !this.#isPressedHere;
    this.#isPressedHere = false;
  }

  /** The focus leaves the frame. */
  leave() {
    [this.#isPressedHere, this.#isReleasedHere] = [false, false];
  }

  /** @param {boolean} isHeld whether Shift is still pressed when Tab is released */
  cameWith(isHeld) {
    return (isHeld && !this.#isPressedHere) || this.#isReleasedHere;
  }
}

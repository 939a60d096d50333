// The document of a field with inputs: its elements, and how options and states appear in them.

import { addHiddenInputs } from "../autofill.js";
import { brandByType } from "../format/brand.js";
import { createCopyButton } from "./copying.js";
import { brandDrawing } from "./icons.js";
import { visibleError } from "../report.js";
import { applyRules, pickRules, readCopyIconStyle, readStyle } from "./style.js";
import { errorText, languageFor, textsFor } from "./texts.js";
import { randomId } from "../../parent-channel.js";

/**
 * @typedef {import("../field-options.js").FieldOptions} FieldOptions
 * @typedef {import("../field-options.js").Role} Role
 * @typedef {import("../input-part.js").InputPart} InputPart
 * @typedef {import("../../parent-channel.js").ParentChannel} ParentChannel
 * @typedef {import("../report.js").PartState} PartState
 */

/** @type {Record<Role, { token: string, name: string }>} */
export const AUTOFILL = {
  number: { token: "cc-number", name: "cardnumber" },
  expiration: { token: "cc-exp", name: "exp-date" },
  code: { token: "cc-csc", name: "cvc" },
  text: { token: "off", name: "text" },
};

/**
 * @param {string} name
 * @param {string} className
 */
function create(name, className) {
  const element = document.createElement(name);
  element.className = className;
  return element;
}

/**
 * @param {Element} element
 * @param {string} name
 * @param {string | undefined} value undefined removes the attribute
 */
function setAttribute(element, name, value) {
  if (value === undefined) element.removeAttribute(name);
  else element.setAttribute(name, value);
}

export class FieldView {
  #type;
  #parts;
  #options;
  #texts;
  #sheet = new CSSStyleSheet();
  #fonts = new CSSStyleSheet();
  #container = create("div", "container");
  #icon = create("span", "icon");
  #description = create("p", "unseen");
  /** @type {string | undefined} */
  #shownBrand = "";
  /** @type {ReturnType<typeof createCopyButton> | undefined} */
  #copy;

  /**
   * @param {ParentChannel} channel
   * @param {readonly InputPart[]} parts
   * @param {HTMLElement} networks the choice of the network
   * @param {FieldOptions} options
   * @param {(part: InputPart) => string} readValue
   */
  constructor(channel, parts, networks, options, readValue) {
    this.#type = channel.type;
    this.#parts = parts;
    this.#options = options;
    this.#texts = textsFor(options.lang);
    this.#description.id = `description-${randomId()}`;
    if (options.enableCopy) this.#addCopyButton(channel, readValue);
    this.#container.append(this.#createLine(), networks);
    const form = document.createElement("form");
    form.noValidate = true;
    form.addEventListener("submit", (event) => event.preventDefault());
    form.append(this.#container, this.#description, ...parts.map((it) => it.error));
    const tokens = parts.map((it) => this.#autoComplete(it.role));
    const offersCard = tokens.some((it) => it.startsWith("cc-")) && !options.readOnly;
    if (offersCard) addHiddenInputs(form, tokens, channel.nonce);
    document.body.append(form);
    document.adoptedStyleSheets = [this.#sheet, this.#fonts];
    new ResizeObserver(() => {
      channel.send("resize", { height: Math.ceil(form.getBoundingClientRect().height) });
    }).observe(form);
    this.applyOptions(options);
  }

  get texts() {
    return this.#texts;
  }

  /** The line of the inputs. Date and code of a card stay together when the line is too short. */
  #createLine() {
    const line = create("div", this.#type === "card" ? "line card" : "line");
    const pair = create("div", "pair");
    for (const part of this.#parts) {
      const box = create("div", `part part-${part.role}`);
      if (part.role === "number") box.append(this.#icon);
      box.append(part.input);
      if (this.#copy !== undefined && part === this.#copyPart) box.append(this.#copy.button, this.#copy.status);
      (this.#type === "card" && part.role !== "number" ? pair : line).append(box);
    }
    if (pair.childElementCount > 0) line.append(pair);
    return line;
  }

  /** The part that the copy button copies: the number of a card. */
  get #copyPart() {
    return this.#parts[0];
  }

  /**
   * @param {ParentChannel} channel
   * @param {(part: InputPart) => string} readValue
   */
  #addCopyButton(channel, readValue) {
    const part = this.#copyPart;
    if (part === undefined) return;
    const { targetId } = part;
    this.#copy = createCopyButton({
      className: "copy",
      readText: () => readValue(part),
      clicked: () => {},
      copied: () => channel.send("copy", { targetId }),
    });
  }

  /** @param {Role} role */
  #autoComplete(role) {
    return this.#options.autoComplete[role] ?? AUTOFILL[role].token;
  }

  /** @param {Role} role */
  #label(role) {
    const own = this.#texts[role];
    if (this.#type === "card") return own;
    return this.#options.label ?? (role === "text" ? this.#options.placeholders.text : undefined) ?? own;
  }

  /**
   * @param {FieldOptions} options
   * @param {boolean} [keepsFont]
   */
  applyOptions(options, keepsFont) {
    this.#options = options;
    this.#texts = textsFor(options.lang);
    document.documentElement.lang = languageFor(options.lang);
    document.documentElement.dir = options.dir;
    for (const part of this.#parts) this.#applyToPart(part);
    if (this.#type === "card") {
      this.#container.setAttribute("role", "group");
      this.#container.setAttribute("aria-label", options.label ?? this.#texts.card);
    }
    this.#container.classList.toggle("icon-right", options.iconPosition === "right");
    this.#icon.hidden = options.iconPosition === "none";
    this.#description.textContent = options.description ?? "";
    this.#copy?.update({
      caption: "",
      label: `${this.#texts.copy}: ${this.#label(this.#copyPart?.role ?? "text")}`,
      texts: this.#texts,
      disabled: options.disabled,
    });
    const rules = readStyle(options.style, false);
    if (!keepsFont) applyRules(this.#fonts, pickRules(rules, true));
    applyRules(this.#sheet, [...pickRules(rules, false), ...readCopyIconStyle(options.copyIconStyles)]);
  }

  /** @param {InputPart} part */
  #applyToPart({ input, role }) {
    const options = this.#options;
    const date = options.showSpacing ? this.#texts.date : this.#texts.date.replaceAll(" ", "");
    const defaults = { number: "1234 1234 1234 1234", expiration: date, code: "CVC", text: "" };
    input.name = AUTOFILL[role].name;
    input.placeholder = (options.placeholders[role] ?? defaults[role]).trim();
    input.setAttribute("autocomplete", this.#autoComplete(role));
    input.inputMode = options.inputMode ?? (role === "text" ? "text" : "numeric");
    input.disabled = options.disabled;
    input.readOnly = options.readOnly;
    input.setAttribute("aria-label", this.#label(role));
    // Another type of the input would scroll the page to the caret, which tells the width of the text.
    if (role === "text" || role === "code") input.classList.toggle("masked", options.password);
  }

  /**
   * Classes, error and description of an input. A value that the page must not test has no class except
   * for emptiness: a style could change the height of the frame, which the page sees. For the same
   * reason a field with a `validation` of the page looks complete only after it was left.
   * @param {InputPart} part
   * @param {PartState} state
   * @param {{ isHidden: boolean, isDirty: boolean }} field
   */
  renderPart(part, state, { isHidden, isDirty }) {
    const { input, role } = part;
    const error = visibleError(state);
    const isChecked = !isHidden && (this.#options.validation === undefined || !isDirty);
    input.classList.toggle("is-empty", state.empty);
    input.classList.toggle("is-complete", isChecked && !state.empty && state.error === undefined);
    // A closed text is always invalid, whatever it is.
    input.classList.toggle("is-invalid", (!isHidden || part.state === "closed") && error !== undefined);
    setAttribute(input, "aria-invalid", error === undefined ? undefined : "true");
    const message = error === undefined ? "" : errorText(this.#texts, role, this.#label(role), error);
    // The same text again would be announced again.
    if (part.error.textContent !== message) part.error.textContent = message;
    const descriptions = [this.#description, part.error].filter((it) => it.textContent !== "");
    const ids = descriptions.map((it) => it.id).join(" ");
    setAttribute(input, "aria-describedby", ids === "" ? undefined : ids);
  }

  /** @param {string | undefined} type */
  renderBrand(type) {
    if (type === this.#shownBrand) return;
    this.#shownBrand = type;
    this.#icon.replaceChildren(brandDrawing(type));
    const name = brandByType(type)?.niceType;
    setAttribute(this.#icon, "role", name === undefined ? undefined : "img");
    setAttribute(this.#icon, "aria-label", name);
  }
}

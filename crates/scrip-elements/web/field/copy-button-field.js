// The copy button: copies the value of another field, or of a reference, without showing it.

import { createCopyButton } from "./view/copying.js";
import { readOptions } from "./field-options.js";
import { findController, findField } from "./siblings.js";
import { applyRules, readStyle } from "./view/style.js";
import { languageFor, textsFor } from "./view/texts.js";

/** Fields with a value that is one text. */
const SOURCES = ["text", "cardNumber", "cardExpirationDate", "cardVerificationCode"];

export class CopyButtonField {
  #channel;
  #state;
  #sheet = new CSSStyleSheet();
  /** @type {() => unknown} */
  #source = () => undefined;
  #copy;

  /**
   * @param {import("../parent-channel.js").ParentChannel} channel
   * @param {unknown} sent
   */
  constructor(channel, sent) {
    this.#channel = channel;
    this.#state = readOptions(channel.type, sent);
    const { targetId } = this.#state.options;
    this.#copy = createCopyButton({
      className: "button",
      readText: () => this.#readText(),
      clicked: () => channel.send("click", { targetId }),
      copied: () => channel.send("copy", { targetId }),
    });
    const { button, status } = this.#copy;
    button.addEventListener("focus", () => channel.send("focus", { targetId }));
    button.addEventListener("blur", () => channel.send("blur", { targetId }));
    const container = document.createElement("div");
    container.className = "container";
    container.append(button, status);
    document.body.append(container);
    document.adoptedStyleSheets = [this.#sheet];
    new ResizeObserver(() => {
      channel.send("resize", { height: Math.ceil(container.getBoundingClientRect().height) });
    }).observe(container);
    this.#applyOptions();
  }

  #readText() {
    try {
      const value = this.#source();
      return typeof value === "string" || typeof value === "number" ? String(value) : "";
    } catch {
      // The frame of the source is gone.
      return "";
    }
  }

  #applyOptions() {
    const { options } = this.#state;
    const texts = textsFor(options.lang);
    document.documentElement.lang = languageFor(options.lang);
    document.documentElement.dir = options.dir;
    const caption = options.text ?? texts.copy;
    this.#copy.update({ caption, label: options.label ?? "", texts, disabled: options.disabled });
    applyRules(this.#sheet, readStyle(options.style, true));
  }

  /** @param {unknown} sent */
  update(sent) {
    this.#state = readOptions(this.#channel.type, sent, this.#state);
    this.#applyOptions();
  }

  /** @param {unknown} reference */
  setReference(reference) {
    this.#source = () => findController(this.#channel.nonce)?.resolve(reference)?.value;
  }

  /** @param {unknown} element */
  setFrom(element) {
    this.#source = () => {
      const field = findField(this.#channel.nonce, element);
      return field !== undefined && SOURCES.includes(field.type) ? field.readCopy() : undefined;
    };
  }

  clear() {
    this.#source = () => undefined;
  }

  focus() {
    this.#copy.button.focus();
  }

  blur() {
    this.#copy.button.blur();
  }

  showValidation() {}

  /** A button has no value of its own. @param {unknown} [_request] @param {boolean} [_isPlain] */
  async read(_request, _isPlain) {
    const state = { complete: true, valid: true, empty: true, errors: [], value: undefined };
    return { ...state, version: "", kind: undefined, isHidden: false };
  }

  readPlain() {
    return "";
  }

  readCopy() {
    return "";
  }

  useAdvance() {
    return false;
  }

  /** @param {string} _token @param {string} _value */
  offer(_token, _value) {
    return false;
  }

  /** @param {() => void} _listener */
  follow(_listener) {}
}

// Styles of the page: only allowed variants, selectors and properties, and only harmless values.
//
// No style sheet text is ever built from the page's input. A rule is inserted empty, with a selector
// of this file, and each value goes through `setProperty`, which accepts one value and nothing else.

const TEXT_PROPERTIES = [
  "backgroundColor", "color", "fontFamily", "fontSize", "fontSmooth", "fontStyle", "fontVariant",
  "fontWeight", "letterSpacing", "lineHeight", "padding", "textAlign", "textDecoration", "textShadow",
  "textTransform",
];
const BUTTON_PROPERTIES = [
  "alignItems", "backgroundColor", "border", "borderBottom", "borderColor", "borderLeft",
  "borderRadius", "borderRight", "borderStyle", "borderTop", "borderWidth", "boxShadow", "color",
  "cursor", "display", "fontFamily", "fontSize", "fontWeight", "gap", "height", "justifyContent",
  "letterSpacing", "lineHeight", "margin", "maxHeight", "maxWidth", "minHeight", "minWidth", "opacity",
  "outline", "padding", "textAlign", "textTransform", "transform", "transition", "width",
];
const TEXT_SELECTORS = [":hover", ":focus", ":read-only", "::placeholder", "::selection", ":disabled"];
const BUTTON_SELECTORS = [":hover", ":focus", ":active"];

/** Selectors of the variants. The classes are set by the field; the page cannot choose a selector. */
const TEXT_VARIANTS = {
  base: ".input",
  container: ".container",
  empty: ".input.is-empty",
  complete: ".input.is-complete",
  invalid: ".input.is-invalid",
};
const BUTTON_VARIANTS = { base: ".button", container: ".container" };

const VALUE_LENGTH_MAX = 200;
/**
 * Also lengths that change with the size of the frame: a page could change a font by them. A backtick is `\x60`, because
 * the server removes no comments after one.
 */
const HOSTILE = /\d([sld]?v|cq)|url|expression|import|image|element|attr|var|env|javascript|[\\<>;{}@"\x60]|\/\*|!/i;
/**
 * Properties that choose the shapes of characters. What is drawn once is drawn faster the next time, also for a page
 * that measures characters of its own. So a text that is shown gets no other shapes.
 */
const FONT = /^(-|font|letter|text-[^a])/;
/** Names of fonts may be quoted. */
const FONT_NAME = /^[\p{L}\p{N}\s,'"._-]+$/u;

/**
 * Whether a value may be used. Functions that load or read something are refused by name.
 * @param {string} property
 * @param {unknown} value
 * @returns {string | undefined}
 */
export function readStyleValue(property, value) {
  if (typeof value !== "string" && typeof value !== "number") return undefined;
  const text = String(value).trim();
  if (text === "" || text.length > VALUE_LENGTH_MAX) return undefined;
  if (property === "fontFamily") return FONT_NAME.test(text) ? text : undefined;
  if (property === "fontSize") return readFontSize(text);
  return HOSTILE.test(text) ? undefined : text;
}

/**
 * A font size in whole pixels. With fractions a page would have a new size for each measurement.
 * @param {string} text
 */
function readFontSize(text) {
  const [, count, unit = "px"] = /^(\d*\.?\d+)(px|r?em)?$/.exec(text) ?? [];
  if (count === undefined) return undefined;
  const pixels = Math.round(Number(count) * (unit === "px" ? 1 : 16));
  return `${Math.min(Math.max(pixels, 8), 96)}px`;
}

/** @param {string} property */
function cssNames(property) {
  if (property === "fontSmooth") return ["-webkit-font-smoothing", "-moz-osx-font-smoothing"];
  return [property.replace(/[A-Z]/g, (it) => `-${it.toLowerCase()}`)];
}

/**
 * @param {unknown} value
 * @returns {value is Record<string, unknown>}
 */
function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * @typedef {{ selector: string, declarations: [string, string][] }} StyleRule
 */

/**
 * The declarations of one block of the page.
 * @param {Record<string, unknown>} block
 * @param {readonly string[]} allowed
 * @returns {[string, string][]}
 */
function readDeclarations(block, allowed) {
  /** @type {[string, string][]} */
  const declarations = [];
  for (const property of allowed) {
    if (!Object.hasOwn(block, property)) continue;
    const value = readStyleValue(property, block[property]);
    if (value === undefined) continue;
    for (const name of cssNames(property)) declarations.push([name, value]);
  }
  return declarations;
}

/**
 * The rules of the `style` option. Everything that is not allowed is dropped.
 * @param {unknown} style
 * @param {boolean} isButton
 * @returns {StyleRule[]}
 */
export function readStyle(style, isButton) {
  if (!isObject(style)) return [];
  /** @type {StyleRule[]} */
  const rules = [];
  const allowed = isButton ? BUTTON_PROPERTIES : TEXT_PROPERTIES;
  const suffixes = isButton ? BUTTON_SELECTORS : TEXT_SELECTORS;
  for (const [variant, selector] of Object.entries(isButton ? BUTTON_VARIANTS : TEXT_VARIANTS)) {
    const block = Object.hasOwn(style, variant) ? style[variant] : undefined;
    if (!isObject(block)) continue;
    if (variant === "base" && !isButton) {
      // The copy icon and the choice of the network look like the text.
      const declarations = readDeclarations(block, ["color", "fontFamily"]);
      if (declarations.length > 0) rules.push({ selector: ".container", declarations });
    }
    for (const suffix of ["", ...suffixes]) {
      const part = suffix === "" ? block : Object.hasOwn(block, suffix) ? block[suffix] : undefined;
      if (!isObject(part)) continue;
      // The page can cause the other states, so in them a text is drawn as before.
      const isState = !isButton && /^:\w/.test(suffix);
      const declarations = readDeclarations(part, allowed).filter(([name]) => !isState || !FONT.test(name));
      if (declarations.length > 0) rules.push({ selector: selector + suffix, declarations });
    }
  }
  return rules;
}

/**
 * The rules with their fonts only, or without them.
 * @param {StyleRule[]} rules
 * @param {boolean} isFont
 * @returns {StyleRule[]}
 */
export function pickRules(rules, isFont) {
  return rules.map((it) => ({ ...it, declarations: it.declarations.filter(([name]) => FONT.test(name) === isFont) }));
}

/**
 * The rules of the `copyIconStyles` option.
 * @param {unknown} option
 * @returns {StyleRule[]}
 */
export function readCopyIconStyle(option) {
  if (!isObject(option)) return [];
  const size = readStyleValue("size", option.size);
  const color = readStyleValue("color", option.color);
  const success = readStyleValue("color", option.successColor);
  /** @type {StyleRule[]} */
  const rules = [];
  if (size !== undefined && /^\d{1,2}(\.\d+)?(px|em|rem)$/.test(size)) {
    rules.push({ selector: ".copy svg", declarations: [["width", size], ["height", size]] });
  }
  if (color !== undefined) rules.push({ selector: ".copy", declarations: [["color", color]] });
  if (success !== undefined) rules.push({ selector: ".copy.is-copied", declarations: [["color", success]] });
  return rules;
}

/**
 * Replaces the rules of a sheet.
 * @param {CSSStyleSheet} sheet
 * @param {readonly StyleRule[]} rules
 */
export function applyRules(sheet, rules) {
  while (sheet.cssRules.length > 0) sheet.deleteRule(0);
  for (const { selector, declarations } of rules) {
    const rule = sheet.cssRules[sheet.insertRule(`${selector} {}`, sheet.cssRules.length)];
    if (!(rule instanceof CSSStyleRule)) continue;
    for (const [name, value] of declarations) rule.style.setProperty(name, value);
  }
}

// The filter of page styles.

import assert from "node:assert/strict";
import { test } from "node:test";

import { readCopyIconStyle, readStyle, readStyleValue } from "../../crates/scrip-elements/web/field/view/style.js";

test("allowed_styles_become_rules_of_own_selectors", () => {
  const style = {
    base: { color: "#333", fontSize: 16, fontSmooth: "antialiased", ":focus": { color: "blue" }, "::placeholder": { color: "#999" } },
    invalid: { color: "red" },
    container: { padding: "4px 8px" },
    fonts: ["https://fonts.example/css"],
  };
  assert.deepEqual(readStyle(style, false), [
    { selector: ".container", declarations: [["color", "#333"]] },
    {
      selector: ".input",
      declarations: [["color", "#333"], ["font-size", "16"], ["-webkit-font-smoothing", "antialiased"], ["-moz-osx-font-smoothing", "antialiased"]],
    },
    { selector: ".input:focus", declarations: [["color", "blue"]] },
    { selector: ".input::placeholder", declarations: [["color", "#999"]] },
    { selector: ".container", declarations: [["padding", "4px 8px"]] },
    { selector: ".input.is-invalid", declarations: [["color", "red"]] },
  ]);
});

test("properties_selectors_and_variants_outside_the_list_are_dropped", () => {
  const style = {
    base: { display: "none", position: "fixed", width: "0", opacity: "0", content: "x", "--own": "1", ":valid": { color: "red" }, ":focus, input[value^='4']": { color: "red" } },
    "base, body": { color: "red" },
    __proto__: { base: { color: "red" } },
    complete: [{ color: "red" }],
    empty: "color: red",
  };
  assert.deepEqual(readStyle(style, false), []);
  assert.deepEqual(readStyle({ base: Object.create({ color: "red" }) }, false), []);
  assert.deepEqual(readStyle({ complete: { color: "red" }, invalid: { color: "red" } }, true), []);
  for (const option of [undefined, null, "x", 1, []]) assert.deepEqual(readStyle(option, false), []);
});

test("hostile_values_are_dropped", () => {
  for (const value of [
    "url(https://evil.example/x)", "URL('//evil')", "u\\72l(x)", "expression(alert(1))", "image-set('x' 1x)",
    "-webkit-image-set('x' 1x)", "red; background: url(x)", "red} input{color:blue", "@import 'x'", "red/**/", "</style>",
    "red !important", "attr(value)", "var(--x)", "env(x)", "element(#number)", "cross-fade(url(x), 50%)", "javascript:x",
    "\"x\"", "", " ", "a".repeat(201), null, undefined, {}, [], true, () => "red",
  ]) {
    assert.equal(readStyleValue("color", value), undefined, String(value));
  }
  for (const value of ["url(x)", "a;b", "a}b", "x\\", "a(b)"]) assert.equal(readStyleValue("fontFamily", value), undefined, value);
  assert.equal(readStyleValue("fontFamily", "\"Source Sans 3\", sans-serif"), "\"Source Sans 3\", sans-serif");
  assert.equal(readStyleValue("color", "rgb(0 0 0 / 50%)"), "rgb(0 0 0 / 50%)");
});

test("button_styles_allow_borders_and_sizes", () => {
  const rules = readStyle({ base: { border: "1px solid #ccc", width: "8em", cursor: "url(x), auto", ":active": { opacity: 0.8 } } }, true);
  assert.deepEqual(rules, [
    { selector: ".button", declarations: [["border", "1px solid #ccc"], ["width", "8em"]] },
    { selector: ".button:active", declarations: [["opacity", "0.8"]] },
  ]);
});

test("copy_icon_styles_allow_a_bounded_size_and_colors", () => {
  assert.deepEqual(readCopyIconStyle({ size: "20px", color: "#123456", successColor: "green" }).length, 3);
  assert.deepEqual(readCopyIconStyle({ size: "9999px", color: "url(x)", successColor: {} }), []);
});

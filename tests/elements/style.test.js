// The filter of page styles.

import assert from "node:assert/strict";
import { test } from "node:test";

import { pickRules, readCopyIconStyle, readStyle, readStyleValue } from "../../crates/scrip-elements/web/field/view/style.js";

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
      declarations: [["color", "#333"], ["font-size", "16px"], ["-webkit-font-smoothing", "antialiased"], ["-moz-osx-font-smoothing", "antialiased"]],
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

test("font_sizes_are_whole_pixels_in_every_variant", () => {
  const sizes = {
    "20.02px": "20px", "20.5px": "21px", 17.4: "17px", ".9em": "14px", "1.0625rem": "17px", "0px": "8px", "4000px": "96px",
  };
  for (const [size, expected] of Object.entries(sizes)) assert.equal(readStyleValue("fontSize", size), expected, size);
  for (const size of ["1vw", "1.2cqw", "1ch", "12pt", "101%", "larger", "calc(16px + 0.02px)", "1e1px", "-1px", "."]) {
    assert.equal(readStyleValue("fontSize", size), undefined, size);
  }
  const block = { fontSize: "20.02px", "::placeholder": { fontSize: "9.7px" } };
  for (const isButton of [false, true]) {
    const names = isButton ? ["base", "container"] : ["base", "container", "empty", "complete", "invalid"];
    const rules = readStyle(Object.fromEntries(names.map((it) => [it, block])), isButton);
    const values = rules.flatMap((it) => it.declarations.map(([, value]) => value));
    assert.deepEqual(new Set(values), new Set(isButton ? ["20px"] : ["20px", "10px"]));
    assert.equal(values.length, names.length * (isButton ? 1 : 2));
  }
});

test("font_does_not_follow_the_size_of_the_frame_or_a_state_that_the_page_causes", () => {
  for (const value of ["1px 1px 0.5vw", "calc(1px + 1svh)", "1CQI"]) {
    for (const property of ["textShadow", "letterSpacing", "textDecoration"]) assert.equal(readStyleValue(property, value), undefined, value);
  }
  assert.equal(readStyleValue("textShadow", "1px 1px 2px red"), "1px 1px 2px red");
  for (const state of [":hover", ":focus", ":read-only", ":disabled"]) {
    const rules = readStyle({ base: { [state]: { fontSize: "20px", fontWeight: 700, textShadow: "0 0 1px red", color: "red" } } }, false);
    assert.deepEqual(rules, [{ selector: `.input${state}`, declarations: [["color", "red"]] }]);
  }
});

test("rules_are_divided_into_fonts_and_the_rest_in_every_selector", () => {
  const rest = { backgroundColor: "red", color: "red", lineHeight: "2", padding: "1px", textAlign: "end" };
  const fonts = {
    fontFamily: "serif", fontSize: "20px", fontSmooth: "auto", fontStyle: "italic", fontVariant: "small-caps", fontWeight: 700,
    letterSpacing: "1px", textDecoration: "underline", textShadow: "0 0 1px red", textTransform: "uppercase",
  };
  const block = { ...rest, ...fonts, "::placeholder": { ...rest, ...fonts } };
  const rules = readStyle({ base: block, container: block, empty: block, complete: block, invalid: block }, false);
  const names = (isFont) => pickRules(rules, isFont).map((it) => it.declarations.map(([name]) => name).join(" "));
  // The container also has color and font family of the base.
  const own = "background-color color line-height padding text-align";
  assert.deepEqual([new Set(names(false)), names(false).length], [new Set(["color", own]), 11]);
  assert.ok(names(true).every((it) => it === "font-family" || /^font-family font-size -webkit-font-smoothing .* text-transform$/.test(it)), names(true)[1]);
  assert.deepEqual(pickRules(rules, true).map((it) => it.selector), rules.map((it) => it.selector));
});

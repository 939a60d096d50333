// Drawings of the fields, built as SVG elements: a policy without images and inline styles allows
// them. The brand drawings are our own: a card in a colour, with letters. They copy no logo.

const SVG = "http://www.w3.org/2000/svg";

/** Colour and letters for each brand. White letters have a contrast of at least 4.5 on the colour. */
/** @type {Record<string, [string, string]>} */
const BRANDS = {
  visa: ["#1f3fa8", "VISA"],
  mastercard: ["#a33b00", "MC"],
  "american-express": ["#0f6aa8", "AMEX"],
  "diners-club": ["#3a4f73", "DC"],
  discover: ["#a84a00", "DISC"],
  jcb: ["#0b6b3a", "JCB"],
  unionpay: ["#a3182b", "UP"],
  maestro: ["#5b3fa0", "MAES"],
  elo: ["#2b2b2b", "ELO"],
  mir: ["#18703f", "MIR"],
  hiper: ["#9a4a00", "HIP"],
  hipercard: ["#9c1c1c", "HC"],
  "cartes-bancaires": ["#0a5f8a", "CB"],
  bancontact: ["#1d4f91", "BC"],
  dankort: ["#b0182b", "DK"],
};

/**
 * @param {string} name
 * @param {Record<string, string | number>} attributes
 * @param {Element[]} children
 */
function draw(name, attributes, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  element.append(...children);
  return element;
}

/**
 * The drawing of a brand; a grey card for an unknown one.
 * @param {string | undefined} type
 */
export function brandDrawing(type) {
  const known = type === undefined ? undefined : BRANDS[type];
  const svg = draw("svg", { viewBox: "0 0 32 22", "aria-hidden": "true", focusable: "false" });
  if (known === undefined) {
    svg.append(
      draw("rect", { x: 1, y: 1, width: 30, height: 20, rx: 3, fill: "#f2f3f5", stroke: "#8a9099" }),
      draw("rect", { x: 1.5, y: 5.5, width: 29, height: 4, fill: "#8a9099" }),
      draw("rect", { x: 5, y: 14, width: 9, height: 2, rx: 1, fill: "#8a9099" }),
    );
    return svg;
  }
  const [color, letters] = known;
  const text = draw("text", {
    x: 16, y: 14.6, fill: "#fff", "text-anchor": "middle", "font-weight": 700,
    "font-size": letters.length > 3 ? 9.5 : 11, "font-family": "system-ui, Arial, sans-serif",
    textLength: letters.length * 6, lengthAdjust: "spacingAndGlyphs",
  });
  text.textContent = letters;
  svg.append(draw("rect", { width: 32, height: 22, rx: 3, fill: color }), text);
  return svg;
}

/** @param {boolean} isDone a check mark instead of two sheets */
export function copyDrawing(isDone) {
  const round = { "stroke-linecap": "round", "stroke-linejoin": "round" };
  const line = { fill: "none", stroke: "currentColor", "stroke-width": 1.8, ...round };
  const svg = draw("svg", { viewBox: "0 0 20 20", "aria-hidden": "true", focusable: "false" });
  if (isDone) svg.append(draw("path", { d: "M4 10.5l4 4 8-9", ...line }));
  else {
    svg.append(
      draw("rect", { x: 7, y: 7, width: 10, height: 10, rx: 2, ...line }),
      draw("path", { d: "M13 7V5a2 2 0 0 0-2-2H5a2 2 0 0 0-2 2v6a2 2 0 0 0 2 2h2", ...line }),
    );
  }
  return svg;
}

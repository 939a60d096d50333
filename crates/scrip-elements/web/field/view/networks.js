// The choice of the network for a card with two, for example Visa and Cartes Bancaires.

import { brandByType } from "../format/brand.js";
import { brandDrawing } from "./icons.js";

/** @type {Record<string, string>} */
const NAMES = { "cartes-bancaires": "Cartes Bancaires", bancontact: "Bancontact", dankort: "Dankort" };

/** @param {unknown} brand for example "CARTES BANCAIRES" */
function brandType(brand) {
  return typeof brand === "string" ? brand.trim().toLowerCase().replace(/[\s_]+/g, "-") : "";
}

/**
 * The networks to choose from: the card's own and the supported additional ones. Fewer than two
 * leave no choice.
 * @param {unknown} binInfo
 * @param {readonly string[]} supported
 * @returns {string[]}
 */
export function networkChoices(binInfo, supported) {
  if (typeof binInfo !== "object" || binInfo === null) return [];
  const { brand, additional } = /** @type {{ brand?: unknown, additional?: unknown }} */ (binInfo);
  const others = Array.isArray(additional) ? additional.map((it) => brandType(it?.brand)) : [];
  const choices = [brandType(brand), ...others.filter((it) => supported.includes(it))];
  const unique = [...new Set(choices)].filter((it) => it !== "" && networkName(it) !== undefined);
  return unique.length > 1 ? unique : [];
}

/** @param {string} type */
export function networkName(type) {
  return NAMES[type] ?? brandByType(type)?.niceType;
}

/**
 * @param {(network: string) => void} chosen
 */
export function createNetworkChoice(chosen) {
  const group = document.createElement("fieldset");
  group.className = "networks";
  group.hidden = true;
  const legend = document.createElement("legend");
  /** @type {string[]} */
  let shown = [];
  return {
    group,
    /**
     * @param {string[]} choices
     * @param {string | undefined} selected
     * @param {string} question
     */
    show(choices, selected, question) {
      legend.textContent = question;
      if (choices.join() !== shown.join()) {
        shown = choices;
        group.replaceChildren(legend, ...choices.map((it) => networkOption(it, chosen)));
      }
      group.hidden = choices.length === 0;
      for (const input of group.querySelectorAll("input")) input.checked = input.value === selected;
    },
  };
}

/**
 * @param {string} type
 * @param {(network: string) => void} chosen
 */
function networkOption(type, chosen) {
  const label = document.createElement("label");
  const input = document.createElement("input");
  input.type = "radio";
  input.name = "network";
  input.value = type;
  input.addEventListener("change", () => chosen(type));
  const name = document.createElement("span");
  name.textContent = networkName(type) ?? type;
  label.append(input, brandDrawing(type), name);
  return label;
}

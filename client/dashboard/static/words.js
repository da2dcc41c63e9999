// Numbers, times, names and colours as people read them.

import { element } from "./dom.js";

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export const count = (number) => (number === null || number === undefined ? "–" : whole.format(number));

// Three digits that matter.
export function figure(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e5)) return value.toExponential(1).replace("e+", "e");
  return String(Number(value.toPrecision(3)));
}

export function ago(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 1) return "now";
  if (seconds < 100) return `${Math.round(seconds)} s ago`;
  if (seconds < 6000) return `${Math.round(seconds / 60)} min ago`;
  return `${Math.round(seconds / 3600)} h ago`;
}

export const plural = (number, one) => `${count(number)} ${one}${number === 1 ? "" : "s"}`;

export function layerName(layer, binary) {
  return { expected: binary ? "Probability" : "Mean", variance: "Variance", entropy: "Entropy",
    disagreement: "Disagreement", function: "Function" }[layer];
}

export function layerMeaning(layer, binary) {
  return {
    expected: binary ? "the probability of label 1: brown is occupied, blue is free, white undecided" : "what is expected there",
    variance: "the variance of the function behind the map: it falls where there were observations",
    entropy: binary ? "how undecided the label is, in nats" : "how uncertain the function is, in nats",
    disagreement: "how far an agent is from the mean of all others",
  }[layer];
}

// Okabe and Ito's colours, which colour-blind people can tell apart; beyond them, dashes tell the agents apart.
const LIGHT = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b38600", "#56b4e9", "#5b6b7b"];
const DARK = ["#56b4e9", "#e69f00", "#2dc99b", "#dd97bd", "#f0e442", "#4c8fd6", "#b4c0cc"];
const DASHES = ["solid", "dash", "dot", "dashdot"];

export const agentColor = (number) => (isDark() ? DARK : LIGHT)[number % LIGHT.length];
export const agentDash = (number) => DASHES[Math.floor(number / LIGHT.length) % DASHES.length];

// A spot in an agent's colour, before its name.
export function swatch(number) {
  const spot = element("span", { class: "swatch", "aria-hidden": "true" });
  spot.style.setProperty("--light", LIGHT[number % LIGHT.length]);
  spot.style.setProperty("--dark", DARK[number % DARK.length]);
  return spot;
}

export function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

// Numbers, times, names and colours as people read them.

import { shape } from "./dom.js";

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

// After Okabe and Ito's colours, which colour-blind people can tell apart, darker on white; beyond seven agents, dashes tell.
const LIGHT = ["#0072b2", "#d55e00", "#008a65", "#b85c8f", "#8a6d00", "#3b2f7f", "#5b6b7b"];
const DARK = ["#56b4e9", "#e69f00", "#2dc99b", "#dd97bd", "#f0e442", "#4c8fd6", "#b4c0cc"];
const PATTERNS = { solid: null, dash: "7 4", dot: "2 3", dashdot: "8 3 2 3" };
const DASHES = Object.keys(PATTERNS);

export const agentColor = (number) => (isDark() ? DARK : LIGHT)[number % LIGHT.length];
export const agentDash = (number) => DASHES[Math.floor(number / LIGHT.length) % DASHES.length];

// A piece of an agent's line, in its colour and dashes, before its name.
export function swatch(number) {
  const line = shape("line", { x1: 0, y1: 5, x2: 18, y2: 5, "stroke-dasharray": PATTERNS[agentDash(number)] });
  const spot = shape("svg", { class: "swatch", width: 18, height: 10, "aria-hidden": "true" }, line);
  spot.style.setProperty("--light", LIGHT[number % LIGHT.length]);
  spot.style.setProperty("--dark", DARK[number % DARK.length]);
  return spot;
}

export function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

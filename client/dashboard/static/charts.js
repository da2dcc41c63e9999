// Charts: plotly, from this machine, once somebody wants to see one.

import { agentColor, agentDash, isDark } from "./words.js";

let loading = null;

export function loadPlotly() {
  loading ??= new Promise((done, failed) => {
    const script = document.createElement("script");
    script.src = "/static/plotly.min.js";
    script.onload = () => done(globalThis.Plotly);
    script.onerror = () => {
      loading = null;
      failed(new Error("The charts could not be loaded. Is the dashboard's server still running?"));
    };
    document.head.append(script);
  });
  return loading;
}

export const CONFIG = { displayModeBar: false, responsive: false };

// What a colour of the style sheet is in the present theme.
function color(name) {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

// extra.uirevision: as long as it is the same, what people have zoomed to stays.
export function layout(extra = {}) {
  const axis = { gridcolor: color("--line"), zerolinecolor: color("--line"), linecolor: color("--line"), automargin: true };
  return {
    font: { family: "system-ui, sans-serif", size: 12, color: color("--soft") },
    paper_bgcolor: color("--card"), plot_bgcolor: color("--card"),
    margin: { l: 8, r: 12, t: 8, b: 8 }, showlegend: false, hovermode: "x unified",
    hoverlabel: { bgcolor: color("--card"), bordercolor: color("--line"), font: { color: color("--ink") }, namelength: -1 },
    ...extra,
    xaxis: { ...axis, ...extra.xaxis }, yaxis: { ...axis, ...extra.yaxis },
  };
}

// Names are text: plotly would take tags and $ for markup.
export const plain = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/\$/g, "&#36;");

export function line(agent, x, y) {
  return { type: "scatter", mode: x.length === 1 ? "markers" : "lines", name: plain(agent.name), x, y,
    line: { color: agentColor(agent.number), dash: agentDash(agent.number), width: 1.8 }, marker: { color: agentColor(agent.number) } };
}

// The area between two lines.
export function band(agent, x, low, high) {
  const opacity = isDark() ? "40" : "2e";
  return { type: "scatter", mode: "lines", x: [...x, ...x.toReversed()], y: [...high, ...low.toReversed()], fill: "toself",
    fillcolor: `${agentColor(agent.number)}${opacity}`, line: { width: 0 }, hoverinfo: "skip", showlegend: false };
}

// Figures over time, of all agents.

import { fileLink, getJson } from "./api.js";
import { CONFIG, layout, line, loadPlotly } from "./charts.js";
import { byId, element, segments, setText, toast } from "./dom.js";
import { swatch } from "./words.js";

const WINDOWS = [[60, "1 min"], [600, "10 min"], [3600, "1 h"], ["", "Everything"]];
const SIGNED = new Set(["delbo"]); // may be below 0, so that a logarithm would hide it

export class Curves {
  constructor() {
    Object.assign(this, { shown: false, scale: "linear", window: "", axis: "at", charts: new Map(), timer: null, generation: 0, fault: null });
    byId("curves-tools").append(
      segments("Scale", [["linear", "Linear"], ["log", "Log"]], this.scale, (scale) => this.change({ scale })),
      segments("Time", WINDOWS, this.window, (window) => this.change({ window })),
      segments("Over", [["at", "By time"], ["round", "By round"]], this.axis, (axis) => this.change({ axis })));
    this.legend = element("ul", { class: "dots" });
    byId("curves-grid").before(this.legend);
    new ResizeObserver(() => this.resize()).observe(byId("curves-grid"));
  }

  enter() {
    this.shown = true;
    if (this.state) this.tick();
  }

  leave() {
    this.shown = false;
    clearTimeout(this.timer);
    this.generation += 1;
  }

  recolor() {
    if (this.told && this.shown) this.draw(globalThis.Plotly);
  }

  resize() {
    if (!this.shown || !globalThis.Plotly) return;
    for (const { plot } of this.charts.values()) if (plot.data) globalThis.Plotly.Plots.resize(plot);
  }

  change(choice) {
    Object.assign(this, choice);
    this.tick();
  }

  update(state) {
    const first = !this.state;
    this.state = state;
    const agents = state.agents.filter((agent) => agent.watched);
    this.explain();
    const names = JSON.stringify(agents.map((agent) => agent.name));
    if (names !== this.names) {
      this.names = names;
      this.legend.replaceChildren(...agents.map((agent) => element("li", {}, swatch(agent.number), agent.name)));
    }
    if (first && this.shown) this.tick();
  }

  explain() {
    const said = this.fault ?? (this.state.agents.length ? null : "There are no agents to watch.");
    byId("curves-empty").hidden = said === null;
    setText(byId("curves-empty"), said ?? "");
  }

  async tick() {
    clearTimeout(this.timer);
    if (!this.shown || !this.state) return;
    const generation = ++this.generation;
    if (!document.hidden) {
      try {
        const plotly = await loadPlotly();
        const told = await getJson(`/api/curves${this.window ? `?window_s=${this.window}` : ""}`);
        if (generation !== this.generation) return;
        this.told = told;
        this.fault = null;
        this.draw(plotly);
      } catch (fault) {
        this.fault = fault.message;
      }
      this.explain();
    }
    if (generation === this.generation) this.timer = setTimeout(() => this.tick(), 1000 * this.state.period_s);
  }

  draw(plotly) {
    // All frames first: each chart takes the width that it finds.
    for (const metric of this.told.metrics) if (!this.charts.has(metric.name)) this.makeChart(metric);
    for (const metric of this.told.metrics) {
      const chart = this.charts.get(metric.name);
      const agents = this.state.agents.filter((agent) => agent.watched);
      const points = metric.agents.reduce((sum, one) => sum + one.value.length, 0);
      chart.nothing.hidden = points > 0;
      const log = this.scale === "log" && !SIGNED.has(metric.name);
      const traces = agents.map((agent) => {
        const told = metric.agents[agent.number] ?? { at: [], round: [], value: [] };
        const x = this.axis === "at" ? told.at.map((seconds) => new Date(seconds * 1000)) : told.round;
        return line(agent, x, log ? told.value.map((value) => (value > 0 ? value : null)) : told.value);
      });
      const axes = { xaxis: { type: this.axis === "at" ? "date" : "linear", tickangle: 0, nticks: 5 }, yaxis: { type: log ? "log" : "linear", exponentformat: "SI" } };
      if (!log && !SIGNED.has(metric.name)) axes.yaxis.rangemode = "tozero";
      chart.plot.classList.toggle("unshown", points === 0);
      plotly.react(chart.plot, traces, layout({ ...axes, uirevision: `${this.scale} ${this.axis} ${this.window}` }), CONFIG);
      chart.plot.dataset.points = String(points);
    }
  }

  makeChart(metric) {
    const plot = element("div", { class: "plot", "data-metric": metric.name });
    const nothing = element("p", { class: "nothing" }, metric.name === "verification_error"
      ? "No scores yet. Agents that got verification data score themselves; see verification in docs/network.md." : "Nothing yet.");
    const csv = fileLink(`/api/curves.csv?metric=${metric.name}`, { "aria-label": `${metric.title} as CSV` }, "CSV");
    const png = element("button", { type: "button", "aria-label": `${metric.title} as PNG` }, "PNG");
    png.onclick = () => this.download(plot, metric);
    byId("curves-grid").append(element("article", { class: "card" },
      element("div", { class: "curve-head" }, element("div", {}, element("h2", {}, metric.title), element("p", {}, metric.unit)), csv, png),
      element("div", { class: "chart" }, plot, nothing)));
    this.charts.set(metric.name, { plot, nothing });
  }

  // As a picture that can stand alone: with its title and who is who.
  async download(plot, { name, title, unit }) {
    const words = { title: { text: `${title}: ${unit}`, font: { size: 14 } }, margin: { l: 8, r: 12, t: 48, b: 8 } };
    const figure = { data: plot.data, layout: { ...plot.layout, ...words, showlegend: true } };
    try {
      await globalThis.Plotly.downloadImage(figure, { format: "png", width: 960, height: 540, scale: 2, filename: name });
    } catch {
      toast("The picture could not be made.", true);
    }
  }
}

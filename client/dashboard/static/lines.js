// Beliefs without a map: a function of one coordinate with its band, or parameters with theirs.

import { getJson } from "./api.js";
import { CONFIG, band, layout, line, loadPlotly } from "./charts.js";
import { byId } from "./dom.js";

const DEVIATIONS = 2;

export class Lines {
  constructor() {
    this.told = this.fault = null;
    new ResizeObserver(() => {
      if (byId("lines-chart").data && !byId("lines").hidden) globalThis.Plotly.Plots.resize(byId("lines-chart"));
    }).observe(byId("lines"));
  }

  // isWanted(): whether nobody has chosen something else meanwhile
  async fetch(state, layer, isWanted) {
    try {
      const plotly = await loadPlotly();
      const told = await getJson("/api/lines");
      if (told.detail) throw new Error(told.detail);
      if (!isWanted()) return;
      Object.assign(this, { told, state, layer, fault: null });
      this.draw(plotly);
    } catch (fault) {
      this.fault = fault.message;
    }
  }

  leave() {
    if (this.told) globalThis.Plotly?.purge(byId("lines-chart"));
  }

  recolor() {
    if (this.told && globalThis.Plotly && !byId("lines").hidden) this.draw(globalThis.Plotly);
  }

  draw(plotly) {
    const { kind, x, agents } = this.told;
    const latent = this.layer === "function";
    const traces = [];
    this.state.agents.filter((agent) => agent.watched && agents[agent.number]).forEach((agent) => {
      const told = agents[agent.number];
      const middle = latent ? told.latent : told.expected;
      const deviation = latent ? told.latent_deviation : told.deviation;
      if (deviation) {
        const shifted = (times) => middle.map((value, index) => value + times * deviation[index]);
        traces.push(band(agent, x, shifted(-DEVIATIONS), shifted(DEVIATIONS)));
      }
      traces.push(line(agent, x, middle));
    });
    const titles = kind === "parameters" ? ["parameter", "mean"] : ["x", latent ? "the function behind y" : this.state.view.binary ? "probability of label 1" : "y"];
    const axes = { xaxis: { title: { text: titles[0] } }, yaxis: { title: { text: titles[1] } } };
    plotly.react(byId("lines-chart"), traces, layout({ ...axes, showlegend: true, legend: { orientation: "h", y: 1.08 }, uirevision: `${kind} ${this.layer}` }), CONFIG);
    byId("lines-chart").dataset.rounds = agents.map((one) => one?.round ?? "").join(",");
  }
}

// Beliefs without a map: a function of one coordinate with its band, or parameters with theirs.

import { getJson } from "./api.js";
import { CONFIG, band, layout, line, loadPlotly } from "./charts.js";
import { byId, setText } from "./dom.js";

const DEVIATIONS = 2;

export class Lines {
  constructor() {
    this.told = null;
    new ResizeObserver(() => {
      if (byId("lines-chart").data && !byId("lines").hidden) globalThis.Plotly.Plots.resize(byId("lines-chart"));
    }).observe(byId("lines"));
  }

  async fetch(state, layer) {
    try {
      const plotly = await loadPlotly();
      this.told = await getJson("/api/lines");
      this.state = state;
      this.layer = layer;
      this.draw(plotly);
      byId("maps-empty").hidden = true;
    } catch (fault) {
      byId("maps-empty").hidden = false;
      setText(byId("maps-empty"), fault.message);
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
    plotly.react(byId("lines-chart"), traces, layout({ ...axes, showlegend: true, legend: { orientation: "h", y: 1.08 } }), CONFIG);
    byId("lines-chart").dataset.rounds = agents.map((one) => one?.round ?? "").join(",");
  }
}

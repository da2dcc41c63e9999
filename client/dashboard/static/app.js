// The page: which view is shown, what is known of the network, and what all views share.

import { AgentDialog } from "./agent_dialog.js";
import { ActionBar } from "./actions.js";
import { Curves } from "./curves.js";
import { byId, setAttribute, setText } from "./dom.js";
import { Maps } from "./maps.js";
import { Network } from "./network.js";
import { Source } from "./source.js";
import { count, isDark, plural } from "./words.js";

const CONNECTIONS = { loading: "connecting", live: "live", polling: "live, every few seconds", lost: "no connection to the dashboard's server" };
const NAMES = ["network", "maps", "curves"];

const dialog = new AgentDialog();
const views = { network: new Network((number) => dialog.open(number)), maps: new Maps(), curves: new Curves() };
const actions = new ActionBar(byId("actions"));
let state = null;
let shown = null;

function show(name) {
  shown = NAMES.includes(name) ? name : "network";
  for (const one of NAMES) {
    byId(one).hidden = one !== shown;
    setAttribute(document.querySelector(`nav [data-view="${one}"]`), "aria-current", one === shown ? "page" : null);
    if (one !== shown) views[one].leave?.();
  }
  title();
  views[shown].enter?.();
  if (state) views[shown].update(state);
}

function title() {
  const view = shown[0].toUpperCase() + shown.slice(1);
  document.title = state ? `${view} · ${state.name} · delbo` : `${view} · delbo`;
}

function update(newest) {
  if (state && watched(newest) !== watched(state)) location.reload(); // another dashboard is behind this address now
  state = newest;
  document.body.dataset.loaded = "true";
  setText(byId("network-name"), state.name);
  title();
  byId("summary").replaceChildren(...summary(state));
  actions.update(state);
  dialog.update(state);
  views[shown].update(state);
}

const watched = (state) => state.agents.filter((agent) => agent.watched).length;

function summary(state) {
  const agents = state.agents.filter((agent) => agent.watched);
  const there = agents.filter((agent) => ["ok", "idle", "fault"].includes(agent.health));
  const strong = (text) => Object.assign(document.createElement("strong"), { textContent: text });
  if (!there.length) {
    return [agents.every((agent) => agent.health === "loading") ? "Asking the agents for the first time."
      : "No agent answers. Start them with delbo up, or delbo demo --keep; the page finds them by itself."];
  }
  const rounds = there.map((agent) => agent.rounds);
  const [least, most] = [Math.min(...rounds), Math.max(...rounds)];
  const parts = [
    strong(there.length === agents.length ? plural(agents.length, "agent") : `${there.length} of ${plural(agents.length, "agent")} answer`),
    " · round ", strong(least === most ? count(most) : `${count(least)} to ${count(most)}`),
    " · ", strong(count(there.reduce((sum, agent) => sum + (agent.observations ?? 0), 0))), " observations learned",
  ];
  const waiting = there.reduce((sum, agent) => sum + (agent.backlog ?? 0), 0);
  if (waiting) parts.push(" · ", strong(count(waiting)), " waiting");
  if (there.length && there.every((agent) => agent.paused)) parts.push(" · ", strong("paused"));
  return parts;
}

function tell(connection) {
  document.body.dataset.connection = connection;
  setText(byId("connection"), CONNECTIONS[connection]);
}

function themeButton() {
  const button = byId("theme");
  const name = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `Change to the ${button.textContent.toLowerCase()} theme`);
  };
  const changed = () => {
    name();
    for (const view of Object.values(views)) view.recolor?.();
    if (state) views[shown].update(state);
  };
  button.onclick = () => {
    const theme = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = theme;
    changed();
    try {
      localStorage.setItem("delbo-theme", theme);
    } catch { /* storage is switched off: it holds until the page is closed */ }
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
  name();
}

addEventListener("hashchange", () => NAMES.includes(location.hash.slice(1)) && show(location.hash.slice(1)));
addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input:not([type=checkbox]), select, textarea, dialog");
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const name = NAMES[Number(event.key) - 1];
  if (name) location.hash = name;
});
document.querySelector(".skip").onclick = (event) => {
  event.preventDefault();
  byId("view").focus();
};
themeButton();
tell("loading");
show(location.hash.slice(1));
new Source(update, tell).start();

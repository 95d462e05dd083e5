// The page: asks the driver once a second, and shows the answer.

import { sparkline } from "./charts.js";
import { showDetails } from "./details.js";
import { duration, el, refresh, short } from "./elements.js";

const EVERY_MS = 1000;
const byId = (id) => document.getElementById(id);
const page = { query: null, span: 900, token: "", turn: 0, shown: null };

function readToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    page.token = given;
    history.replaceState(null, "", location.pathname);
  }
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  byId("theme").textContent = theme === "dark" ? "Light" : "Dark";
}

function startTheme() {
  const asked = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  setTheme(localStorage.getItem("penstock-theme") ?? asked);
  byId("theme").addEventListener("click", () => {
    const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    localStorage.setItem("penstock-theme", next);
    setTheme(next);
  });
}

const HEAD = ["query", "batch duration", "records/s", "backlog", "latency"];

function queryRow(one) {
  const chosen = one.id === page.shown;
  const row = el("tr", { class: chosen ? "chosen" : null, "data-query": one.id },
    el("td", { title: one.name },
      el("button", { type: "button", "aria-pressed": chosen }, one.name),
      el("span", { class: `state ${one.state}` }, one.state,
        one.alerts > 0 && el("span", { class: "bad" },
          `, ${one.alerts} ${one.alerts > 1 ? "warnings" : "warning"}`))),
    el("td", { class: "curved" }, sparkline(one.recent),
      el("span", { "data-field": "duration", "data-value": one.duration_ms },
        duration(one.duration_ms))),
    el("td", { "data-field": "rate" }, short(one.rate_per_s)),
    el("td", { "data-field": "backlog" }, short(one.backlog)),
    el("td", { "data-field": "latency" }, duration(one.latency_ms)));
  row.addEventListener("click", () => {
    page.query = one.id;
    load();
  });
  return row;
}

function showAlerts({ alerts, more_alerts: more }) {
  const drawn = alerts.map((one) =>
    el("div", { class: "alert" },
      el("b", {}, one.operator ? `${one.query_name} · ${one.operator}` : one.query_name),
      one.text, one.way_out && el("span", { class: "out" }, `→ ${one.way_out}`)));
  if (more) drawn.push(el("div", { class: "alert" }, `${more} more warnings are not shown.`));
  return drawn;
}

function show(data) {
  const { name, master, spark, penstock } = data.application;
  byId("application").textContent = `${name} · ${master} · Spark ${spark} · Penstock ${penstock}`;
  document.title = `${name} · Penstock`;
  const none = data.selected === null;
  byId("main").hidden = none;
  byId("empty").hidden = !none;
  if (none) return;
  page.shown = data.selected.id;
  refresh(byId("alerts"), { alerts: data.alerts, more_alerts: data.more_alerts }, showAlerts);
  refresh(byId("queries"), [page.shown, data.queries], () => [
    el("thead", {}, el("tr", {}, HEAD.map((one) => el("th", { scope: "col" }, one)))),
    el("tbody", {}, data.queries.map(queryRow)),
  ]);
  const row = data.queries.find((one) => one.id === page.shown);
  showDetails(byId("details"), data, row, page.span);
}

function live(text, lost) {
  byId("live").textContent = text;
  byId("live").classList.toggle("lost", lost);
}

async function ask() {
  const asked = new URLSearchParams({ span: page.span });
  if (page.query !== null) asked.set("query", page.query);
  const headers = page.token ? { Authorization: `Bearer ${page.token}` } : {};
  try {
    const answer = await fetch(`data?${asked}`, { headers, cache: "no-store" });
    byId("login").hidden = answer.status !== 401;
    return answer.ok ? await answer.json() : null;
  } catch {
    return null; // the driver has gone
  }
}

async function load() {
  const turn = ++page.turn;
  const data = await ask();
  if (turn !== page.turn) return; // a newer request is under way
  live(data ? "live" : "the driver does not answer", !data);
  if (data) show(data);
}

async function run() {
  if (!document.hidden) await load();
  setTimeout(run, EVERY_MS);
}

readToken();
startTheme();
byId("span").addEventListener("change", (event) => {
  page.span = Number(event.target.value);
  load();
});
byId("login").addEventListener("submit", (event) => {
  event.preventDefault();
  page.token = byId("token").value;
  load();
});
run();

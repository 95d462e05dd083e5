// Everything about one query: curves, operators, executors, state, plans.

import { bars, curve } from "./charts.js";
import { clock, duration, el, percent, plain, refresh, short, time, whole } from "./elements.js";

const CURVES = [
  ["duration_ms", "Batch duration", time],
  ["rate_per_s", "Input rate", plain("records/s")],
  ["backlog", "Backlog", plain("records")],
  ["latency_ms", "Latency (estimate)", time],
];

function meter(name, share, text, { slow = false, code = false } = {}) {
  const bar = el("i", { class: slow ? "slow" : null });
  bar.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
  return el("div", { class: "meter" },
    el(code ? "code" : "span", { title: name }, name),
    el("div", { class: "track" }, bar), el("span", {}, text));
}

function drawCurves({ curves, now, span, target }) {
  const shared = { times: curves.time_s, until: now, span };
  const drawn = CURVES.map(([name, title, format]) =>
    curve({ ...shared, title, format, values: curves[name] ?? [] }));
  if (target !== null) {
    drawn.push(
      curve({
        ...shared, title: "Waiting time", format: time,
        values: curves.waiting_ms ?? [], target, targetName: "target",
      }),
      curve({
        ...shared, title: "Shed records", format: plain("%"),
        values: (curves.shed_share ?? []).map((one) => (one === null ? null : 100 * one)),
      }));
  }
  if ((curves.executors ?? []).some((one) => one !== null)) {
    drawn.push(curve({
      ...shared, title: "Executors", format: plain("now"), counts: true,
      values: curves.executors, second: curves.wanted, secondName: "wanted",
    }));
  }
  return el("div", { class: "curves" }, drawn);
}

function count(name, value, text, bad = false) {
  return el("div", {},
    el("b", { class: bad ? "bad" : null, "data-field": name, "data-value": value }, text),
    el("span", {}, name));
}

function drawBusy(one) {
  if (!one.busy_ms.length) return el("p", { class: "soft" }, "No batch is complete yet.");
  const labels = one.busy_ms.map((ms, i) =>
    `instance ${i}: ${duration(ms)}, ${whole(one.records[i])} records`);
  const more = one.instances > one.busy_ms.length
    ? ` The first ${one.busy_ms.length} of ${whole(one.instances)} are shown.` : "";
  return [
    el("h4", {}, `Busy time of each instance in batch ${one.last_batch}. The batch waits for the ` +
      `tallest bar.${more}`),
    bars({ values: one.busy_ms, labels, format: time, label: "busy time of each instance" }),
  ];
}

function drawKeys(keys) {
  if (!keys.length) return null;
  const named = keys.some((one) => one.name !== null);
  const most = keys[0].share || 1;
  return el("div", {},
    el("h4", {}, `Hot keys${named ? "" : " (hashes)"}: share of time, cost of a record`),
    keys.map((one) => meter(one.name ?? one.key, one.share / most,
      `${percent(one.share)}, ${duration(one.cost_ms)}`, { code: one.name === null })));
}

function drawSpeeds(slowdowns) {
  const found = Object.entries(slowdowns).sort((a, b) => b[1] - a[1]).slice(0, 16);
  if (!found.length) return null;
  const most = Math.max(...found.map(([, slowdown]) => slowdown), 1);
  return el("div", {},
    el("h4", {}, "Executors: time for a record, over the median executor"),
    found.map(([name, slowdown]) => meter(/^\d+$/.test(name) ? `executor ${name}` : name,
      slowdown / most, `${slowdown.toFixed(2)} ×`, { slow: slowdown >= 1.5 })));
}

function drawOperator(one) {
  const fields = Object.entries(one.counts).map(([name, value]) =>
    count(name, value, whole(value), name === "failed" && value > 0));
  const shedding = one.target_ms === null ? [] : [
    count("waiting", one.waiting_ms, duration(one.waiting_ms), one.waiting_ms > one.target_ms),
    count("target", one.target_ms, duration(one.target_ms)),
    count("shed share", one.shed_share, percent(one.shed_share)),
  ];
  return el("article", { class: "card", "data-operator": one.name },
    el("div", { class: "row" }, el("h3", {}, one.name), el("span", { class: "chip" }, one.state)),
    el("div", { class: "counts" }, fields, shedding,
      count("active instances", one.active, `${one.active} of ${one.instances}`),
      count("imbalance", one.imbalance, one.imbalance === null ? "–" : one.imbalance.toFixed(2)),
      count("fallbacks", one.fallbacks, whole(one.fallbacks), one.fallbacks > 0)),
    one.fallback_reason && el("p", { class: "bad" }, `Last fallback: ${one.fallback_reason}`),
    drawBusy(one),
    el("div", { class: "grid below" }, drawKeys(one.hot_keys), drawSpeeds(one.slowdowns)));
}

function drawState(state) {
  if (state === null) return null;
  const leaving = new Map(state.moving.map((one) => [one.key_group, one.target]));
  return el("div", {},
    el("h4", {}, "Where state lives: one square is one key group; outlined ones move"),
    el("div", { class: "places" }, state.executors.map((one) =>
      el("div", { class: "place", "data-executor": one.name },
        el("span", {}, `executor ${one.name}`, el("span", { class: "state-speed soft" },
          ` ${one.speed.toFixed(2)} ×`)),
        el("div", { class: "groups" }, one.key_groups.map((group) =>
          el("i", {
            class: leaving.has(group) ? "leaving" : null,
            title: leaving.has(group) ? `${group}, moves to executor ${leaving.get(group)}` : group,
          })))))),
    state.more > 0 && el("p", { class: "soft" }, `${whole(state.more)} more are not shown.`));
}

function drawAttached(one) {
  if (one === null) return null;
  const points = (value) => (value === null ? "–" : `${short(value)} points`);
  const state = one.state;
  return el("article", { class: "card", id: "attached" },
    el("div", { class: "row" }, el("h3", {}, "Executors and state"),
      one.dry_run && el("span", { class: "chip" }, "dry run"),
      !one.running && el("span", { class: "chip" }, "ended")),
    el("div", { class: "counts" },
      count("executors now", one.executors, whole(one.executors)),
      count("wanted", one.wanted, whole(one.wanted)),
      count("arriving records/s", one.rate_per_s, short(one.rate_per_s)),
      count("pending records", one.pending, whole(one.pending)),
      state && count("load distance", one.distance, points(one.distance)),
      state && count("expected distance", state.expected, points(state.expected)),
      state && count("moving", state.moving.length, whole(state.moving.length)),
      count("moved", one.moved, whole(one.moved)),
      count("not moved", one.not_moved, whole(one.not_moved), one.not_moved > 0),
      count("loop failures", one.failures, whole(one.failures), one.failures > 0)),
    el("p", { "data-field": "reason" }, one.reason),
    drawState(state));
}

function drawPlans(plans) {
  if (!plans.length) return null;
  const bad = new Set(["warning", "failure"]);
  return el("article", { class: "card" },
    el("h4", {}, "Newest plans and their reasons"),
    el("ul", { class: "plans" }, plans.map((one) =>
      el("li", {},
        el("span", { class: "soft" }, clock(one.time_s)),
        el("span", { class: bad.has(one.kind) ? "bad" : "soft" },
          one.kind + (one.dry_run ? " (dry)" : "")),
        el("span", {}, one.operator && el("b", {}, `${one.operator} `), one.reason)))));
}

// Parts of the page that are drawn again on their own.
const PARTS = ["head", "curves", "operators", "attached", "plans"];

export function showDetails(place, data, row, span) {
  if (place.children.length !== PARTS.length) {
    place.replaceChildren(...PARTS.map((name) => el("div", { "data-part": name })));
  }
  const part = (name) => place.querySelector(`[data-part="${name}"]`);
  const selected = data.selected;
  const target = selected.operators.find((one) => one.target_ms !== null)?.target_ms ?? null;
  refresh(part("head"), [row.name, row.state, row.batch, row.id, row.failure], () =>
    el("div", { class: "row" },
      el("h3", { id: "chosen" }, row.name),
      el("span", { class: `state ${row.state}`, "data-field": "state" }, row.state),
      row.batch !== null && el("span", { class: "soft" }, `batch ${whole(row.batch)}`),
      row.failure && el("span", { class: "bad" }, row.failure)));
  const now = row.state === "active" ? data.time_s : selected.curves.time_s?.at(-1) ?? data.time_s;
  refresh(part("curves"), { curves: selected.curves, now, span, target }, (found) =>
    row.id === "" ? null : drawCurves(found));
  refresh(part("operators"), selected.operators, (found) => found.map(drawOperator));
  refresh(part("attached"), selected.attached, drawAttached);
  refresh(part("plans"), selected.plans, drawPlans);
}

// Curves and bars as SVG.

import { el, inWords, onAxis, short, svg } from "./elements.js";

const WIDTH = 220, HEIGHT = 92, LEFT = 36, BOTTOM = 16, TOP = 6;

// The smallest round number that is not below a value. Half of it is whole, too, on an axis that
// counts.
function rounded(value, counts = false) {
  if (counts && value <= 10) return 2 * Math.max(1, Math.ceil(value / 2));
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 3, 5, 10].map((step) => step * power).find((one) => one >= value * 0.999);
}

const known = (numbers) => numbers.filter((one) => one !== null && one !== undefined);

function frame(top, height, format) {
  const y = (value) => height - BOTTOM - ((height - BOTTOM - TOP) * value) / top;
  const lines = [0, top / 2, top].map((value) => [
    svg("line", { class: "axis", x1: LEFT, x2: WIDTH, y1: y(value), y2: y(value) }),
    svg("text", { x: LEFT - 5, y: y(value) + 3, "text-anchor": "end" }, onAxis(format(value))),
  ]);
  return { y, lines };
}

// A path for each run of known points.
function runs(times, values, x, y) {
  const found = [];
  let run = [];
  values.forEach((value, i) => {
    if (value === null || value === undefined) {
      if (run.length) found.push(run);
      run = [];
    } else run.push([x(times[i]), y(value)]);
  });
  if (run.length) found.push(run);
  return found;
}

const path = (points) =>
  points.map(([a, b], i) => `${i ? "L" : "M"}${a.toFixed(1)} ${b.toFixed(1)}`).join("");

function ago(seconds) {
  return seconds >= 120 ? `${short(seconds / 60)} min ago` : `${short(seconds)} s ago`;
}

// One number over time, with its newest value in large letters.
export function curve(options) {
  const { title, times, values, second, secondName, format, target, targetName } = options;
  const { until, span, counts } = options;
  const all = [...known(values), ...known(second ?? []), ...(target ? [target] : [])];
  const top = rounded(Math.max(...all, 0) * (counts ? 1 : 1.05), counts);
  const { y, lines } = frame(top, HEIGHT, format);
  const x = (seconds) => LEFT + (WIDTH - LEFT) * (1 - (until - seconds) / span);
  const parts = runs(times ?? [], values, x, y).map((run) => [
    svg("path", {
      class: "area",
      d: `${path(run)}L${run.at(-1)[0].toFixed(1)} ${y(0)}L${run[0][0].toFixed(1)} ${y(0)}Z`,
    }),
    svg("path", { class: "curve", d: path(run.length > 1 ? run : [run[0], run[0]]) }),
  ]);
  const others = runs(times ?? [], second ?? [], x, y).map((run) =>
    svg("path", { class: "curve second", d: path(run) }));
  const limit = target ? [
    svg("line", { class: "target", x1: LEFT, x2: WIDTH, y1: y(target), y2: y(target) }),
    svg("text", { class: "of-target", x: WIDTH, y: y(target) - 4, "text-anchor": "end" },
      `${targetName} ${inWords(format(target))}`),
  ] : [];
  const newest = format(values.at(-1) ?? null);
  return el("div", { class: "card chart" },
    el("h4", {}, title),
    el("p", {}, el("span", { class: "value" }, newest.text),
      el("span", { class: "unit" }, newest.unit),
      second && el("span", { class: "unit wanted" }, `${short(second.at(-1))} ${secondName}`)),
    svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": title },
      lines, parts, others, limit,
      svg("text", { x: LEFT, y: HEIGHT - 3 }, ago(span)),
      svg("text", { x: WIDTH, y: HEIGHT - 3, "text-anchor": "end" }, "now")));
}

export function sparkline(values) {
  const found = known(values);
  const top = Math.max(...found, 1e-9);
  const x = (i) => (values.length > 1 ? (64 * i) / (values.length - 1) : 64);
  const places = values.map((_, i) => i);
  return svg("svg", { class: "spark", viewBox: "0 0 64 20", "aria-hidden": "true" },
    runs(places, values, x, (value) => 18 - (16 * value) / top).map((run) =>
      svg("path", { class: "curve", d: path(run.length > 1 ? run : [run[0], run[0]]) })));
}

// Busy time of each instance, and the mean of all: the batch waits for the tallest bar.
export function bars({ values, labels, format, label }) {
  const width = 860, height = 160;
  const top = rounded(Math.max(...values, 0) * 1.05);
  const most = Math.max(...values);
  const mean = values.reduce((sum, one) => sum + one, 0) / values.length;
  const y = (value) => height - BOTTOM - ((height - BOTTOM - TOP) * value) / top;
  const step = (width - LEFT - 84) / values.length;
  const every = Math.ceil(values.length / 32);
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label },
    [0, top / 2, top].map((value) => [
      svg("line", { class: "axis", x1: LEFT, x2: width - 84, y1: y(value), y2: y(value) }),
      svg("text", { x: LEFT - 5, y: y(value) + 3, "text-anchor": "end" }, onAxis(format(value))),
    ]),
    values.map((value, i) => [
      svg("rect", {
        class: value === most && most > 0 ? "bar most" : "bar",
        x: LEFT + step * (i + 0.12), width: step * 0.76, y: y(value),
        height: Math.max(0, y(0) - y(value)), rx: Math.min(2, step / 4), "data-instance": i,
      }, svg("title", {}, labels[i])),
      i % every === 0 && svg("text",
        { x: LEFT + step * (i + 0.5), y: height - 3, "text-anchor": "middle" }, i),
    ]),
    svg("line", { class: "mean", x1: LEFT, x2: width - 80, y1: y(mean), y2: y(mean) }),
    svg("text", { class: "of-mean", x: width - 77, y: y(mean) + 3 },
      `mean ${inWords(format(mean))}`));
}

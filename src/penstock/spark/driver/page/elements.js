// Elements and numbers. Text from outside becomes text nodes only, never HTML.

const SVG = "http://www.w3.org/2000/svg";

function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    made.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(2)) {
    if (child !== null && child !== undefined && child !== false) {
      made.append(child instanceof Node ? child : document.createTextNode(String(child)));
    }
  }
  return made;
}

export const el = (tag, attributes = {}, ...children) =>
  filled(document.createElement(tag), attributes, children);

export const svg = (tag, attributes = {}, ...children) =>
  filled(document.createElementNS(SVG, tag), attributes, children);

// Draws again only if the data have changed, so that selections and scroll bars stay.
const drawn = new WeakMap();
export function refresh(element, data, draw) {
  const key = JSON.stringify(data);
  if (drawn.get(element) === key) return;
  drawn.set(element, key);
  element.replaceChildren(...[draw(data)].flat().filter(Boolean));
}

export const whole = (number) =>
  number === null || number === undefined ? "–" : Math.round(number).toLocaleString("en-US");

// Up to three significant digits, without an exponent.
export function short(number) {
  if (number === null || number === undefined) return "–";
  const size = Math.abs(number);
  if (size >= 1e6) return `${short(number / 1e6)}M`;
  if (size >= 1e4) return `${short(number / 1e3)}k`;
  const digits = size >= 100 || size === 0 ? 0 : size >= 10 ? 1 : 2;
  return number.toLocaleString("en-US", { maximumFractionDigits: digits });
}

export function time(ms) {
  if (ms === null || ms === undefined) return { text: "–", unit: "" };
  if (ms >= 600000) return { text: short(ms / 60000), unit: "min" };
  if (ms >= 1000) return { text: short(ms / 1000), unit: "s" };
  return { text: short(ms), unit: "ms" };
}

export const inWords = (value) => (value.unit ? `${value.text} ${value.unit}` : value.text);
// Times carry their unit on an axis; other units are named beside the newest value.
const TIMES = new Set(["ms", "s", "min"]);
export const onAxis = (value) => (TIMES.has(value.unit) ? inWords(value) : value.text);
export const duration = (ms) => inWords(time(ms));
export const percent = (share) =>
  share === null || share === undefined ? "–" : `${short(100 * share)}%`;
export const plain = (unit) => (number) => ({ text: short(number), unit });
export const clock = (seconds) => new Date(1000 * seconds).toLocaleTimeString("en-GB");

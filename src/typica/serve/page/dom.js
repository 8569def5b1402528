// Elements are made here and nowhere else: text is always text, whatever names of files and classes hold.

const SVG = "http://www.w3.org/2000/svg";

/** Return the element with an id. */
export const byId = id => document.getElementById(id);

/** Return an element: properties by their names, then its children, elements or texts. */
export function el(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined) continue;
    if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children.filter(child => child !== null && child !== undefined));
  return made;
}

/** Return an SVG element with attributes and children. */
export function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** Put children in place of those that an element has. */
export function fill(parent, ...children) {
  parent.replaceChildren(...children.filter(child => child !== null && child !== undefined));
}

const WORDS = { inf: Infinity, "-inf": -Infinity }; // numbers that JSON lacks

/** Return a number that the server sent; NaN for what is none. */
export const number = value => typeof value === "number" ? value : WORDS[value] ?? NaN;

/** Write a score: four digits that matter. */
export function score(value) {
  const x = number(value);
  if (!Number.isFinite(x)) return Number.isNaN(x) ? "–" : x > 0 ? "∞" : "−∞";
  const size = Math.abs(x);
  const text = size !== 0 && (size < 1e-3 || size >= 1e5) ? x.toExponential(2) : x.toPrecision(4);
  return text.replace("-", "−");
}

/** Write a p-value: as many digits as it is worth. */
export function pValue(value) {
  const x = number(value);
  if (!Number.isFinite(x)) return "–";
  return x >= 0.001 ? x.toPrecision(2).replace(/^1\.0$/, "1") : x.toExponential(1);
}

/** Write a share as a percentage. */
export function percent(value) {
  const x = 100 * number(value);
  if (!Number.isFinite(x)) return "–";
  return `${Number(x.toFixed(x < 10 ? 2 : 1))} %`;
}

/** Write a count. */
export const count = value => number(value).toLocaleString("en-US");

/** Return "a, b and c". */
export function listed(names, most = 12) {
  const shown = names.slice(0, most).map(String);
  if (names.length > most) shown.push(`${count(names.length - most)} more`);
  if (shown.length < 2) return shown.join("");
  return `${shown.slice(0, -1).join(", ")} and ${shown.at(-1)}`;
}

let waiting = 0;

/** Say something to those who listen to the page; what is said in haste is said once, at the end. */
export function say(text) {
  clearTimeout(waiting);
  waiting = setTimeout(() => { byId("spoken").textContent = text; }, 250);
}

/** Say what must not be missed, beside whatever else is said. */
export function warn(text) {
  byId("warned").textContent = text;
}
